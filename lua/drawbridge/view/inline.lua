--- The view in one window: the proposed text with `+` at added lines, and removed lines with `-` in between.
local bar = require('drawbridge.view.bar')

local M = {}

local MARKS = vim.api.nvim_create_namespace('drawbridge_inline')
local LINE_LIMIT = 500 -- the maximum number of bytes shown of a removed line, because virtual lines do not wrap
local TO_EDGE = (' '):rep(LINE_LIMIT) -- the color of a virtual line ends with its text
local GUTTER = 2 -- cells of the sign column alone

--- A line as virtual text can show it, with tabs as spaces, and other control characters as "^X".
local function printable(line, tabstop)
  local shown, width = '', 0
  for text, tab in (line .. '\0'):gmatch('([^\t%z]*)([\t%z])') do
    text = vim.fn.strtrans(text)
    width = width + vim.fn.strdisplaywidth(text)
    local spaces = tab == '\t' and tabstop - width % tabstop or 0
    shown, width = shown .. text .. (' '):rep(spaces), width + spaces
  end
  return shown
end

--- A removed line as chunks of virtual text. `word`: where the part that differs begins and ends, in bytes.
local function chunks_of(line, word, tabstop)
  line = line:sub(1, LINE_LIMIT)
  local is_plain = not line:find('%c')
  local function upto(last)
    local part = line:sub(1, last)
    return is_plain and part or printable(part, tabstop)
  end
  local shown = upto(LINE_LIMIT)
  local chunks, at = {}, 0
  local function add(last, group)
    if last > at then
      chunks[#chunks + 1] = { shown:sub(at + 1, last), group }
      at = last
    end
  end
  if word then
    add(#upto(word[1]), 'DrawbridgeRemoved')
    add(#upto(word[2]), 'DrawbridgeChanged')
  end
  add(#shown, 'DrawbridgeRemoved')
  return chunks
end

--- The removed lines of a hunk as virtual lines. `gutter`: the number of cells to the left of the text, for a "-" and
--- spaces.
---@param hunk {removed: string[], hidden: integer, removed_words?: integer[][]}
---@param tabstop integer
---@param gutter integer
---@return table[]
function M.removed_lines(hunk, tabstop, gutter)
  local words = {}
  for _, word in ipairs(hunk.removed_words or {}) do
    words[word[1] + 1] = { word[2], word[3] }
  end
  local sign = ('-'):rep(math.min(gutter, 1)) .. (' '):rep(gutter - 1)
  local lines = {}
  for index, line in ipairs(hunk.removed) do
    local chunks = { { sign, 'DrawbridgeRemoved' } }
    vim.list_extend(chunks, chunks_of(line, words[index], tabstop))
    chunks[#chunks + 1] = { TO_EDGE, 'DrawbridgeRemoved' }
    lines[#lines + 1] = chunks
  end
  if hunk.hidden > 0 then
    local text = ('… %d more removed line%s'):format(hunk.hidden, hunk.hidden == 1 and '' or 's')
    lines[#lines + 1] = { { (' '):rep(gutter), 'DrawbridgeHint' }, { text, 'DrawbridgeHint' } }
  end
  return lines
end

--- The number of cells to the left of the text in the window of a buffer.
local function gutter_of(buffer)
  local window = vim.fn.win_findbuf(buffer)[1]
  return window and math.max(vim.fn.getwininfo(window)[1].textoff, 1) or GUTTER
end

--- Indents removed lines, which begin at the left edge of the window, by the width of its sign and number columns. That
--- width is not known before the window exists.
local function align(buffer)
  local gutter = gutter_of(buffer)
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, MARKS, 0, -1, { details = true })) do
    local id, row, _, details = unpack(mark)
    local lines = details.virt_lines
    if lines and #lines[1][1][1] ~= gutter then
      for _, chunks in ipairs(lines) do
        chunks[1][1] = chunks[1][1]:sub(1, 1) .. (' '):rep(gutter - 1)
      end
      vim.api.nvim_buf_set_extmark(buffer, MARKS, row, 0, {
        id = id,
        virt_lines = lines,
        virt_lines_above = details.virt_lines_above,
        virt_lines_leftcol = true,
      })
    end
  end
end

--- The number of removed lines that are shown above a row of a buffer or, if the row does not exist, below the buffer's
--- last row.
---@param buffer integer
---@param row integer
---@param namespace? integer The namespace of the lines (default: the one for proposals).
---@return integer
function M.count_removed(buffer, row, namespace)
  local last = vim.api.nvim_buf_line_count(buffer) - 1
  local at, count = math.min(row, last), 0
  for _, mark in
    ipairs(vim.api.nvim_buf_get_extmarks(buffer, namespace or MARKS, { at, 0 }, { at, -1 }, { details = true }))
  do
    local details = mark[4]
    if details.virt_lines and (details.virt_lines_above == true) == (row <= last) then
      count = count + #details.virt_lines
    end
  end
  return count
end

--- Scrolls windows so that removed lines above the first line are visible, because a window has to leave space for
--- them.
---@param buffer integer
---@param namespace? integer The namespace of the lines (default: the one for proposals).
function M.make_room_at_top(buffer, namespace)
  local above = M.count_removed(buffer, 0, namespace)
  for _, window in ipairs(above > 0 and vim.fn.win_findbuf(buffer) or {}) do
    vim.api.nvim_win_call(window, function()
      if vim.fn.winsaveview().topline == 1 then
        vim.fn.winrestview({ topfill = math.min(above, vim.api.nvim_win_get_height(window) - 1) })
      end
    end)
  end
end

--- Shows hunks. `first` and `last` (exclusive) are lines of the proposed text, from 0. Each item of `words` and
--- `removed_words` contains the number of a line (in that text or in `removed`), and the start and the end of a changed
--- part of the line, in bytes.
---@param buffer integer
---@param hunks {first: integer, last: integer, removed: string[], hidden: integer, words: integer[][], removed_words?: integer[][]}[]
---@param clear boolean Whether to remove the previous marks.
function M.mark(buffer, hunks, clear)
  if clear then
    vim.api.nvim_buf_clear_namespace(buffer, MARKS, 0, -1)
  end
  local tabstop = vim.bo[buffer].tabstop
  local gutter = gutter_of(buffer)
  local count = vim.api.nvim_buf_line_count(buffer)
  local function mark(row, column, options)
    vim.api.nvim_buf_set_extmark(buffer, MARKS, row, column, options)
  end
  for _, hunk in ipairs(hunks) do
    local last = math.min(hunk.last, count)
    if last > hunk.first then
      -- 'line_hl_group' would hide the words that differ.
      mark(hunk.first, 0, { end_row = last, hl_group = 'DrawbridgeAdded', hl_eol = true, strict = false })
    end
    for row = hunk.first, last - 1 do
      -- Each row has its own mark, because for a mark of several rows, Neovim 0.10 also draws the sign at the row after
      -- the last one.
      mark(row, 0, { sign_text = '+', sign_hl_group = 'DrawbridgeAdded', number_hl_group = 'DrawbridgeAdded' })
    end
    for _, word in ipairs(hunk.words) do
      local row, from, to = unpack(word)
      if to > from then
        mark(row, from, { end_col = to, hl_group = 'DrawbridgeChanged', priority = 4100 })
      end
    end
    if #hunk.removed > 0 then
      mark(math.min(hunk.first, count - 1), 0, {
        virt_lines = M.removed_lines(hunk, tabstop, gutter),
        -- After the last line, there is no line above which they could be shown.
        virt_lines_above = hunk.first < count,
        virt_lines_leftcol = true,
      })
    end
  end
  M.make_room_at_top(buffer)
end

--- Opens the view in the current window.
---@param entry drawbridge.Entry
function M.open(entry)
  local window = vim.api.nvim_get_current_win()
  vim.api.nvim_win_set_buf(window, entry.proposed)
  entry.windows = { proposed = window }
  -- With 'auto', the sign column would be hidden if lines are only removed, because removed lines have no signs.
  vim.cmd('setlocal signcolumn=yes:1 wrap conceallevel=0')
  bar.on_proposed(entry, window, true)
  align(entry.proposed)
end

return M
