--- Reports what the user has selected, a moment after the cursor stops moving.
---
--- Lines are numbered from 0. A column is sent as a number if the line is ASCII up to it, otherwise as the text before
--- it. Whole lines (`V`) extend from the start of the first to the end of the last, without its line break, so that
--- exactly the highlighted text is sent.
local buffers = require('drawbridge.buffers')
local link = require('drawbridge.link')

local M = {}

local loop = vim.uv or vim.loop
local TEXT_LIMIT = 262144 -- characters, as many as `SELECTION_LIMIT` in editors/port.py
local LINES_AT_ONCE = 500
local VISUAL = { v = 'v', V = 'V', ['\22'] = '\22', s = 'v', S = 'V', ['\19'] = '\22' }

local timer, group
local reported ---@type table? What was last reported.
local active ---@type integer? The file buffer that was current most recently.
local left ---@type table? The selection that ended since the last report.

local function mode()
  return vim.api.nvim_get_mode().mode
end

local function line_at(buffer, row)
  return vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
end

--- The column after the character that begins at `column`, and after its combining characters.
local function behind_character(line, column)
  -- In a pattern, a character includes its combining characters.
  return column + #vim.fn.matchstr(line:sub(column + 1), '^.')
end

--- Collects text up to the limit, without copying what is beyond it.
local function collector()
  local parts, room = {}, TEXT_LIMIT
  return {
    ---@return boolean full
    add = function(line)
      line = line:sub(1, 4 * room)
      parts[#parts + 1] = line
      local _, continued = line:gsub('[\128-\191]', '')
      room = room - (#line - continued) - 1
      return room <= 0
    end,
    text = function()
      return table.concat(parts, '\n')
    end,
  }
end

--- The lines from `first` to `last`, each cut by `cut(line, row)`.
local function collect(buffer, first, last, cut)
  local collected = collector()
  for start = first, last, LINES_AT_ONCE do
    local lines = vim.api.nvim_buf_get_lines(buffer, start, math.min(start + LINES_AT_ONCE, last + 1), false)
    for index, line in ipairs(lines) do
      if collected.add(cut(line, start + index - 1)) then
        return collected.text()
      end
    end
  end
  return collected.text()
end

local function whole_lines(buffer, from, to)
  local text = collect(buffer, from.row, to.row, function(line)
    return line
  end)
  return text, 0, #line_at(buffer, to.row)
end

local function characters(buffer, from, to)
  local last_line = line_at(buffer, to.row)
  local finish = math.min(to.column, #last_line)
  if vim.o.selection ~= 'exclusive' then
    finish = behind_character(last_line, finish)
  end
  local text = collect(buffer, from.row, to.row, function(line, row)
    return line:sub(row == from.row and from.column + 1 or 1, row == to.row and finish or #line)
  end)
  return text, from.column, finish
end

--- The part of a line between two screen columns (from 1, inclusive), with the actual widths of tabs and wide
--- characters. Returns the byte where it begins, from 0, and the byte after its end.
local function between(line, low, high)
  local first, last
  local width, column = 0, 0
  while column < #line do
    local behind = behind_character(line, column)
    local wide = vim.fn.strdisplaywidth(line:sub(column + 1, behind), width)
    if width + wide >= low and width < high then
      first, last = first or column, behind
    end
    width, column = width + wide, behind
    if width >= high then
      break
    end
  end
  return first or column, last or column
end

--- The first and the last screen column of the character at a position in the current buffer.
local function columns_of(place)
  local line = line_at(0, place.row)
  local before = vim.fn.strdisplaywidth(line:sub(1, place.column))
  local character = line:sub(place.column + 1, behind_character(line, place.column))
  return before + 1, before + math.max(vim.fn.strdisplaywidth(character, before), 1)
end

local function block(buffer, from, to)
  local low_from, high_from = columns_of(from)
  local low_to, high_to = columns_of(to)
  local low, high = math.min(low_from, low_to), math.max(high_from, high_to)
  if vim.fn.winsaveview().curswant >= 2147483647 then
    high = math.huge -- `$`: to the end of each line
  elseif vim.o.selection == 'exclusive' and high_to > high_from and low_to > high_from then
    high = low_to - 1
  end
  local text = collect(buffer, from.row, to.row, function(line)
    local first, last = between(line, low, high)
    return line:sub(first + 1, last)
  end)
  local start = between(line_at(buffer, from.row), low, high)
  local _, finish = between(line_at(buffer, to.row), low, high)
  return text, start, finish
end

local function place_of(mark)
  local found = vim.fn.getpos(mark)
  return { row = found[2] - 1, column = found[3] - 1 }
end

--- The selection between two positions of the current buffer.
local function selected(kind, anchor, cursor)
  local buffer = vim.api.nvim_get_current_buf()
  local from, to = anchor, cursor
  if cursor.row < anchor.row or (cursor.row == anchor.row and cursor.column < anchor.column) then
    from, to = cursor, anchor
  end
  local text, start, finish
  if kind == 'V' then
    text, start, finish = whole_lines(buffer, from, to)
  elseif kind == 'v' then
    text, start, finish = characters(buffer, from, to)
  else
    text, start, finish = block(buffer, from, to)
  end
  return {
    path = vim.api.nvim_buf_get_name(buffer),
    text = text,
    start = buffers.position(buffer, from.row, start),
    ['end'] = buffers.position(buffer, to.row, finish),
  }
end

local function bare_cursor()
  local buffer = vim.api.nvim_get_current_buf()
  local cursor = vim.api.nvim_win_get_cursor(0)
  local at = buffers.position(buffer, cursor[1] - 1, cursor[2])
  return { path = vim.api.nvim_buf_get_name(buffer), text = '', start = at, ['end'] = at }
end

local function in_file()
  local buffer = vim.api.nvim_get_current_buf()
  if buffers.is_file(buffer) then
    active = buffer
  end
  return active == buffer
end

--- The current selection or cursor. Nil if no file is current, or while the user types a command, which may be about
--- the last selection.
local function now()
  if not in_file() or mode():sub(1, 1) == 'c' then
    return nil
  end
  local kind = VISUAL[mode():sub(1, 1)]
  return kind and selected(kind, place_of('v'), place_of('.')) or bare_cursor()
end

local function report()
  if mode():sub(1, 1) == 'c' then
    return
  end
  local found = now() or left
  left = nil
  if found and not vim.deep_equal(found, reported) then
    reported = found
    link.send('selection', found)
  end
end

local function soon()
  in_file()
  timer:start(require('drawbridge.config').get().debounce_ms, 0, vim.schedule_wrap(report))
end

--- Keeps a selection that ends, perhaps because the focus moves to the agent's terminal. `report` sends it if no file
--- is current by then.
local function mode_changed()
  local kind = VISUAL[vim.v.event.old_mode:sub(1, 1)]
  if kind and not VISUAL[vim.v.event.new_mode:sub(1, 1)] and in_file() then
    local ok, found = pcall(selected, kind, place_of("'<"), place_of("'>"))
    left = ok and found or nil
  end
  soon()
end

--- Starts to report selections.
function M.start()
  timer = timer or loop.new_timer()
  group = vim.api.nvim_create_augroup('drawbridge_selection', {})
  vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorMovedI', 'BufEnter', 'WinEnter', 'TextChanged' }, {
    group = group,
    callback = soon,
  })
  vim.api.nvim_create_autocmd('ModeChanged', { group = group, callback = mode_changed })
  soon()
end

function M.stop()
  if group then
    timer:stop()
    vim.api.nvim_del_augroup_by_id(group)
    group, reported, left, active = nil, nil, nil, nil
  end
end

--- The current file buffer or, while a terminal or another special buffer is current, the last file buffer.
---@return integer?
function M.active_buffer()
  in_file()
  return active and vim.api.nvim_buf_is_loaded(active) and active or nil
end

--- The current selection or, while the user types a command, or a terminal or another special buffer has the focus, the
--- last one that was reported. Nil if no file is active.
function M.current()
  return M.active_buffer() and (now() or reported)
end

--- Mentions a file to agents.
---@param path string
---@param first integer? The first line, from 0, or nil for the whole file.
---@param last_line integer?
function M.mention(path, first, last_line)
  link.send('mentioned', { path = path, first = first, last = last_line or first })
end

return M
