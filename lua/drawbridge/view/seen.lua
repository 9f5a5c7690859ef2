--- Which changed lines of a proposal have not been on the screen yet.
---
--- Rows are counted from 0. A range of rows or cells is a pair, the second number excluded. A list of ranges is in
--- order, and none of them overlap.
local cover = require('drawbridge.view.cover')
local drawn = require('drawbridge.view.drawn')

local M = {}

local LEAST = { width = 12, height = 2 } -- the smallest window in which something can be read
local REMOVED_LINES = 200 -- the maximum for a hunk in the inline view; one more line shows the number of the others
local MARK = 3 -- cells of the "<<<" where the beginning of a line is scrolled out of the window
-- Without 'wrap', half of a wide character and a mark of 'listchars' may be at the edge of the window.
local EDGE = 2
local COMPARED = 100000 -- the maximum number of pairs of lines that are compared after an edit
local COUNTS_FILLERS = vim.fn.has('nvim-0.10') == 1 -- Otherwise, `screenpos()` reports the first filler line above a line.

---@class drawbridge.Unseen
---@field proposed integer[][] Ranges of changed rows of the proposed text.
---@field old integer[][] Ranges of removed rows of the current text.
---@field old_left integer[][] Ranges of rows of the current text that were removed at any time and not seen since.
---@field cells table<'proposed'|'old', table<integer, integer[][]>> The unseen cells of rows that were only partly in view.
---@field layouts table<'proposed'|'old', string> What the numbers of these cells depend on.
---@field compared string? The buffer and its changedtick that `is_same` is about.
---@field is_same boolean? Whether the user's own buffer contains the current text.
---@field spans integer[][] For each hunk: its rows in the proposed text, and its rows in the current text.
---@field has_dropped boolean Whether unseen text was deleted or edited, which an undo or a put may bring back.

