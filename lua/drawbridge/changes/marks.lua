--- The undecided changes and the comments of a review in the buffers of their files: signs, colors, removed lines in
--- between, and the keys `]c` and `[c`.
local buffers = require('drawbridge.buffers')
local inline = require('drawbridge.view.inline')

local M = {}

local LOOKS = vim.api.nvim_create_namespace('drawbridge_changes')
local PLACES = vim.api.nvim_create_namespace('drawbridge_changes_places')
local COMMENTS = vim.api.nvim_create_namespace('drawbridge_changes_comments')
local REMOVED_LINES = 200 -- the maximum for one change; more would push the file off the screen
local BOM = '\239\187\191'
local KEYS = { [']c'] = 1, ['[c'] = -1 }
local DESCRIPTIONS = { [']c'] = 'Next change made by a run', ['[c'] = 'Previous change made by a run' }

---@class drawbridge.Hunk See `ReviewedHunk` in the bridge.
---@field id string
---@field row integer
---@field removed string
---@field added string
---@field words string
---@field text string
---@field is_new boolean

local hunks = {} ---@type table<integer, table<integer, drawbridge.Hunk>> By buffer and by the id of the mark at their place.
local comments = {} ---@type table<integer, table<integer, drawbridge.Comment>> By buffer and by the id of their mark.

