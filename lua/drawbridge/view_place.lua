--- Where the person is, and the way back there.
local M = {}

--- Runs `run` without autocommands: other plugins are not told of windows that come and go.
---@param run fun()
function M.quietly(run)
  local ignored = vim.o.eventignore
  vim.o.eventignore = 'all'
  local ok, problem = pcall(run)
  vim.o.eventignore = ignored
  if not ok then
    error(problem, 0)
  end
end

local function view_of(window)
  return vim.api.nvim_win_call(window, vim.fn.winsaveview)
end

--- What `come_back` needs.
---@return table place
function M.remember()
  local place = {
    tab = vim.api.nvim_get_current_tabpage(),
    window = vim.api.nvim_get_current_win(),
    last_window = vim.fn.win_getid(vim.fn.winnr('#')),
    in_terminal = vim.api.nvim_get_mode().mode == 't',
    layout = vim.fn.winlayout(),
    sizes = vim.fn.winrestcmd(),
    views = {},
  }
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(place.tab)) do
    place.views[window] = { buffer = vim.api.nvim_win_get_buf(window), view = view_of(window) }
  end
  return place
end

--- Scrolls windows back that were only moved by windows of ours; where the cursor has moved the person has been there.
local function restore_views(place)
  for window, saved in pairs(place.views) do
    if vim.api.nvim_win_is_valid(window) and vim.api.nvim_win_get_buf(window) == saved.buffer then
      local now = view_of(window)
      if now.lnum == saved.view.lnum and now.col == saved.view.col and not vim.deep_equal(now, saved.view) then
        vim.api.nvim_win_call(window, function()
          vim.fn.winrestview(saved.view)
        end)
      end
    end
  end
end

--- Puts sizes and scroll positions back as they were at `remember`, and the focus too if `with_focus`.
---@param place table
---@param with_focus boolean
function M.come_back(place, with_focus)
  if not vim.api.nvim_tabpage_is_valid(place.tab) then
    return
  end
  local here = vim.api.nvim_get_current_win()
  vim.api.nvim_set_current_tabpage(place.tab)
  local inside = vim.api.nvim_get_current_win()
  if vim.deep_equal(vim.fn.winlayout(), place.layout) then
    vim.cmd(place.sizes)
  end
  restore_views(place)
  if not with_focus then
    vim.api.nvim_set_current_win(inside)
    vim.api.nvim_set_current_win(here)
    return
  end
  for _, window in ipairs({ place.last_window, place.window }) do
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_set_current_win(window)
    end
  end
  if place.in_terminal and vim.api.nvim_get_current_win() == place.window and vim.bo.buftype == 'terminal' then
    vim.cmd('startinsert')
  end
end

return M
