--- Saves a buffer for an agent: like `:w`, but with an error if `:w` would ask.
local buffers = require('drawbridge.buffers')

local M = {}

local loop = vim.uv or vim.loop
local stamps = {} ---@type table<integer, string> The state of the file when Neovim last read or wrote it, by buffer.
local group

local function stamp(path)
  local found = loop.fs_stat(path)
  return found and ('%s %d %d.%09d'):format(path, found.size, found.mtime.sec, found.mtime.nsec) or path .. ' absent'
end

local function note(buffer)
  stamps[buffer] = stamp(vim.api.nvim_buf_get_name(buffer))
end

--- Records the state on disk of the files that are open now, and from then on of each file that is read or written,
--- because Neovim itself does not provide this state.
function M.start()
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) and buffers.is_file(buffer) then
      note(buffer)
    end
  end
  group = vim.api.nvim_create_augroup('drawbridge_save', {})
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufWritePost', 'FileChangedShellPost' }, {
    group = group,
    callback = function(args)
      note(args.buf)
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    group = group,
    callback = function(args)
      stamps[args.buf] = nil
    end,
  })
end

function M.stop()
  if group then
    vim.api.nvim_del_augroup_by_id(group)
    group, stamps = nil, {}
  end
end

local function refuse(message)
  error({ code = 'REFUSED', message = message }, 0)
end

local function check(buffer, path)
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    refuse(('%s is not open in Neovim.'):format(path))
  end
  local name = vim.api.nvim_buf_get_name(buffer)
  if vim.bo[buffer].readonly then
    refuse(('%s is read-only in Neovim.'):format(path))
  elseif loop.fs_stat(name) and not loop.fs_access(name, 'W') then
    refuse(('%s is not writable.'):format(path))
  elseif stamps[buffer] and stamps[buffer] ~= stamp(name) then
    local what = loop.fs_stat(name) and 'has changed on disk' or 'has been deleted or moved'
    refuse(('%s %s since Neovim last read or saved it.'):format(path, what))
  end
end

-- With "!" Neovim does not ask. Everything that it would ask about or refuse was checked before.
local WRITE = [[
  let g:drawbridge_problem = ''
  try
    silent lockmarks write!
  catch
    let g:drawbridge_problem = v:exception
  endtry
]]

--- Saves the buffer of a file. Raises an error with the reason if that fails.
---@param params {path: string}
function M.save(params)
  local buffer = buffers.find(params.path)
  check(buffer, params.path)
  vim.api.nvim_buf_call(buffer, function()
    vim.cmd(WRITE)
  end)
  local problem = vim.g.drawbridge_problem:gsub('^Vim%b():', '')
  vim.g.drawbridge_problem = nil
  if problem ~= '' then
    refuse(('Neovim could not save %s: %s.'):format(params.path, problem))
  elseif vim.bo[buffer].modified then
    refuse(('%s still has unsaved changes after :write, perhaps because of an autocommand.'):format(params.path))
  end
end

return M
