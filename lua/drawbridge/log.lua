--- The last lines of the bridge (its stderr) and of the plugin, for `:DrawbridgeLog`.
local M = {}

local LIMIT = 200
local lines = {}
local buffer

local function refresh()
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, #lines > 0 and lines or { '(nothing yet)' })
  vim.bo[buffer].modifiable = false
end

---@param line string
function M.add(line)
  lines[#lines + 1] = os.date('%H:%M:%S ') .. line:gsub('[\n\r]+', ' ')
  if #lines > LIMIT then
    table.remove(lines, 1)
  end
end

---@return string[]
function M.lines()
  return vim.deepcopy(lines)
end

--- Shows the lines in a split below; `q` closes it. Where it is shown already it is brought up to date.
function M.show()
  local window = buffer and vim.fn.bufwinid(buffer) or -1
  if window ~= -1 then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd('botright 12new')
    buffer = vim.api.nvim_get_current_buf()
    vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile = 'nofile', 'wipe', false
    vim.wo.number, vim.wo.wrap, vim.wo.winfixheight = false, true, true
    pcall(vim.api.nvim_buf_set_name, buffer, 'drawbridge://log')
    vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, nowait = true })
  end
  refresh()
  vim.api.nvim_win_set_cursor(0, { vim.api.nvim_buf_line_count(buffer), 0 })
end

return M
