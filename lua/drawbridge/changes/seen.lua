--- Which hunks of a review have been in a window, from their first to their last row. The bridge is notified, so that
--- these hunks are no longer new on the next visit.
local link = require('drawbridge.link')
local marks = require('drawbridge.changes.marks')

local M = {}

local DELAY = 200 -- milliseconds; what only scrolls past within this time does not count as seen

local parts = {} ---@type table<string, {first?: boolean, last?: boolean}> By hunk id: which of its ends have been in a window.
local reported = {} ---@type table<string, true> By hunk id.
local timer

--- Adds the hunks whose first and last rows have both been in the current window to `found`.
local function look_at_buffer(found)
  local top, bottom = vim.fn.line('w0') - 1, vim.fn.line('w$') - 1
  local function is_visible(row)
    return top <= row and row <= bottom and vim.fn.foldclosed(row + 1) == -1
  end
  for _, place in ipairs(marks.places(vim.api.nvim_get_current_buf())) do
    local id = place.hunk.id
    local part = parts[id] or {}
    part.first = part.first or is_visible(place.first)
    part.last = part.last or is_visible(place.last)
    parts[id] = part
    if part.first and part.last and marks.has_lines(place.hunk) then
      found[#found + 1] = id
    end
  end
end

local function look(listed)
  if vim.fn.getcmdwintype() ~= '' then
    return -- another event follows when this window is closed
  end
  local found, new = {}, {}
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    vim.api.nvim_win_call(window, function()
      if vim.bo.buftype == 'quickfix' then
        vim.list_extend(found, listed(vim.fn.line('w0'), vim.fn.line('w$')))
      else
        look_at_buffer(found)
      end
    end)
  end
  for _, id in ipairs(found) do
    if not reported[id] then
      reported[id] = true
      new[#new + 1] = id
    end
  end
  if #new > 0 then
    link.send('review_seen', { hunks = new })
  end
end

--- Checks the windows of the current tab page once the screen has not changed for a moment.
---@param listed fun(first: integer, last: integer): string[] Returns the ids of the hunks that can only be seen in these
--- lines of the current window, which shows a quickfix list.
function M.soon(listed)
  timer = timer or (vim.uv or vim.loop).new_timer()
  timer:start(
    DELAY,
    0,
    vim.schedule_wrap(function()
      look(listed)
    end)
  )
end

--- Whether all of a hunk has been in a window.
---@param hunk string Its id.
function M.has_seen(hunk)
  return reported[hunk] == true
end

--- Forgets what has been seen and reported.
function M.stop()
  parts, reported = {}, {}
  if timer then
    timer:stop()
  end
end

return M
