--- The view in two windows: the current text and the proposed one, in Neovim's diff mode.
local bar = require('drawbridge.view.bar')

local M = {}

-- The options that diff mode or `open` sets in a window. `:diffoff` does not restore all of them.
local OPTIONS = {
  'scrollbind',
  'cursorbind',
  'wrap',
  'foldmethod',
  'foldlevel',
  'foldenable',
  'foldcolumn',
  'winhighlight',
  'conceallevel',
}

local CHANGED = ',DiffChange:DrawbridgeChangedLine,DiffText:DrawbridgeChanged'

-- In diff mode, a line that is missing on the other side counts as added, on both sides.
local COLORS = {
  old = 'DiffAdd:DrawbridgeRemoved,DiffDelete:DrawbridgeFiller' .. CHANGED,
  proposed = 'DiffAdd:DrawbridgeAdded,DiffDelete:DrawbridgeFiller' .. CHANGED,
}

local function options_of(window)
  local options = { bar = bar.below(window) }
  for _, name in ipairs(OPTIONS) do
    options[name] = vim.wo[window][name]
  end
  return options
end

local function lines_of(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

--- The user's own buffer if it contains exactly the text that the proposal starts from.
local function own_buffer(entry)
  local target = entry.target
  if
    target
    and vim.api.nvim_buf_is_loaded(target.buffer)
    and vim.deep_equal(lines_of(target.buffer), lines_of(entry.old))
  then
    return target.buffer
  end
end

--- Opens the two windows, side by side or one above the other. The current window becomes the one with the current
--- text.
---@param entry drawbridge.Entry
---@param layout 'vertical'|'horizontal'
---@param borrowed boolean Whether the current window belongs to the user and stays open.
function M.open(entry, layout, borrowed)
  local old_window = vim.api.nvim_get_current_win()
  entry.windows = { old = old_window }
  entry.borrowed = borrowed
  local shown = own_buffer(entry) or entry.old
  if not borrowed then
    vim.api.nvim_win_set_buf(old_window, shown)
  end
  entry.old_options = options_of(old_window)
  vim.cmd(layout == 'vertical' and 'rightbelow vsplit' or 'rightbelow split')
  local window = vim.api.nvim_get_current_win()
  entry.windows.proposed = window
  vim.api.nvim_win_set_buf(window, entry.proposed)
  for side, one in pairs(entry.windows) do
    vim.api.nvim_win_call(one, function()
      vim.cmd('diffthis')
    end)
    -- Diff mode would leave the end of a long line outside of the window.
    vim.wo[one].wrap = true
    vim.wo[one].conceallevel = 0
    vim.wo[one].winhighlight = COLORS[side]
  end
  bar.on_old(entry, old_window)
  bar.on_proposed(entry, window, false)
end

local function has_own_folds()
  if vim.wo.foldmethod ~= 'manual' then
    return false
  end
  for line = 1, vim.fn.line('$') do
    if vim.fn.foldlevel(line) > 0 then
      return true
    end
  end
  return false
end

--- Whether the current window can be the one that shows the current text. Diff mode would drop folds made by hand.
---@param entry drawbridge.Entry
function M.can_borrow(entry)
  return own_buffer(entry) == vim.api.nvim_get_current_buf() and not has_own_folds()
end

--- Scrolls both windows so that lines removed above the first line are visible, like `make_room_at_top` of the inline view.
---@param entry drawbridge.Entry
function M.make_room_at_top(entry)
  local windows, is_at_top = entry.windows, false
  if not windows.old then
    return
  end
  vim.api.nvim_win_call(windows.proposed, function()
    local above = vim.fn.diff_filler(1)
    is_at_top = above > 0 and vim.fn.winsaveview().topline == 1
    if is_at_top then
      vim.fn.winrestview({ topfill = math.min(above, vim.api.nvim_win_get_height(0) - 1) })
    end
  end)
  if is_at_top then
    vim.api.nvim_win_call(windows.old, function()
      vim.fn.winrestview({ topline = 1, lnum = 1, col = 0 })
    end)
  end
end

--- Opens the folds of both windows, because diff mode folds all lines into one if nothing differs anymore.
---@param entry drawbridge.Entry
function M.unfold(entry)
  for _, window in pairs(entry.windows) do
    if vim.api.nvim_win_is_valid(window) and vim.wo[window].diff then
      vim.wo[window].foldlevel = 99
    end
  end
end

--- Ends diff mode in the window of the current text, and restores the window's options, because otherwise Neovim would
--- remember those of diff mode with the user's buffer.
---@param entry drawbridge.Entry
function M.leave(entry)
  local window = entry.windows.old
  if not window or not entry.old_options or not vim.api.nvim_win_is_valid(window) then
    return
  end
  vim.api.nvim_win_call(window, function()
    vim.cmd('diffoff')
  end)
  for _, name in ipairs(OPTIONS) do
    vim.wo[window][name] = entry.old_options[name]
  end
  if vim.wo[window].foldmethod == 'manual' then
    -- The folds of diff mode remain as manual folds.
    vim.api.nvim_win_call(window, function()
      vim.cmd('normal! zE')
    end)
  end
  bar.remove(window, entry.old_options.bar)
end

return M
