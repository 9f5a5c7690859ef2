--- Remembers the user's position and layout, and restores them.
local M = {}

--- Runs `run` without autocommands, so that other plugins do not react to temporary windows.
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

--- The values that the sizes of windows depend on.
local function screen()
  local options = vim.o
  return {
    lines = options.lines,
    columns = options.columns,
    cmdheight = options.cmdheight,
    laststatus = options.laststatus,
    tabs = #vim.api.nvim_list_tabpages(),
  }
end

--- The buffers that the user may be working on, most likely first. The guard protects the first of them that is a file
--- while a proposal is in front.
local function in_use()
  local found = {}
  for _, window in ipairs({ vim.api.nvim_get_current_win(), vim.fn.win_getid(vim.fn.winnr('#')) }) do
    table.insert(found, vim.api.nvim_win_get_buf(window))
    vim.list_extend(found, vim.w[window].drawbridge_opened_from or {})
  end
  -- getbufinfo() is not called directly, because its result would include everything that plugins store in buffers.
  local used = vim.fn.eval('map(getbufinfo({"bufloaded": 1}), "[v:val.lastused, v:val.bufnr]")')
  table.sort(used, function(a, b)
    return a[1] > b[1]
  end)
  for _, one in ipairs(used) do
    table.insert(found, one[2])
  end
  return found
end

--- The state that `restore` needs, and the buffers that the user may be working on (`in_use`).
---@return table place
function M.remember()
  local place = {
    tab = vim.api.nvim_get_current_tabpage(),
    window = vim.api.nvim_get_current_win(),
    last_window = vim.fn.win_getid(vim.fn.winnr('#')),
    in_terminal = vim.api.nvim_get_mode().mode == 't',
    in_use = in_use(),
    layout = vim.fn.winlayout(),
    screen = screen(),
    windows = {},
  }
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(place.tab)) do
    if vim.api.nvim_win_get_config(window).relative == '' then
      table.insert(place.windows, {
        id = window,
        buffer = vim.api.nvim_win_get_buf(window),
        view = view_of(window),
        width = vim.api.nvim_win_get_width(window),
        height = vim.api.nvim_win_get_height(window),
      })
    end
  end
  return place
end

--- Restores the sizes of windows if the same windows are on the same screen.
local function restore_sizes(place)
  if not vim.deep_equal(vim.fn.winlayout(), place.layout) or not vim.deep_equal(screen(), place.screen) then
    return
  end
  -- Each window changes the sizes of its neighbors, so a second round is needed.
  for _ = 1, 2 do
    for _, saved in ipairs(place.windows) do
      if vim.api.nvim_win_get_width(saved.id) ~= saved.width then
        vim.api.nvim_win_set_width(saved.id, saved.width)
      end
      if vim.api.nvim_win_get_height(saved.id) ~= saved.height then
        vim.api.nvim_win_set_height(saved.id, saved.height)
      end
    end
  end
  vim.o.cmdheight = place.screen.cmdheight
end

--- Scrolls back the windows that only the plugin scrolled. A window whose cursor has moved is not touched, because the
--- user has been in it, except the one that was `borrowed` for the view, which scrolled along with the other side.
local function restore_views(place, borrowed)
  for _, saved in ipairs(place.windows) do
    if vim.api.nvim_win_is_valid(saved.id) and vim.api.nvim_win_get_buf(saved.id) == saved.buffer then
      local now = view_of(saved.id)
      local unmoved = now.lnum == saved.view.lnum and now.col == saved.view.col
      if (unmoved or saved.id == borrowed) and not vim.deep_equal(now, saved.view) then
        vim.api.nvim_win_call(saved.id, function()
          vim.fn.winrestview(saved.view)
        end)
      end
    end
  end
end

--- Restores the sizes and scroll positions from `remember`, and the focus too if `with_focus`. Without `with_focus`,
--- nothing is touched if the user is on another tab page by now.
---@param place table
---@param with_focus boolean
---@param borrowed integer?
function M.restore(place, with_focus, borrowed)
  if not vim.api.nvim_tabpage_is_valid(place.tab) then
    return
  end
  if with_focus then
    vim.api.nvim_set_current_tabpage(place.tab)
  elseif vim.api.nvim_get_current_tabpage() ~= place.tab then
    return
  end
  restore_sizes(place)
  restore_views(place, borrowed)
  for _, window in ipairs(with_focus and { place.last_window, place.window } or {}) do
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_set_current_win(window)
    end
  end
  if with_focus and place.in_terminal and vim.bo.buftype == 'terminal' then
    vim.cmd('startinsert')
  end
end

return M