--- `ranges` without the part from `first` to `last`.
---@param ranges integer[][]
---@return integer[][]
function M.without(ranges, first, last)
  local rest = {}
  for _, range in ipairs(ranges) do
    if range[2] <= first or range[1] >= last then
      rest[#rest + 1] = range
    else
      if range[1] < first then
        rest[#rest + 1] = { range[1], first }
      end
      if range[2] > last then
        rest[#rest + 1] = { last, range[2] }
      end
    end
  end
  return rest
end

local function minus(ranges, others)
  for _, other in ipairs(others) do
    ranges = M.without(ranges, other[1], other[2])
  end
  return ranges
end

--- The parts of `ranges` that are also in `others`.
---@param ranges integer[][]
---@param others integer[][]
---@return integer[][]
function M.common(ranges, others)
  local found, at = {}, 1
  for _, range in ipairs(ranges) do
    while others[at] and others[at][2] <= range[1] do
      at = at + 1
    end
    local other = at
    while others[other] and others[other][1] < range[2] do
      local first, last = math.max(range[1], others[other][1]), math.min(range[2], others[other][2])
      if first < last then
        found[#found + 1] = { first, last }
      end
      other = other + 1
    end
  end
  return found
end

--- `ranges` after the rows from `first` to `last` were replaced by the rows from `first` to `new_last`. A range that
--- was replaced in part includes all of the new rows.
---@param ranges integer[][]
---@return integer[][]
function M.shifted(ranges, first, last, new_last)
  local moved, after = {}, 0
  for _, range in ipairs(ranges) do
    local from, to = unpack(range)
    if from >= last then
      from = from + new_last - last
    elseif from > first then
      from = first
    end
    if to >= last and to > first then
      to = to + new_last - last
    elseif to > first then
      to = new_last
    end
    from = math.max(from, after)
    if from < to then
      moved[#moved + 1], after = { from, to }, to
    end
  end
  return moved
end

--- `ranges` and the part from `first` to `last`.
local function with(ranges, first, last)
  local found = M.without(ranges, first, last)
  found[#found + 1] = { first, last }
  table.sort(found, function(one, other)
    return one[1] < other[1]
  end)
  return found
end

local function size(ranges)
  local sum = 0
  for _, range in ipairs(ranges) do
    sum = sum + range[2] - range[1]
  end
  return sum
end

local function spans_of(entry, rows)
  local spans = {}
  for at = 1, #rows, 4 do
    local first, last, old_first, old_last = unpack(rows, at, at + 3)
    -- In the inline view, one line shows how many lines are left out.
    local shown = entry.inline and math.min(old_last, old_first + REMOVED_LINES + 1) or old_last
    spans[#spans + 1] = { first, last, old_first, shown }
  end
  return spans
end

local function sides_of(spans)
  local proposed, old = {}, {}
  for _, span in ipairs(spans) do
    if span[1] < span[2] then
      proposed[#proposed + 1] = { span[1], span[2] }
    end
    if span[3] < span[4] then
      old[#old + 1] = { span[3], span[4] }
    end
  end
  return proposed, old
end

--- `ranges` and those of the rows from `first` to `last` that contain the text of a row in `ranges`. `:move` and `:join`
--- write such a row before they remove the other one.
local function with_copies(buffer, ranges, first, last)
  local texts, others = {}, M.without(ranges, first, last)
  if size(others) * (last - first) > COMPARED then
    return with(ranges, first, last)
  end
  for _, range in ipairs(others) do
    for _, text in ipairs(vim.api.nvim_buf_get_lines(buffer, range[1], range[2], false)) do
      texts[#texts + 1] = vim.trim(text)
    end
  end
  for index, line in ipairs(vim.api.nvim_buf_get_lines(buffer, first, last, false)) do
    for _, text in ipairs(texts) do
      if text ~= '' and line:find(text, 1, true) then
        ranges = with(ranges, first + index - 1, first + index)
        break
      end
    end
  end
  return ranges
end

--- Starts to track a proposal that has not been on the screen yet.
---@param entry drawbridge.Entry
function M.start(entry)
  local spans = spans_of(entry, entry.rows)
  local proposed, old = sides_of(spans)
  local unseen = { proposed = proposed, old = old, old_left = old, spans = spans }
  unseen.cells, unseen.layouts = { proposed = {}, old = {} }, {}
  entry.unseen = unseen
  vim.api.nvim_buf_attach(entry.proposed, false, {
    on_lines = function(_, _, _, first, last, new_last)
      local is_edited = #M.common(unseen.proposed, { { first, last } }) > 0
      local moved = M.shifted(unseen.proposed, first, last, new_last)
      if new_last > first and unseen.has_dropped then
        moved = with(moved, first, new_last)
      elseif new_last > first then
        moved = with_copies(entry.proposed, moved, first, new_last)
      end
      unseen.has_dropped = unseen.has_dropped or is_edited
      unseen.proposed, unseen.cells.proposed = moved, {}
      for _, span in ipairs(unseen.spans) do
        for side = 1, 2 do
          local row = span[side]
          span[side] = row >= last and row + new_last - last or math.min(row, math.max(first, new_last))
        end
      end
    end,
  })
end

--- Updates the changed rows after edits of the proposed text, because a row that is no longer changed does not need to
--- be seen.
---@param entry drawbridge.Entry
---@param rows integer[]
function M.update(entry, rows)
  local unseen = entry.unseen
  if not unseen then
    return
  end
  local spans = spans_of(entry, rows)
  local proposed, old = sides_of(spans)
  local before = size(unseen.proposed)
  unseen.proposed, unseen.old = M.common(unseen.proposed, proposed), M.common(unseen.old_left, old)
  unseen.has_dropped = unseen.has_dropped or size(unseen.proposed) < before
  unseen.spans = spans
  drawn.soon()
end

--- Whether something can be read in a window.
---@param window integer?
---@return boolean
function M.is_readable(window)
  return window ~= nil
    and vim.api.nvim_win_is_valid(window)
    and vim.api.nvim_win_get_width(window) >= LEAST.width
    and vim.api.nvim_win_get_height(window) >= LEAST.height
end

local function line_at(row)
  return vim.api.nvim_buf_get_lines(0, row, row + 1, false)[1] or ''
end

--- The cells of a row in the current window, including those that stay free because a wide character did not fit.
local function cells_of(row)
  return vim.fn.virtcol({ row + 1, '$' }) - 1
end

--- The number of removed lines that the current window, with the inline view, shows above a row, or below the last one.
local function removed_lines(row)
  return require('drawbridge.view.inline').count_removed(vim.api.nvim_get_current_buf(), row)
end

--- The screen row of a byte of a row, counted from 1; 0 if it is not on the screen.
local function screen_row(seen, row, column)
  local at = vim.fn.screenpos(seen.window, row + 1, column).row
  if at == 0 or COUNTS_FILLERS then
    return at
  end
  return at + (row == seen.first and seen.view.topfill or vim.fn.diff_filler(row + 1) + removed_lines(row))
end

local function last_screen_row(seen, row)
  return screen_row(seen, row, math.max(#line_at(row), 1))
end

--- The part of the buffer that the current window shows: the first row, the last complete row, and the cells and screen
--- lines for its text. `width` is less than 1 if there is no room for text beside the sign and number columns.
local function sight()
  local window = vim.api.nvim_get_current_win()
  local info, view = vim.fn.getwininfo(window)[1], vim.fn.winsaveview()
  local first, bar = view.topline - 1, info.winbar or 0
  local seen = {
    window = window,
    first = first,
    -- If a line is taller than the window, "w$" may be the line before it.
    last = math.max(vim.fn.line('w$') - 1, first),
    count = vim.api.nvim_buf_line_count(0),
    view = view,
    covers = cover.over(window),
    left = info.wincol - 1 + info.textoff,
    width = info.width - info.textoff,
    height = math.max(vim.api.nvim_win_get_height(window) - bar, 1),
    bottom = vim.api.nvim_win_get_position(window)[1] + vim.api.nvim_win_get_height(window),
  }
  if (view.skipcol or 0) > 0 then
    -- "w$" does not take into account that the beginning of the first line is scrolled out.
    while seen.last > first do
      local at = COUNTS_FILLERS and last_screen_row(seen, seen.last) or 0
      if at > 0 and at <= seen.bottom then
        break
      end
      seen.last = seen.last - 1
    end
  end
  return seen
end

local function is_any_over(seen, area)
  for _, one in ipairs(seen.covers) do
    if cover.overlap(one, area) then
      return true
    end
  end
  return false
end

--- The cells of a visible row that are in view, as a range of two numbers, and the number of all its cells, or nil if
--- all of them are in view.
local function cells_in_view(seen, row)
  local total = cells_of(row)
  if not vim.wo.wrap then
    local from, to = seen.view.leftcol, seen.view.leftcol + seen.width
    if from == 0 and total <= to then
      return nil
    end
    return from > 0 and from + EDGE or 0, total <= to and total or to - EDGE, total
  end
  local is_first = row == seen.first
  local from = is_first and (seen.view.skipcol or 0) or 0
  -- Only a line that is alone in the window can be cut at its end. Otherwise, `last` is a complete line.
  local is_cut = is_first and seen.last == seen.first
  local room = is_cut and seen.width * (seen.height - seen.view.topfill) or total
  if from == 0 and total <= room then
    return nil
  end
  return from > 0 and from + MARK or 0, from + room, total
end

--- Whether floating windows cover text of a visible row, or may cover it.
local function is_covered(seen, row)
  if #seen.covers == 0 then
    return false
  end
  local top, bottom = screen_row(seen, row, 1), last_screen_row(seen, row)
  if top == 0 or bottom == 0 then
    return true -- only a part of the row is in view
  end
  local width = top == bottom and math.min(cells_of(row), seen.width) or seen.width
  return is_any_over(seen, { top - 1, bottom, seen.left, seen.left + math.max(width, 1) })
end

--- `ranges` without the rows that the current window shows.
local function look_at_rows(ranges, cells, seen)
  local rest = ranges
  for _, range in ipairs(M.common(ranges, { { seen.first, seen.last + 1 } })) do
    local row = range[1]
    while row < range[2] do
      local fold_end = vim.fn.foldclosedend(row + 1)
      if fold_end ~= -1 then
        row = fold_end
      elseif is_covered(seen, row) then
        row = row + 1
      else
        local from, to, total = cells_in_view(seen, row)
        if from then
          local rest_of_row = cells[row] or { { 0, total } }
          cells[row] = from < to and M.without(rest_of_row, from, to) or rest_of_row
        end
        if not from or #cells[row] == 0 then
          rest = M.without(rest, row, row + 1)
        end
        row = row + 1
      end
    end
  end
  -- Another program may have shortened the text.
  return seen.last == seen.count - 1 and M.without(rest, seen.count, math.huge) or rest
end

--- The number of screen lines below the last complete line of the current window.
local function room_below(seen)
  local at = last_screen_row(seen, seen.last)
  return at > 0 and math.max(seen.bottom - at, 0) or 0
end

--- The part of the removed rows from `from` to `to` that no floating window covers. `below`: the screen row below row
--- `to` - 1, which is a virtual line, counted from 1; 0 if it is not known.
local function uncovered(seen, from, to, below)
  if #seen.covers == 0 then
    return { { from, to } }
  end
  local found, width = {}, vim.api.nvim_win_get_width(seen.window)
  for row = from, below > 0 and to - 1 or from - 1 do
    local at, left = below - 1 - (to - row), vim.api.nvim_win_get_position(seen.window)[2]
    if not is_any_over(seen, { at, at + 1, left, left + width }) then
      found[#found + 1] = { row, row + 1 }
    end
  end
  return found
end

--- Whether the removed rows of a hunk have virtual lines where the window shows them. Lines in a closed fold have none.
local function are_drawn(span, seen)
  local is_unfolded = vim.fn.foldclosed(math.min(span[1] + 1, seen.count)) == -1
  return is_unfolded and removed_lines(span[1]) >= span[4] - span[3]
end

--- `ranges` without the removed rows that the current window shows as virtual lines.
local function look_at_removed(ranges, spans, seen)
  local rest = ranges
  for _, span in ipairs(spans) do
    local row, _, first, last = unpack(span)
    if row > seen.last + 1 then
      break
    elseif row >= seen.first and first < last and are_drawn(span, seen) then
      local from, to, below = first, last, nil
      if row > seen.last then
        local room = room_below(seen)
        to = math.min(last, first + room)
        below = seen.bottom - room + 1 + to - first
      elseif row == seen.first then
        from = math.max(first, last - seen.view.topfill)
      end
      below = below or screen_row(seen, row, 1)
      for _, range in ipairs(uncovered(seen, from, to, below)) do
        rest = M.without(rest, range[1], range[2])
      end
    end
  end
  return rest
end

--- Whether a window shows a side of the proposal, and not another buffer. The buffer of the current text may be the
--- user's own, which may have been edited.
local function shows(entry, side, window)
  local buffer = vim.api.nvim_win_get_buf(window)
  if side == 'proposed' then
    return buffer == entry.proposed
  end
  if buffer == entry.old then
    return true
  end
  local unseen, tick = entry.unseen, ('%d %d'):format(buffer, vim.api.nvim_buf_get_changedtick(buffer))
  if unseen.compared ~= tick then
    local function lines_of(one)
      return vim.api.nvim_buf_get_lines(one, 0, -1, false)
    end
    unseen.compared, unseen.is_same = tick, vim.deep_equal(lines_of(buffer), lines_of(entry.old))
  end
  return unseen.is_same
end

--- What the numbers of the cells of a line depend on. A wide character that does not fit at the end of a screen line
--- moves all that follow.
local function layout_of(seen)
  local options = vim.wo
  local parts = { seen.width, vim.bo.tabstop }
  for _, name in ipairs({ 'wrap', 'list', 'listchars', 'linebreak', 'showbreak', 'breakindent' }) do
    parts[#parts + 1] = tostring(options[name])
  end
  return table.concat(parts, '\n')
end

local function look_at_window(entry, side)
  if vim.wo.conceallevel > 0 then
    return -- concealed text does not count as seen
  end
  local unseen, seen = entry.unseen, sight()
  if seen.width < 1 then
    return
  end
  local layout = layout_of(seen)
  if unseen.layouts[side] ~= layout then
    unseen.layouts[side], unseen.cells[side] = layout, {}
  end
  local rest = look_at_rows(unseen[side], unseen.cells[side], seen)
  if entry.inline then
    unseen.proposed, rest = rest, look_at_removed(unseen.old, unseen.spans, seen)
  elseif side == 'proposed' then
    unseen.proposed = rest
    return
  end
  unseen.old, unseen.old_left = rest, minus(unseen.old_left, minus(unseen.old, rest))
end

--- Draws the screen, and records the lines that the view's windows on the current tab page show. Only call this while
--- Neovim waits for the user: see `drawbridge.view.drawn`.
---@param entry drawbridge.Entry
function M.look(entry)
  local before = M.count(entry)
  if before == 0 or not entry.windows or not drawn.draw() then
    return
  end
  for side, window in pairs(entry.windows) do
    if M.is_readable(window) and vim.api.nvim_win_get_tabpage(window) == vim.api.nvim_get_current_tabpage() then
      if shows(entry, side, window) then
        vim.api.nvim_win_call(window, function()
          look_at_window(entry, side)
        end)
      end
    end
  end
  if M.count(entry) ~= before then
    vim.cmd('redrawstatus!') -- the bar shows how many lines are left
  end
end

--- The number of changed and removed lines that have not been on the screen.
---@param entry drawbridge.Entry
---@return integer
function M.count(entry)
  return entry.unseen and size(entry.unseen.proposed) + size(entry.unseen.old) or 0
end

--- The row of the proposed side that is beside row `old_row` in diff mode, or the first one after it, and the number of
--- filler lines above that row, from the one beside `old_row` on.
local function beside(entry, old_row)
  local place = vim.api.nvim_win_call(entry.windows.old, function()
    local sum = 0
    for line = 1, old_row + 1 do
      sum = sum + 1 + vim.fn.diff_filler(line)
    end
    return sum
  end)
  return unpack(vim.api.nvim_win_call(entry.windows.proposed, function()
    local count, sum = vim.api.nvim_buf_line_count(0), 0
    for line = 1, count do
      sum = sum + 1 + vim.fn.diff_filler(line)
      if sum >= place then
        return { line - 1, sum - place }
      end
    end
    return { count, 0 }
  end))
end

--- The row that the inline view shows below a removed row, and the number of the hunk's removed lines from that removed
--- row on.
local function below_removed(entry, old_row)
  for _, span in ipairs(entry.unseen.spans) do
    if span[3] <= old_row and old_row < span[4] then
      return span[1], span[4] - old_row
    end
  end
  return 0, 0
end

--- The first unseen place, as a row of the proposed side, and how many lines above it have to be visible.
local function first_place(entry)
  local unseen = entry.unseen
  local row = unseen.proposed[1] and unseen.proposed[1][1]
  if unseen.old[1] then
    local find = entry.inline and below_removed or beside
    local removed_row, above = find(entry, unseen.old[1][1])
    if not row or removed_row <= row then
      return removed_row, above
    end
  end
  return row, 0
end

--- If a floating window covers the row that is at the top of the current window, scrolls this row to the middle.
local function uncover(row)
  if is_covered(sight(), row) then
    vim.cmd('normal! zz')
  end
end

--- Goes to the first line that has not been on the screen, and shows concealed text.
---@param entry drawbridge.Entry
function M.to_first(entry)
  local unseen = entry.unseen
  for _, window in pairs(entry.windows) do
    vim.wo[window].conceallevel = 0
  end
  local row, above = first_place(entry)
  local proposed, old = entry.windows.proposed, entry.windows.old
  vim.api.nvim_set_current_win(proposed)
  local count, height = vim.api.nvim_buf_line_count(0), sight().height
  if above >= height and row > 0 then
    -- The window can't show that many lines above the row. They begin below the row before.
    row, above = row - 1, 0
  end
  row = math.max(math.min(row, count - 1), 0)
  local view = { lnum = row + 1, col = 0, topline = row + 1, topfill = math.min(above, height - 1), leftcol = 0 }
  vim.fn.winrestview(view)
  vim.cmd('normal! zv')
  uncover(row)
  local cells = unseen.cells.proposed[row]
  if cells and cells[1] then
    local from, size_of = cells[1][1], sight()
    -- With 'wrap', the cursor at the end of the window brings the cells before it into view.
    local ahead = vim.wo.wrap and size_of.width * math.max(size_of.height - 2, 0) or 0
    vim.cmd(('normal! %d|'):format(from + ahead + 1))
    if not vim.wo.wrap then
      vim.fn.winrestview({ leftcol = math.max(from - MARK, 0) })
    end
  end
  if old and unseen.old[1] and vim.api.nvim_win_is_valid(old) then
    vim.api.nvim_win_call(old, function()
      local old_row = unseen.old[1][1] + 1
      if old_row < vim.fn.line('w0') or old_row > vim.fn.line('w$') then
        vim.fn.winrestview({ lnum = old_row, topline = old_row, col = 0 })
        uncover(old_row - 1)
      end
    end)
  end
end

return M
