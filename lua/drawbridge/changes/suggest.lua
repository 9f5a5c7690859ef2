--- Windows in which the user writes suggestions, which are lines that the agent should write instead of lines in a
--- file.
---
--- `:w` sends a suggestion. Its window closes once the server has stored the comment. If that fails, the window is shown
--- again with the text, which can be sent again: the server recognizes the id, and does not add the suggestion twice.
--- `:q!` discards a suggestion that was not sent.
local buffers = require('drawbridge.buffers')
local focus = require('drawbridge.view.focus')
local room = require('drawbridge.view.room')

local M = {}

local LEAST_ROWS, MOST_ROWS = 3, 15 -- the height of a window

---@class drawbridge.Suggestion
---@field lines string[] The lines that the suggestion replaces.
---@field is_sent boolean Whether the bridge has it and has not answered yet.
---@field id string The id of the request. It stays the same when the suggestion is sent again.

local open = {} ---@type table<integer, drawbridge.Suggestion> By buffer.

local function say(text)
  require('drawbridge.message').answer(':DrawbridgeSuggest: ' .. text, 'warn')
end

local function show(buffer)
  room.preserve_terminals(function()
    local rows = vim.api.nvim_buf_line_count(buffer) + 1
    vim.cmd(('belowright %dsplit'):format(math.max(LEAST_ROWS, math.min(rows, MOST_ROWS))))
    vim.api.nvim_win_set_buf(0, buffer)
  end)
end

--- Shows a suggestion that was not added, unless the user has closed it. Waits until the user is free.
local function show_again(buffer)
  local function now()
    if not open[buffer] then
      return
    elseif not vim.fn.win_findbuf(buffer)[1] then
      show(buffer)
    end
    vim.bo[buffer].bufhidden = 'wipe'
  end
  if vim.fn.win_findbuf(buffer)[1] then
    return now()
  end
  focus.when_free(buffer, now, function()
    return vim.api.nvim_get_mode().mode == 'n'
  end)
end

local function give_back(buffer)
  open[buffer].is_sent = false
  local options = vim.bo[buffer]
  options.modifiable, options.modified = true, true
  show_again(buffer)
end

---@param send fun(lines: string[], id: string): string? Sends the suggestion, or returns why it can't be sent. No lines:
--- to remove them.
local function write(buffer, send)
  local one = open[buffer]
  if not one or one.is_sent then
    return
  end
  local lines, is_removal = vim.api.nvim_buf_get_lines(buffer, 0, -1, true), buffers.is_empty(buffer)
  local is_same = not is_removal and vim.deep_equal(lines, one.lines)
  if is_same then
    return say('change the lines first')
  end
  -- After `:wq`, the buffer has no window, but its text must not be lost.
  local options = vim.bo[buffer]
  options.bufhidden, options.modified, options.modifiable = 'hide', false, false
  one.is_sent = true -- before it is sent, because that may show that the bridge has stopped
  local problem = send(is_removal and {} or lines, one.id)
  if problem then
    give_back(buffer)
    say(problem)
  end
end

--- Opens a window with these lines.
---@param about {name: string, lines: string[], language: string} `name`: what the buffer is called; `language`: the file
--- type of the lines.
---@param send fun(lines: string[], id: string, window: integer): string? Sends the suggestion to the bridge, which answers
--- with `suggested` for this `window`, or returns why it can't be sent. No lines: to remove them.
function M.open(about, send)
  local buffer = vim.api.nvim_create_buf(false, true)
  require('drawbridge.view.text').name(buffer, about.name, 'suggestion')
  local options = vim.bo[buffer]
  options.buftype, options.swapfile, options.undolevels = 'acwrite', false, -1
  vim.b[buffer].drawbridge_view = true -- for the guard: not a file
  vim.api.nvim_buf_set_lines(buffer, 0, -1, true, about.lines)
  options.undolevels = vim.api.nvim_get_option_value('undolevels', { scope = 'global' })
  local id = ('%d-%d'):format(vim.fn.getpid(), (vim.uv or vim.loop).hrtime())
  open[buffer] = { lines = about.lines, is_sent = false, id = id }
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    pattern = buffers.pattern(vim.api.nvim_buf_get_name(buffer)),
    callback = function(args)
      if args.buf == buffer then
        write(buffer, function(lines, request)
          return send(lines, request, buffer)
        end)
      end
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    buffer = buffer,
    callback = function()
      open[buffer] = nil
    end,
  })
  show(buffer)
  options.bufhidden, options.modified = 'wipe', false
  pcall(function()
    -- This does not set 'filetype', because language servers should not see the suggestion as a file.
    options.syntax = about.language
  end)
  require('drawbridge.message').answer(':DrawbridgeSuggest: edit; :w adds a draft, :q! closes without')
end

--- Closes the window of a suggestion that was added. Otherwise, the text can be edited and sent again. Called by the
--- bridge.
---@param params {window: integer, is_added: boolean}
function M.suggested(params)
  local buffer = params.window
  local one = open[buffer]
  if not one or not one.is_sent then
    return
  elseif params.is_added then
    return vim.api.nvim_buf_delete(buffer, { force = true })
  end
  give_back(buffer)
end

--- Handles the end of the bridge, which will no longer answer. With it, everything that waited for the user was forgotten,
--- so suggestions that were refused before are shown from here.
function M.stop()
  for buffer, one in pairs(open) do
    if one.is_sent then
      say('may not have been added: the bridge has stopped')
      give_back(buffer)
    else
      show_again(buffer)
    end
  end
end

return M
