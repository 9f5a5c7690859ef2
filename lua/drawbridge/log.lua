--- The last lines that the bridge (on its stderr) and the plugin have logged, for `:DrawbridgeLog`.
local M = {}

local LIMIT = 200
local lines = {}
local buffer

---@param line string
function M.add(line)
  lines[#lines + 1] = line:gsub('[\n\r]+', ' ')
  if #lines > LIMIT then
    table.remove(lines, 1)
  end
end

---@return string[]
function M.lines()
  return vim.deepcopy(lines)
end

local function with_file(file)
  local shown = M.lines()
  if file then
    vim.list_extend(shown, { '', ('The end of %s:'):format(file) })
    local can_read = vim.fn.filereadable(file) == 1
    vim.list_extend(shown, can_read and vim.fn.readfile(file, '', -LIMIT) or { "(it does not exist or can't be read)" })
  end
  return #shown > 0 and shown or { '(nothing yet)' }
end

local function open_split()
  vim.cmd('botright 12new')
  buffer = vim.api.nvim_get_current_buf()
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile, vim.bo.buflisted = 'nofile', 'wipe', false, false
  vim.wo.number, vim.wo.wrap, vim.wo.winfixheight = false, true, true
  pcall(vim.api.nvim_buf_set_name, buffer, 'drawbridge://log')
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, nowait = true })
end

--- Shows the lines in a split below, or updates it if it is already open. `q` closes it.
---@param file string? The path of the bridge's own log file, whose last lines are shown too.
function M.show(file)
  local window = buffer and vim.fn.bufwinid(buffer) or -1
  if window ~= -1 then
    vim.api.nvim_set_current_win(window)
  else
    open_split()
  end
  vim.bo.modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, with_file(file))
  vim.bo.modifiable = false
  vim.api.nvim_win_set_cursor(0, { vim.api.nvim_buf_line_count(buffer), 0 })
end

return M
