--- The prompt box of an agent's CLI in a terminal of this Neovim: its text and, for Claude Code, a prompt that is sent
--- from another device.
---
--- Claude Code 2.1.329 draws the box between the last two horizontal lines on the screen, with ❯ before its first line.
--- Text that the user typed is followed by the cursor's blank. A suggestion by the CLI is not, and disappears with the
--- first key. A paste of several lines is shown as [Pasted text #1 +9 lines].
local M = {}

local PASTE, PASTED = '\27[200~', '\27[201~'
local ENTER, UNDO = '\r', '\31'
-- Older Neovims drop blanks at the ends of a terminal's lines, so any text in the box may be the user's and counts as theirs.
local CUTS_BLANKS = vim.fn.has('nvim-0.10') == 0
local LOOKED_AT = 200 -- the maximum number of lines that are read from a screen
local CHOICES_WITHIN = 40 -- the number of lines at the end of the screen that may contain a dialog's choices

local pasted = {} ---@type table<integer, string> The pasted text until it is submitted, by process ID.

local function refuse(message)
  error({ code = 'REFUSED', message = message })
end

--- A text without joiners and variation selectors, without what the CLI adds, such as [⧉ In a.txt], and without blanks,
--- because the CLI wraps lines.
local function squeezed(text)
  text = text:gsub('%s', ''):gsub('\194\160', ''):gsub('\226\128\141', ''):gsub('\239\184\143', '')
  return (text:gsub('%[⧉[^%]]*%]', ''))
end

--- A text in which nothing ends the paste or acts as a key. The only control characters left are line feeds and tabs.
local function harmless(text)
  text = text:gsub('\r\n?', '\n'):gsub('\194[\128-\159]', '')
  return (text:gsub('[%z\1-\8\11-\31\127]', ''))
end

--- The prompt box of Claude Code: its text, squeezed, whether the user has typed it, and the lines below. nil if the
--- screen shows no box, or a dialog with choices.
local function claude_box(lines)
  local rules = {}
  for number, line in ipairs(lines) do
    if vim.startswith(line, '───') then
      table.insert(rules, number)
    end
  end
  local top, bottom = rules[#rules - 1], rules[#rules]
  if not top or not vim.startswith(lines[top + 1], '❯') then
    return nil
  end
  local below = table.concat(lines, '\n', bottom + 1)
  if below:find('❯', 1, true) then
    return nil -- the screen shows the choices of a dialog
  end
  local shown = squeezed((table.concat(lines, '', top + 1, bottom - 1):gsub('^❯', '')))
  return shown, shown ~= '' and (CUTS_BLANKS or lines[bottom - 1]:sub(-1) == ' '), below
end

--- The prompt box of Gemini CLI 0.61, between two bars, with >, ! or * before its first line: its text, and whether the
--- user has typed it. nil if the screen shows no box, or a dialog.
local function gemini_box(lines)
  for number = #lines, 1, -1 do
    local line = lines[number]
    if line:find('╭', 1, true) then
      return nil -- a dialog
    elseif line:find('^%s*▀▀▀') then
      for top = number - 1, 1, -1 do
        if lines[top]:find('^%s*▄▄▄') then
          local text = table.concat(lines, '', top + 1, number - 1)
          local shown = text:match('^%s*[>!*]%s*(.-)%s*$')
          return shown, shown and shown ~= '' and not vim.startswith(shown, 'Type your message')
        end
      end
    end
  end
end

local function lines_of(buffer)
  return vim.api.nvim_buf_get_lines(buffer, -LOOKED_AT - 1, -1, false)
end

--- The text in the box, squeezed, and whether the user has typed it. nil if the CLI shows no box, or is working.
local function content(buffer)
  local shown, typed, below = claude_box(lines_of(buffer))
  if not shown or below:find('esc to interrupt', 1, true) then
    return nil
  end
  return shown, typed
end

--- Whether the screen ends in the choices of a dialog, one of which is marked: "❯ 1. Yes" by Claude Code, "● 1. Yes" by
--- Gemini CLI, in a frame.
local function has_choices(lines)
  local choices, marked = 0, false
  for number = #lines, math.max(1, #lines - CHOICES_WITHIN), -1 do
    local line = lines[number]:gsub('│', ' '):gsub('\194\160', ' ')
    local is_marked = line:find('^%s*❯%s*%d+%.%s') or line:find('^%s*●%s*%d+%.%s')
    if is_marked or line:find('^%s*%d+%.%s') then
      choices = choices + 1
      marked = marked or is_marked ~= nil
    end
  end
  return marked and choices > 1
end

--- The state of an agent's prompt box in a terminal: "unclear" if a suggestion by the CLI would look the same as
--- typed text, "dialog" if a dialog has replaced the box.
---@param buffer integer
---@return 'empty'|'typed'|'unclear'|'dialog'|nil state nil if the screen shows neither a box nor a dialog
---@return string? text The text in the box; for Claude Code, without its blanks.
function M.state(buffer)
  local lines = lines_of(buffer)
  local shown, typed = claude_box(lines)
  local unclear = shown and CUTS_BLANKS
  if not shown then
    shown, typed = gemini_box(lines)
  end
  if not shown then
    return has_choices(lines) and 'dialog' or nil
  end
  return not typed and 'empty' or (unclear and 'unclear' or 'typed'), shown
end

local function session_of(pid)
  local session = require('drawbridge.terminal').session_of(pid)
  if not session then
    refuse("The agent's terminal has been closed, so your prompt was not sent.")
  end
  return session
end

--- Refuses a call that is processed too late, because the bridge gave up while Neovim was waiting for a key.
local function in_time(params)
  if os.time() > params.before then
    refuse('Neovim was busy for too long, so your prompt was not sent. Try again later.')
  end
end

--- Pastes a prompt into the box. Raises an error if the terminal has been closed, if it shows no box or one with text
--- that the user typed, if the CLI is working, or if `before` has passed. Neither windows nor modes change.
---@param params {pid: integer, text: string, before: number} `before`: the latest time, in Unix seconds.
function M.paste(params)
  local session = session_of(params.pid)
  in_time(params)
  local shown, typed = content(session.buffer)
  if not shown then
    local why = claude_box(lines_of(session.buffer)) and 'it is working' or 'its terminal does not show its prompt box'
    refuse(("The agent can't receive a prompt now: %s. Try again later."):format(why))
  elseif typed then
    refuse(
      "The prompt box in the agent's terminal contains text, so your prompt was not sent. Send or clear that text, "
        .. 'then try again.'
    )
  end
  local text = harmless(params.text)
  pasted[params.pid] = squeezed(text)
  vim.api.nvim_chan_send(session.job, PASTE .. text .. PASTED)
end

--- Presses Enter if the box shows only the pasted text, or only the placeholder of a paste. Returns whether Enter was
--- pressed. Raises an error if the terminal has been closed, or if `before` has passed.
---@param params {pid: integer, before: number}
function M.submit(params)
  local session = session_of(params.pid)
  in_time(params)
  local shown = content(session.buffer)
  if not shown or (shown ~= pasted[params.pid] and not shown:find('^%[Pastedtext#%d+[^%]]*%]$')) then
    return false
  end
  pasted[params.pid] = nil
  vim.api.nvim_chan_send(session.job, ENTER)
  return true
end

--- Removes the pasted text from the box.
---@param params {pid: integer}
function M.take_back(params)
  local session = session_of(params.pid)
  pasted[params.pid] = nil
  if (content(session.buffer) or '') ~= '' then
    vim.api.nvim_chan_send(session.job, UNDO)
  end
end

return M
