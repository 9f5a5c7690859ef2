--- The view in two windows: the present text and the proposed one, in Neovim's diff mode.
local bar = require('drawbridge.view_bar')

local M = {}

local function lines_of(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

--- The person's own buffer if it holds just the text that the proposal starts from.
local function own_buffer(entry)
  local target = entry.target
  if target and vim.api.nvim_buf_is_loaded(target.buffer) and vim.deep_equal(lines_of(target.buffer), lines_of(entry.old)) then
    return target.buffer
  end
end

--- Opens the two windows beside or above each other, beginning in the current one, which shows the present text.
---@param entry drawbridge.Entry
---@param layout 'vertical'|'horizontal'
---@param borrowed boolean Whether the current window is the person's and stays.
function M.open(entry, layout, borrowed)
  local old_window = vim.api.nvim_get_current_win()
  local shown = own_buffer(entry) or entry.old
  if not borrowed then
    vim.api.nvim_win_set_buf(old_window, shown)
  end
  vim.cmd(layout == 'vertical' and 'rightbelow vsplit' or 'rightbelow split')
  local window = vim.api.nvim_get_current_win()
  vim.api.nvim_win_set_buf(window, entry.proposed)
  for _, one in ipairs({ old_window, window }) do
    vim.api.nvim_win_call(one, function()
      vim.cmd('diffthis')
    end)
  end
  entry.windows = { proposed = window, old = old_window }
  entry.borrowed = borrowed and { bar = bar.get(old_window) } or nil
  bar.on_old(entry, old_window)
  bar.on_proposed(entry, window, false)
end

--- Whether the current window can be the one that shows the present text.
---@param entry drawbridge.Entry
function M.can_borrow(entry)
  return own_buffer(entry) == vim.api.nvim_get_current_buf()
end

--- Takes diff mode off the window of the present text: Neovim remembers a window's options with the person's buffer.
---@param windows {proposed: integer, old: integer?}
---@param borrowed {bar: string}?
function M.leave(windows, borrowed)
  local window = windows.old
  if window and vim.api.nvim_win_is_valid(window) then
    vim.api.nvim_win_call(window, function()
      vim.cmd('diffoff')
    end)
    bar.put_back(window, borrowed and borrowed.bar or '')
  end
end

return M
