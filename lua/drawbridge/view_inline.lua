--- The view in one window: the proposed text, with what was added coloured and what was removed shown between the lines.
local bar = require('drawbridge.view_bar')

local M = {}

local MARKS = vim.api.nvim_create_namespace('drawbridge_inline')
local LINE_LIMIT = 500 -- bytes of a removed line; virtual lines do not wrap

--- Opens the view in the current window.
---@param entry drawbridge.Entry
function M.open(entry)
  local window = vim.api.nvim_get_current_win()
  vim.api.nvim_win_set_buf(window, entry.proposed)
  entry.windows = { proposed = window }
  bar.on_proposed(entry, window, true)
end

--- A line as virtual text can show it: tabs as spaces, other control characters as "^X".
local function printable(line, tabstop)
  line = line:sub(1, LINE_LIMIT)
  if not line:find('%c') then
    return line
  end
  local shown, width = '', 0
  for text, tab in (line .. '\0'):gmatch('([^\t%z]*)([\t%z])') do
    text = vim.fn.strtrans(text)
    width = width + vim.fn.strdisplaywidth(text)
    local spaces = tab == '\t' and tabstop - width % tabstop or 0
    shown, width = shown .. text .. (' '):rep(spaces), width + spaces
  end
  return shown
end

local function removed_lines(hunk, tabstop)
  local lines = {}
  for _, line in ipairs(hunk.removed) do
    local text = printable(line, tabstop)
    lines[#lines + 1] = { { text == '' and ' ' or text, 'DrawbridgeRemoved' } }
  end
  if hunk.hidden > 0 then
    lines[#lines + 1] = { { ('… %d more removed lines'):format(hunk.hidden), 'DrawbridgeHint' } }
  end
  return lines
end

--- Lines above the first line are only to be seen where the window leaves room for them.
function M.make_room_at_top(buffer)
  local above = 0
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, MARKS, { 0, 0 }, { 0, -1 }, { details = true })) do
    above = above + (mark[4].virt_lines_above and #mark[4].virt_lines or 0)
  end
  for _, window in ipairs(above > 0 and vim.fn.win_findbuf(buffer) or {}) do
    vim.api.nvim_win_call(window, function()
      if vim.fn.winsaveview().topline == 1 then
        vim.fn.winrestview({ topfill = math.min(above, vim.api.nvim_win_get_height(window) - 1) })
      end
    end)
  end
end

--- Shows hunks, `first` and `last` (exclusive) in lines of the proposed text, from 0.
---@param buffer integer
---@param hunks {first: integer, last: integer, removed: string[], hidden: integer, words: integer[][]}[]
---@param clear boolean Whether the marks of before go.
function M.mark(buffer, hunks, clear)
  if clear then
    vim.api.nvim_buf_clear_namespace(buffer, MARKS, 0, -1)
  end
  local tabstop = vim.bo[buffer].tabstop
  local count = vim.api.nvim_buf_line_count(buffer)
  local function mark(row, options)
    vim.api.nvim_buf_set_extmark(buffer, MARKS, math.min(row, count - 1), 0, options)
  end
  for _, hunk in ipairs(hunks) do
    if hunk.last > hunk.first then
      -- 'line_hl_group' would be plainer, but opens the sign column in Neovim 0.7.
      mark(
        hunk.first,
        { end_row = math.min(hunk.last, count), hl_group = 'DrawbridgeAdded', hl_eol = true, strict = false }
      )
    end
    for _, word in ipairs(hunk.words) do
      local row, first, last = unpack(word)
      if last > first then
        vim.api.nvim_buf_set_extmark(
          buffer,
          MARKS,
          row,
          first,
          { end_col = last, hl_group = 'DrawbridgeChanged', priority = 4100 }
        )
      end
    end
    if #hunk.removed > 0 then
      -- Behind the last line there is no line to stand above.
      mark(hunk.first, { virt_lines = removed_lines(hunk, tabstop), virt_lines_above = hunk.first < count })
    end
  end
  M.make_room_at_top(buffer)
end

return M
