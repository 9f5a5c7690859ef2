--- One-line messages for the user. A longer message is cut, because it would cause "Press ENTER". `:DrawbridgeLog` shows
--- it in full. If its first sentence fits, that sentence is not cut.
local log = require('drawbridge.log')

local M = {}

local loop = vim.uv or vim.loop
local MOMENT = 100 -- ms
local shown_at = -MOMENT

local RANK = { debug = 1, info = 2, warn = 3, error = 4 }

local function fitted(text)
  local room = math.max(vim.v.echospace, 10)
  if vim.fn.strdisplaywidth(text) <= room then
    return text
  end
  local ending = room > 40 and '... (:DrawbridgeLog)' or '...'
  local sentence = text:match('^.-%.%f[%s]') or ''
  local width = vim.fn.strdisplaywidth(sentence)
  if width > room - #ending and width <= room then
    return sentence
  end
  return vim.fn.printf('%.' .. room - #ending .. 'S', text) .. ending
end

local function note(text)
  log.add(os.date('%Y-%m-%d %H:%M:%S ') .. text)
end

--- Draws the previous message if it may not be on the screen yet, because otherwise Neovim would show both and ask for
--- ENTER.
local function make_room()
  local now = loop.hrtime() / 1e6
  if now - shown_at < MOMENT and vim.api.nvim_get_mode().mode:find('^[niv]') then
    pcall(vim.cmd, 'redraw')
  end
  shown_at = now
end

local function notify(text, level)
  note(text)
  local function show()
    make_room()
    vim.notify(fitted(text), vim.log.levels[level:upper()])
  end
  if vim.v.vim_did_enter == 1 then
    vim.schedule(show)
  else
    -- Two messages before the first screen would make Neovim ask for ENTER.
    vim.api.nvim_create_autocmd('VimEnter', { once = true, callback = vim.schedule_wrap(show) })
  end
end

--- Shows the result of a user's command, whatever `log_level` is. `text` starts with what it is about, such as the
--- command's name.
---@param text string
---@param level? 'info'|'warn'|'error'
function M.answer(text, level)
  notify(text, level or 'info')
end

--- Shows a message that does not answer a command, if its level is at least the option `log_level`.
---@param text string
---@param level 'info'|'warn'|'error'
function M.notice(text, level)
  text = 'drawbridge: ' .. text
  if RANK[level] >= RANK[require('drawbridge.config').get().log_level] then
    notify(text, level)
  else
    note(text)
  end
end

--- Reports something that the user did not ask for, whatever `log_level` is. With `in_front`, a small window shows it
--- for some seconds as well, because a message on the last line is hidden in a terminal and replaced by the next
--- message.
---@param text string
---@param level 'info'|'warn'|'error'
---@param in_front boolean
function M.report(text, level, in_front)
  notify('drawbridge: ' .. text, level)
  if in_front then
    vim.schedule(function()
      require('drawbridge.view.notice').flash(text)
    end)
  end
end

--- Reports problems on one line, a single one in full, several by their first words. The log contains each in full.
---@param where string Where the problems are, such as `setup{}`.
---@param problems string[] Each begins with a name.
function M.problems(where, problems)
  if #problems == 1 then
    return M.notice(('%s: %s'):format(where, problems[1]), 'error')
  end
  local names = {}
  for _, problem in ipairs(problems) do
    note(('drawbridge: %s: %s'):format(where, problem))
    names[#names + 1] = problem:match('^%S+')
  end
  M.notice(("%s: can't use %s (:DrawbridgeLog)"):format(where, table.concat(names, ', ')), 'error')
end

return M
