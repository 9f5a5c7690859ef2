--- Makes room for a view, never at the cost of a terminal. A program whose terminal changes size redraws its screen, and
--- Claude Code leaves parts of the old one on it.
local M = {}

-- Older Neovims refresh a terminal that is on another tab page through a window as wide as the screen, and report that size
-- to its program.
local REFRESHES_WIDE = vim.fn.has('nvim-0.10') == 0

local holders = {} ---@type table<string, boolean> Views in their own tab pages, by the proposal's id.
local shown_before ---@type integer? 'showtabline' before the first of them.

local function is_terminal(window)
  return vim.bo[vim.api.nvim_win_get_buf(window)].buftype == 'terminal'
end

local function is_float(window)
  return vim.api.nvim_win_get_config(window).relative ~= ''
end

--- A window of one cell that is never visible or entered.
local function speck(buffer)
  return vim.api.nvim_open_win(buffer, false, {
    relative = 'editor',
    row = 0,
    col = 0,
    width = 1,
    height = 1,
    style = 'minimal',
    focusable = false,
    zindex = 1,
    noautocmd = true,
  })
end

--- The first of `windows` that is not floating and does not show a terminal, if any.
local function other_window(windows)
  for _, window in ipairs(windows) do
    if not is_terminal(window) and not is_float(window) then
      return window
    end
  end
end

--- Runs `run` in a window that does not show a terminal, if there is one. Neovim first creates a new window, including its
--- own for autocommands, with the current buffer and in a different size, which would become the terminal's size.
---@param run fun(): any
function M.away_from_terminal(run)
  local windows = vim.list_extend(vim.api.nvim_tabpage_list_wins(0), vim.api.nvim_list_wins())
  local window = is_terminal(0) and other_window(windows)
  if window then
    return vim.api.nvim_win_call(window, run)
  end
  return run()
end

--- Opens a floating window with `buffer` in this tab page, without entering it and, like `away_from_terminal`, without
--- resizing a terminal.
---@param buffer integer
---@param options table The options for `nvim_open_win`.
---@return integer window
function M.open_float(buffer, options)
  local function open()
    return vim.api.nvim_open_win(buffer, false, options)
  end
  if not is_terminal(0) then
    return open()
  end
  local window = other_window(vim.api.nvim_tabpage_list_wins(0))
  if window then
    return vim.api.nvim_win_call(window, open)
  end
  return vim.api.nvim_buf_call(buffer, open)
end

--- Makes Neovim create the window in which it runs autocommands of buffers that are not shown. Neovim keeps this window.
function M.prepare()
  M.away_from_terminal(function()
    local buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_call(buffer, function() end)
    vim.api.nvim_buf_delete(buffer, { force = true })
  end)
end

--- Opens a tab page and goes there. The tab page shows the current buffer or, if that is a terminal, the buffer of
--- another window that does not show one, if possible.
function M.open_tab()
  local terminals = {}
  for _, window in ipairs(REFRESHES_WIDE and vim.api.nvim_tabpage_list_wins(0) or {}) do
    if is_terminal(window) then
      terminals[vim.api.nvim_win_get_buf(window)] = true
    end
  end
  local new
  M.away_from_terminal(function()
    vim.cmd('tab split')
    new = vim.api.nvim_get_current_tabpage()
    for terminal in pairs(terminals) do
      -- The refresh then uses this window of the terminal, which is on the new tab page.
      local window = speck(terminal)
      vim.wo[window].wrap, vim.wo[window].winblend = false, 100
    end
  end)
  vim.api.nvim_set_current_tabpage(new)
end

--- Runs `run`, which opens or closes windows, and keeps the sizes of the terminals in this tab page, except floating ones.
---@param run fun()
function M.preserve_terminals(run)
  local fixed = {}
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if is_terminal(window) and not is_float(window) then
      fixed[window] = { vim.wo[window].winfixwidth, vim.wo[window].winfixheight }
      vim.wo[window].winfixwidth, vim.wo[window].winfixheight = true, true
    end
  end
  local ok, problem = pcall(run)
  for window, before in pairs(fixed) do
    if vim.api.nvim_win_is_valid(window) then
      vim.wo[window].winfixwidth, vim.wo[window].winfixheight = before[1], before[2]
    end
  end
  if not ok then
    error(problem, 0)
  end
end

--- Keeps a hidden tab line hidden until the view closes. A second tab page would show it, and it takes a line from
--- every tab page.
---@param id string
function M.hold_tab_line(id)
  if next(holders) == nil and vim.o.showtabline == 1 and #vim.api.nvim_list_tabpages() == 1 then
    shown_before = vim.o.showtabline
    vim.o.showtabline = 0
  end
  holders[id] = true
end

---@param id string
function M.release_tab_line(id)
  holders[id] = nil
  if next(holders) == nil and shown_before then
    -- A value that the user has set since then stays.
    if vim.o.showtabline == 0 then
      vim.o.showtabline = shown_before
    end
    shown_before = nil
  end
end

return M
