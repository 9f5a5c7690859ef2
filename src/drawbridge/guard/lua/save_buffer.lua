--- Saves the buffer as the user would, but returns a reason if Neovim would ask or the save fails.
local function refuse(reason)
  return answer({ saved = false, reason = reason })
end

--- Runs a command in the buffer, and `callback` if that triggers `event`. Returns nil, or Neovim's error message.
local function attempt(buf, command, event, callback)
  local group = api.nvim_create_augroup('drawbridge_guard_save', {})
  if event then
    api.nvim_create_autocmd(event, { group = group, buffer = buf, callback = callback })
  end
  local ok, problem = pcall(api.nvim_buf_call, buf, function()
    vim.cmd(command)
  end)
  vim.cmd('autocmd! drawbridge_guard_save')
  api.nvim_del_augroup_by_id(group)
  return not ok and (tostring(problem):match('E%d+: [^\n]*') or tostring(problem)) or nil
end

--- Whether Neovim itself would report that the file has changed since it was read. Saving can't be used to find that
--- out, because Neovim would ask the user.
local function is_newer(buf)
  if guard.stamps[buf] ~= stamp(buf) then
    return true
  elseif guard.sure[buf] then
    return false
  end
  -- "File exists" (E13): the file did not exist when the buffer was created. The attempt ends before anything is
  -- written.
  local confirm, newer = vim.o.confirm, false
  vim.o.confirm = false
  local problem = attempt(buf, 'silent write', 'BufWriteCmd', function()
    error('not really')
  end)
  vim.o.confirm = confirm
  if problem and problem:find('^E13:') then
    return true
  end
  attempt(buf, 'silent! checktime ' .. buf, 'FileChangedShell', function()
    newer, vim.v.fcs_choice = true, ''
  end)
  return newer
end

local function obstacle(buf)
  local name, options = api.nvim_buf_get_name(buf), vim.bo[buf]
  if options.readonly then
    return 'its buffer is read-only'
  elseif is_taken_over(buf) then
    return 'a plugin, not Neovim, reads or writes the file'
  elseif not loop.fs_stat(name:match('^(.*/)')) then
    return 'the directory of the file does not exist'
  elseif loop.fs_stat(name) and not loop.fs_access(name, 'W') then
    return 'the file is not writable'
  elseif not guard.sure[buf] and fn.exists('#FileChangedShell') == 1 then
    return 'the file may have changed since it was read'
  elseif is_newer(buf) then
    return 'the file has changed on disk since it was read'
  end
end

local buf = find({ params.file_path })[1][1]
if not buf then
  return refuse('the file is not open')
elseif not vim.bo[buf].modified then
  return answer({ saved = true })
end
local reason = obstacle(buf)
if reason then
  return refuse(reason)
end
-- With "!" Neovim does not ask; everything that it would ask about or refuse was checked before.
reason = attempt(buf, 'silent lockmarks write!')
if reason or vim.bo[buf].modified then
  return refuse(reason or 'the file still has unsaved changes after the save')
end
return answer({ saved = true })
