--- A small window in a corner that can't be entered and takes no key. It never covers an agent's terminal if there is another
--- corner, since a dialog may wait there; of a terminal that fills the screen it covers the top.
local room = require('drawbridge.view_room')

local M = {}

local COLOURS = vim.api.nvim_create_namespace('drawbridge_notice')
local EDGE = 1 -- cells between the text and the border
local FLASH = 8000 -- ms
local FLASH_ROWS = 4 -- rows of the notice of what waits, which may be below

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

--- The areas of the terminals in this tab page: their first and last rows and columns, from 0, the last ones excluded.
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

--- A corner of the editor for a box of that size, border included: its anchor, row and column. The bottom right one, unless a
--- terminal is there. `aside`: rows to leave free.
local function corner(rows, columns, height, width, aside)
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
      return unpack(one)
    end
  end
  return unpack(corners[2])
end

local function place(lines, window, above)
  local columns = window and vim.api.nvim_win_get_width(window) or vim.o.columns
  local rows = window and vim.api.nvim_win_get_height(window) or (vim.o.lines - vim.o.cmdheight - 1)
  local shown = fitted(lines, math.max(columns - 6, 10))
  local width = 1
  for _, line in ipairs(shown) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = width + 2 * EDGE
  local anchor, row, column = 'SE', math.max(rows - (above or 0), 0), columns
  if not window then
    anchor, row, column = corner(rows, columns, #shown + 2, width + 2, above or 0)
  end
  return shown,
    {
      relative = window and 'win' or 'editor',
      win = window,
      anchor = anchor,
      row = row,
      col = column,
      width = width,
      height = #shown,
      style = 'minimal',
      border = 'rounded',
      focusable = false,
      zindex = 60,
    }
end

local function write(buffer, lines)
  for index, line in ipairs(lines) do
    lines[index] = (' '):rep(EDGE) .. line
  end
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  for row = 1, #lines - 1 do
    vim.api.nvim_buf_set_extmark(buffer, COLOURS, row, 0, { end_col = #lines[row + 1], hl_group = 'DrawbridgeHint' })
  end
end

--- While a command line is typed Neovim draws nothing of its own accord.
local function draw()
  if vim.api.nvim_get_mode().mode:sub(1, 1) == 'c' then
    vim.cmd('redraw')
  end
end

--- Shows `lines` in the bottom right corner of the editor, or of `window`. Long ones are wrapped.
---@param lines string[]
---@param window integer?
---@param above integer? Rows to leave free below it.
---@return table notice For `hide`.
function M.show(lines, window, above)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  local shown, options = place(lines, window, above)
  write(buffer, shown)
  options.noautocmd = true
  local float = room.away_from_terminal(function()
    return vim.api.nvim_open_win(buffer, false, options)
  end)
  vim.wo[float].winhighlight = 'NormalFloat:DrawbridgeNotice,FloatBorder:DrawbridgeNoticeBorder'
  local notice = { float = float }
  notice.resized = vim.api.nvim_create_autocmd('VimResized', {
    callback = function()
      if vim.api.nvim_win_is_valid(float) and (not window or vim.api.nvim_win_is_valid(window)) then
        local again, moved = place(lines, window, above)
        write(buffer, again)
        vim.api.nvim_win_set_config(float, moved)
      end
    end,
  })
  draw()
  return notice
end

local flashed, timer

--- Shows a sentence for some seconds, above what `show` has in that corner; the next one replaces it.
---@param text string
function M.flash(text)
  M.hide(flashed)
  flashed = M.show({ text }, nil, FLASH_ROWS)
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

---@param notice table? As from `show`.
function M.hide(notice)
  if notice then
    pcall(vim.api.nvim_del_autocmd, notice.resized)
    pcall(vim.api.nvim_win_close, notice.float, true)
    draw()
  end
end

return M
