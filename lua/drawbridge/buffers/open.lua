--- Opens a file for an agent. Loads it in the background, or shows it to the user, with a part of it selected if
--- requested.
local buffers = require('drawbridge.buffers')
local focus = require('drawbridge.view.focus')

local M = {}

local loop = vim.uv or vim.loop

local function refuse(message)
  error({ code = 'UNUSABLE_FILE', message = message }, 0)
end

--- Loads a buffer. Returns the error message, or nil. If there is a swap file (E325), as when another editor has the
--- file open, the buffer is loaded without asking the user and becomes read-only.
local function read(buffer)
  local ok, problem = pcall(vim.fn.bufload, buffer)
  if not ok and tostring(problem):find('E325') then
    local shortmess = vim.o.shortmess
    vim.api.nvim_buf_delete(buffer, { unload = true })
    vim.o.shortmess = shortmess .. 'A'
    ok, problem = pcall(vim.fn.bufload, buffer)
    vim.o.shortmess = shortmess
    vim.bo[buffer].readonly = true
  end
  return not ok and (tostring(problem):match('E%d+:.*') or problem) or nil
end

--- The loaded buffer of a file. A buffer that was not loaded before is also listed. Raises an error if the file can't
--- be read.
local function load(path)
  local buffer = buffers.find(path)
  if buffer and vim.api.nvim_buf_is_loaded(buffer) then
    return buffer
  end
  local found, problem, code = loop.fs_stat(path)
  if not found and code == 'ENOENT' then
    refuse(('%s does not exist.'):format(path))
  elseif not found then
    refuse(("%s can't be read: %s."):format(path, problem:match('^%u+: ([^:]+)') or problem))
  elseif found.type == 'directory' then
    refuse(('%s is a directory.'):format(path))
  end
  buffer = buffer or vim.fn.bufadd(path)
  problem = read(buffer)
  if problem then
    refuse(('Neovim could not read %s: %s.'):format(path, problem))
  end
  vim.bo[buffer].buflisted = true
  return buffer
end

--- The row and the column (both from 0) of a byte in the joined lines. Bytes are counted from 1; `starts` contains the
--- number of each line's first byte.
local function place_of(starts, byte)
  local low, high = 1, #starts
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if starts[middle] <= byte then
      low = middle
    else
      high = middle - 1
    end
  end
  return { row = low - 1, column = byte - starts[low] }
end

--- The range from the first match of `start_text` to the next match of `end_text` after it, or only the first match if
--- `end_text` is missing, is empty or does not follow. With `to_end_of_line`, the range extends to the end of its last
--- line. Both ends are inclusive. nil if `start_text` is not found.
---@return {from: table, to: table}? range
local function search(buffer, params)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local text, starts, at = table.concat(lines, '\n'), {}, 1
  for index, line in ipairs(lines) do
    starts[index] = at
    at = at + #line + 1
  end
  local first, last = text:find(params.start_text, 1, true)
  if not first then
    return nil
  end
  if params.end_text and params.end_text ~= '' then
    local _, behind = text:find(params.end_text, last + 1, true)
    last = behind or last
  end
  local to = place_of(starts, last)
  if params.to_end_of_line then
    to.column = math.max(#lines[to.row + 1] - 1, 0)
  end
  return { from = place_of(starts, first), to = to }
end

local function is_normal(window)
  local fixed = vim.fn.exists('+winfixbuf') == 1 and vim.wo[window].winfixbuf
  return not fixed
    and not vim.wo[window].previewwindow
    and vim.api.nvim_win_get_config(window).relative == ''
    and vim.bo[vim.api.nvim_win_get_buf(window)].buftype == ''
end

--- The window to show a file in. This is the first normal one among the current window, the previous one and the others
--- of the tab page, or nil if none is normal.
local function normal_window()
  local candidates = { vim.api.nvim_get_current_win(), vim.fn.win_getid(vim.fn.winnr('#')) }
  vim.list_extend(candidates, vim.api.nvim_tabpage_list_wins(0))
  for _, window in ipairs(candidates) do
    if vim.api.nvim_win_is_valid(window) and is_normal(window) then
      return window
    end
  end
end

local function to_window_of(buffer)
  local shown = vim.fn.bufwinid(buffer)
  if shown ~= -1 then
    return vim.api.nvim_set_current_win(shown)
  end
  local window = normal_window()
  if window then
    vim.api.nvim_set_current_win(window)
  end
  -- Without 'hidden', the window of a modified buffer can't show another buffer.
  if not window or not pcall(vim.api.nvim_win_set_buf, window, buffer) then
    vim.cmd('aboveleft split')
    if vim.fn.exists('+winfixbuf') == 1 then
      vim.wo.winfixbuf = false
    end
    vim.api.nvim_win_set_buf(0, buffer)
  end
end

local function present(buffer, range)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  to_window_of(buffer)
  if range then
    vim.cmd("normal! m'")
    vim.api.nvim_win_set_cursor(0, { range.from.row + 1, range.from.column })
    vim.cmd('normal! v')
    vim.api.nvim_win_set_cursor(0, { range.to.row + 1, range.to.column })
    vim.cmd('normal! zv')
  end
end

--- Opens a file. With `focus` it is shown as soon as the user is not typing. Raises an error if it can't be read.
--- `found`: whether `start_text` was found, or true if none was given.
---@param params {path: string, focus: boolean, start_text?: string, end_text?: string, to_end_of_line: boolean}
---@return {language: string, line_count: integer, found: boolean}
function M.open(params)
  local buffer = load(params.path)
  local wanted = params.start_text ~= nil and params.start_text ~= ''
  local range = wanted and search(buffer, params) or nil
  if params.focus then
    focus.when_free('open', function()
      present(buffer, range)
    end)
  end
  return {
    language = vim.bo[buffer].filetype,
    line_count = vim.api.nvim_buf_line_count(buffer),
    found = range ~= nil or not wanted,
  }
end

return M