--- The lines of a text as a buffer shows them.
local function lines_of(text)
  if text == '' then
    return {}
  end
  local lines = vim.split(text, '\n', { plain = true })
  if lines[#lines] == '' then
    lines[#lines] = nil
  end
  return lines
end

--- A line without the CR and the byte order mark, which a buffer may keep in its options instead.
local function bare(line, row)
  line = line:gsub('\r$', '')
  return row == 0 and vim.startswith(line, BOM) and line:sub(#BOM + 1) or line
end

--- Whether the buffer contains these lines, starting at row `first`.
local function fits(buffer, first, lines)
  local there = vim.api.nvim_buf_get_lines(buffer, first, first + #lines, false)
  if #there ~= #lines then
    return false
  end
  for index, line in ipairs(lines) do
    local row = first + index - 1
    if bare(line, row) ~= bare(there[index], row) then
      return false
    end
  end
  return true
end

---@class drawbridge.Place
---@field hunk drawbridge.Hunk
---@field first integer The first row in the buffer, from 0.
---@field last integer Inclusive.

--- Where the hunks are in the buffer now, from top to bottom.
---@param buffer integer
---@return drawbridge.Place[]
function M.places(buffer)
  local found = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, PLACES, 0, -1, { details = true })) do
    local id, row, _, details = unpack(mark)
    local hunk = (hunks[buffer] or {})[id]
    if hunk then
      found[#found + 1] = { hunk = hunk, first = row, last = math.max(row, details.end_row or row) }
    end
  end
  return found
end

--- Whether a hunk has lines that a buffer can show.
---@param hunk drawbridge.Hunk
function M.has_lines(hunk)
  return hunk.added ~= '' or hunk.removed ~= ''
end

--- The hunk at a row of a buffer. A hunk without lines, such as a new file mode, is at the first row, and is returned only
--- if no other hunk is there.
---@param buffer integer
---@param row integer From 0.
---@return drawbridge.Hunk?
function M.at(buffer, row)
  local other
  for _, place in ipairs(M.places(buffer)) do
    if place.first <= row and row <= place.last then
      if M.has_lines(place.hunk) then
        return place.hunk
      end
      other = other or place.hunk
    end
  end
  return other
end

--- Where the comments are in the buffer now: the first and the last row of each, by its id.
local function comment_places(buffer)
  local found = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, COMMENTS, 0, -1, { details = true })) do
    local id, row, _, details = unpack(mark)
    local comment = (comments[buffer] or {})[id]
    if comment then
      found[comment.id] = { mark = id, comment = comment, first = row, last = math.max(row, details.end_row or row) }
    end
  end
  return found
end

--- The comments on this row of a buffer. The one that was written last is the first.
---@param buffer integer
---@param row integer From 0.
---@return drawbridge.Comment[]
function M.comments_at(buffer, row)
  local here = vim.tbl_filter(function(place)
    return place.first <= row and row <= place.last
  end, vim.tbl_values(comment_places(buffer)))
  table.sort(here, function(one, other)
    return one.mark > other.mark
  end)
  return vim.tbl_map(function(place)
    return place.comment
  end, here)
end

local function jump(key)
  local direction, count = KEYS[key], vim.v.count1
  if vim.wo.diff then
    return vim.cmd('normal! ' .. count .. key)
  end
  local row, rows = vim.api.nvim_win_get_cursor(0)[1] - 1, {}
  for _, place in ipairs(M.places(vim.api.nvim_get_current_buf())) do
    if (place.first - row) * direction > 0 and rows[#rows] ~= place.first then
      rows[#rows + 1] = place.first
    end
  end
  if #rows == 0 then
    local words = ('%s: no marked change %s the cursor'):format(key, direction > 0 and 'below' or 'above')
    return require('drawbridge.message').answer(words)
  end
  local index = math.min(count, #rows)
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { rows[direction > 0 and index or #rows + 1 - index] + 1, 0 })
  vim.cmd('normal! zv')
end

local function mapping(buffer, key)
  for _, one in ipairs(vim.api.nvim_buf_get_keymap(buffer, 'n')) do
    if one.lhs == key then
      return one
    end
  end
end

--- Maps the keys in a buffer, except keys that the user or another plugin has mapped there.
local function map(buffer)
  for key in pairs(KEYS) do
    if not mapping(buffer, key) then
      vim.keymap.set('n', key, function()
        jump(key)
      end, { buffer = buffer, desc = DESCRIPTIONS[key] })
    end
  end
end

local function unmap(buffer)
  for key in pairs(KEYS) do
    local found = mapping(buffer, key)
    if found and found.desc == DESCRIPTIONS[key] then
      vim.api.nvim_buf_del_keymap(buffer, 'n', key)
    end
  end
end

--- Removes the marks and the keys of a buffer.
---@param buffer integer
function M.clear(buffer)
  if hunks[buffer] then
    hunks[buffer], comments[buffer] = nil, nil
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.api.nvim_buf_clear_namespace(buffer, LOOKS, 0, -1)
      vim.api.nvim_buf_clear_namespace(buffer, PLACES, 0, -1)
      vim.api.nvim_buf_clear_namespace(buffer, COMMENTS, 0, -1)
      unmap(buffer)
    end
  end
end

local function look_of(hunk)
  if hunk.added == '' and hunk.removed ~= '' then
    return '-', 'DrawbridgeRemoved'
  elseif hunk.removed == '' and hunk.added ~= '' then
    return '+', 'DrawbridgeAdded'
  end
  return '~', 'DrawbridgeChangedLine'
end

local function removed_lines(buffer, hunk)
  local removed = lines_of(hunk.removed)
  if hunk.row == 0 and removed[1] and vim.bo[buffer].bomb then
    removed[1] = bare(removed[1], 0)
  end
  local hidden = math.max(0, #removed - REMOVED_LINES)
  local shown = {}
  for index = 1, #removed - hidden do
    shown[index] = vim.bo[buffer].fileformat == 'dos' and removed[index]:gsub('\r$', '') or removed[index]
  end
  return inline.removed_lines({ removed = shown, hidden = hidden }, vim.bo[buffer].tabstop, 0)
end

local function draw_hunk(buffer, place)
  local hunk, first, last = place.hunk, place.first, place.last
  local sign, group = look_of(hunk)
  local function mark(row, options)
    vim.api.nvim_buf_set_extmark(buffer, LOOKS, row, 0, options)
  end
  if hunk.added ~= '' then
    mark(first, { end_row = last + 1, hl_group = group, hl_eol = true, strict = false })
  end
  for row = first, last do
    mark(row, { sign_text = sign, sign_hl_group = group, number_hl_group = group })
  end
  if hunk.removed ~= '' then
    local count = vim.api.nvim_buf_line_count(buffer)
    local is_behind = hunk.added == '' and (hunk.row >= count or buffers.is_empty(buffer))
    mark(first, { virt_lines = removed_lines(buffer, hunk), virt_lines_above = not is_behind })
  end
  if hunk.words ~= '' then
    mark(last, { virt_text = { { hunk.words, 'DrawbridgeHint' } }, virt_text_pos = 'eol' })
  end
end

local function draw_comment(buffer, comment, place, end_row)
  local last = math.min(place.last, end_row)
  local id =
    vim.api.nvim_buf_set_extmark(buffer, COMMENTS, math.min(place.first, last), 0, { end_row = last, end_col = 0 })
  comments[buffer][id] = comment
  vim.api.nvim_buf_set_extmark(buffer, LOOKS, last, 0, { virt_lines = { { { comment.text, 'DrawbridgeHint' } } } })
end

--- Marks the undecided changes of a file in its buffer. If the buffer has unsaved changes, marks stay where they have
--- moved to. A change whose lines are not in the buffer gets no mark.
---@param buffer integer
---@param file {hunks: drawbridge.Hunk[]}
---@param written? drawbridge.Comment[] The comments on its lines.
function M.draw(buffer, file, written)
  local moved, moved_comments = {}, {}
  if vim.bo[buffer].modified then
    moved_comments = comment_places(buffer)
    for _, place in ipairs(M.places(buffer)) do
      moved[place.hunk.id] = place
    end
  end
  M.clear(buffer)
  hunks[buffer], comments[buffer] = {}, {}
  local end_row = vim.api.nvim_buf_line_count(buffer) - 1
  for _, hunk in ipairs(file.hunks) do
    local added = lines_of(hunk.added)
    local place = moved[hunk.id]
    if not place and fits(buffer, hunk.row, added) then
      local first = math.min(hunk.row, end_row)
      place = { first = first, last = math.max(first, first + #added - 1) }
    end
    if place then
      place = { hunk = hunk, first = place.first, last = math.min(place.last, end_row) }
      draw_hunk(buffer, place)
      -- The mark ends at the start of the last row, so that text typed below does not belong to the change.
      local id = vim.api.nvim_buf_set_extmark(buffer, PLACES, place.first, 0, { end_row = place.last, end_col = 0 })
      hunks[buffer][id] = hunk
    end
  end
  for _, comment in ipairs(written or {}) do
    draw_comment(buffer, comment, moved_comments[comment.id] or comment, end_row)
  end
  if next(hunks[buffer]) then
    map(buffer)
    inline.make_room_at_top(buffer, LOOKS)
  end
end

return M
