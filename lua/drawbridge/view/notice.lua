--- A small window in a corner that can't be entered and receives no keys. It never covers an agent's terminal if
--- another corner is free, because a dialog may be waiting in the terminal. If no corner is free, the window is in the
--- top right one. It moves out of the way of a terminal that opens while the window is shown.
local cover = require('drawbridge.view.cover')
local room = require('drawbridge.view.room')

local M = {}

local COLORS = vim.api.nvim_create_namespace('drawbridge_notice')
local EDGE = 1 -- cells between the text and the border
local BORDER = 2 -- cells of the border, both sides together
local NARROWEST = 16 -- columns of text
local FLASH = 8000 -- ms
local FLASH_ROWS = 4 -- rows of the notice about what is waiting, which may be below
-- The events that may change the size of the screen or the windows with terminals.
local MOVED = { 'VimResized', 'WinNew', 'WinEnter', 'BufWinEnter', 'TermOpen', 'TermEnter' }

local open = {} ---@type table<table, true> The notices that are shown.

local function fitted(lines, width)
  local shown = {}
  for _, line in ipairs(lines) do
    while vim.fn.strdisplaywidth(line) > width do
      local part = vim.fn.strcharpart(line, 0, width)
      local words = part:match('^(.+)%s') or part
      table.insert(shown, words)
      line = vim.trim(line:sub(#words + 1))
    end
    table.insert(shown, line)
  end
  return shown
end

--- The areas of the terminal windows in this tab page: first row, end row, first column, end column. All are 0-based,
--- and the ends are exclusive.
local function terminals()
  local found = {}
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.bo[vim.api.nvim_win_get_buf(window)].buftype == 'terminal' then
      local row, column = unpack(vim.api.nvim_win_get_position(window))
      local bottom, right = row + vim.api.nvim_win_get_height(window), column + vim.api.nvim_win_get_width(window)
      table.insert(found, { row, bottom, column, right })
    end
  end
  return found
end

--- A corner of the editor without a terminal for a box of that size, border included, as its anchor, row and column. If
--- each corner has a terminal, nil, or the top right corner if `anyway`. `aside`: rows to leave free.
local function corner(rows, columns, height, width, aside, anyway)
  local top = 0
  if vim.o.showtabline == 2 or (vim.o.showtabline == 1 and #vim.api.nvim_list_tabpages() > 1) then
    top = 1
  end
  local corners = {
    { 'SE', math.max(rows - aside, 0), columns },
    { 'NE', top + aside, columns },
    { 'SW', math.max(rows - aside, 0), 0 },
    { 'NW', top + aside, 0 },
  }
  for _, one in ipairs(corners) do
    local first_row = one[1]:sub(1, 1) == 'S' and one[2] - height or one[2]
    local first_column = one[1]:sub(2, 2) == 'E' and columns - width or 0
    local is_free = true
    for _, area in ipairs(terminals()) do
      local apart = first_row >= area[2] or first_row + height <= area[1]
      is_free = is_free and (apart or first_column >= area[4] or first_column + width <= area[3])
    end
    if is_free then
      return one
    end
  end
  return anyway and corners[2] or nil
end

--- `lines` wrapped, and the number of columns that they take up, including the edges.
local function wrapped(lines, limit)
  local shown, width = fitted(lines, limit), 1
  for _, line in ipairs(shown) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  return shown, width + 2 * EDGE
end

--- The widths that a text in the editor may have. The first is the largest, and the others fit beside a terminal.
local function limits(columns)
  local around = 2 * EDGE + BORDER
  local found = { math.max(columns - around - 2, 10) }
  for _, area in ipairs(terminals()) do
    for _, free in ipairs({ columns - area[4], area[3] }) do
      if free - around >= NARROWEST then
        table.insert(found, free - around)
      end
    end
  end
  return found
end

local function in_editor(lines, above)
  local columns, rows = vim.o.columns, vim.o.lines - vim.o.cmdheight - 1
  local possible = limits(columns)
  for attempt = 1, #possible + 1 do
    local shown, width = wrapped(lines, possible[attempt] or possible[1])
    local found = corner(rows, columns, #shown + BORDER, width + BORDER, above, attempt > #possible)
    if found then
      return shown, width, found
    end
  end
end

local function place(lines, above)
  local shown, width, at = in_editor(lines, above)
  return shown,
    {
      relative = 'editor',
      anchor = at[1],
      row = at[2],
      col = at[3],
      width = width,
      height = #shown,
      style = 'minimal',
      border = 'rounded',
      focusable = false,
      zindex = 60,
    }
end

local function write(buffer, lines)
  vim.api.nvim_buf_clear_namespace(buffer, COLORS, 0, -1)
  for index, line in ipairs(lines) do
    lines[index] = (' '):rep(EDGE) .. line
  end
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  for row = 1, #lines - 1 do
    vim.api.nvim_buf_set_extmark(buffer, COLORS, row, 0, { end_col = #lines[row + 1], hl_group = 'DrawbridgeHint' })
  end
end

--- Redraws the screen while a command line is typed, which Neovim does not do automatically.
local function draw()
  if vim.api.nvim_get_mode().mode:sub(1, 1) == 'c' then
    vim.cmd('redraw')
  end
end

--- Shows `lines` in a corner of the editor, if possible one without a terminal. Long lines are wrapped.
---@param lines string[]
---@param above integer? Rows to leave free between it and the edge.
---@return table notice To pass to `hide`.
function M.show(lines, above)
  above = above or 0
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  local shown, options = place(lines, above)
  write(buffer, shown)
  options.noautocmd = true
  local float = room.open_float(buffer, options)
  vim.wo[float].winhighlight = 'NormalFloat:DrawbridgeNotice,FloatBorder:DrawbridgeNoticeBorder'
  local notice = { float = float }
  notice.moved = vim.api.nvim_create_autocmd(MOVED, {
    -- A window gets its buffer and its size after the event.
    callback = vim.schedule_wrap(function()
      if not vim.api.nvim_win_is_valid(float) then
        return
      end
      if vim.api.nvim_win_get_tabpage(float) == vim.api.nvim_get_current_tabpage() then
        local again, moved = place(lines, above)
        write(buffer, again)
        vim.api.nvim_win_set_config(float, moved)
      end
    end),
  })
  open[notice] = true
  draw()
  return notice
end

local flashed, timer

--- Shows a sentence for some seconds, and leaves room between it and the edge for the notice about what is waiting. The
--- next sentence replaces it.
---@param text string
function M.flash(text)
  M.hide(flashed)
  flashed = M.show({ text }, FLASH_ROWS)
  timer = timer or (vim.uv or vim.loop).new_timer()
  timer:start(
    FLASH,
    0,
    vim.schedule_wrap(function()
      M.hide(flashed)
      flashed = nil
    end)
  )
end

--- Hides the notices that cover a part of these windows.
---@param windows table<any, integer>
function M.make_way(windows)
  for notice in pairs(open) do
    for _, window in pairs(windows) do
      if vim.api.nvim_win_is_valid(notice.float) and cover.overlap(cover.area(notice.float), cover.area(window)) then
        M.hide(notice)
      end
    end
  end
end

---@param notice table? The notice, as returned by `show`.
function M.hide(notice)
  if notice then
    open[notice] = nil
    pcall(vim.api.nvim_del_autocmd, notice.moved)
    pcall(vim.api.nvim_win_close, notice.float, true)
    draw()
  end
end

return M
