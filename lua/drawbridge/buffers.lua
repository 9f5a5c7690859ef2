local M = {}
local loop = vim.uv or vim.loop

local function canonical(path)
  local real = loop.fs_realpath(path)
  if real then return real end
  local folder = loop.fs_realpath(vim.fn.fnamemodify(path, ':h'))
  return folder and (folder == '/' and '' or folder) .. '/' .. vim.fn.fnamemodify(path, ':t') or path
end

function M.is_file(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return vim.bo[buffer].buftype == '' and name ~= '' and not name:find('^%a[%w+.-]*://')
end

function M.find(path)
  local wanted = canonical(path)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if M.is_file(buffer) and canonical(vim.api.nvim_buf_get_name(buffer)) == wanted then
      return buffer
    end
  end
end

function M.reload(path, known)
  local buffer = M.find(path)
  if buffer then vim.cmd('silent! checktime ' .. buffer) end
end
return M
