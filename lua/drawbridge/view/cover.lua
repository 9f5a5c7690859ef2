--- The floating windows that cover other windows. An area is a list of four numbers, in cells of the screen and counted
--- from 0: the first row, the row after the last one, the first column, and the column after the last one.
local M = {}

-- The positions of the four edges in the `border` of a window's configuration.
local TOP, RIGHT, BOTTOM, LEFT = 2, 4, 6, 8

---@param one integer[]
---@param other integer[]
---@return boolean
function M.overlap(one, other)
  return one[1] < other[2] and other[1] < one[2] and one[3] < other[4] and other[3] < one[4]
end

--- The area of a window, including its border.
---@param window integer
---@return integer[]
function M.area(window)
  local row, column = unpack(vim.api.nvim_win_get_position(window))
  local border = vim.api.nvim_win_get_config(window).border
  local function edge(at)
    local part = type(border) == 'table' and border[at] or ''
    return (type(part) == 'table' and part[1] or part) ~= '' and 1 or 0
  end
  local height = vim.api.nvim_win_get_height(window) + edge(TOP) + edge(BOTTOM)
  local width = vim.api.nvim_win_get_width(window) + edge(LEFT) + edge(RIGHT)
  return { row, row + height, column, column + width }
end

--- The areas of the floating windows and of the popup menu that cover a part of a window of the current tab page.
---@param window integer
---@return integer[][]
function M.over(window)
  local found, own = {}, M.area(window)
  for _, one in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local config = vim.api.nvim_win_get_config(one)
    if one ~= window and config.relative ~= '' and not config.hide then
      table.insert(found, M.area(one))
    end
  end
  if vim.fn.pumvisible() == 1 then
    local menu = vim.fn.pum_getpos()
    local right = menu.col + menu.width + (menu.scrollbar and 1 or 0)
    table.insert(found, { menu.row, menu.row + menu.height, menu.col, right })
  end
  return vim.tbl_filter(function(area)
    return M.overlap(area, own)
  end, found)
end

return M
