--- Reloads files that have changed on disk; buffers with unsaved changes are left alone.
local LIMIT = 16 * 1024 * 1024 -- bytes; a larger file, such as a log, would block the editor for seconds
local TRIES = 3 -- the file may be written while it is read

local function bytes_of(path)
  local found = loop.fs_stat(path)
  if found.type ~= 'file' then
    error('it is not a regular file', 0)
  elseif found.size > LIMIT then
    error(('it is larger than %d MB'):format(LIMIT / 1024 / 1024), 0)
  end
  local file, problem = io.open(path, 'rb')
  local bytes = file and file:read('*a')
  if file then
    file:close()
  end
  return bytes or error("it can't be read: " .. (problem or ''):gsub('^.*: ', ''), 0)
end

--- The file's text in UTF-8, and the file's encoding.
local function decoded(bytes, encoding)
  if is_utf8(encoding) then
    return bytes, encoding
  elseif bytes:find('[\128-\255]') and not is_unicode(encoding) and is_valid(bytes) then
    return bytes, 'utf-8' -- the program that wrote the file assumed UTF-8
  end
  local text = convert(bytes, encoding, 'utf-8')
  if not text or convert(text, 'utf-8', encoding) ~= bytes then
    error(('it is no longer in %s'):format(encoding), 0)
  end
  return text, encoding
end

--- The format of the line endings. A "dos" file stays one while any line ends with CRLF: the next save corrects the
--- others. A "unix" file becomes "dos" only if all lines end with CRLF. "mac" never changes.
local function format_of(text, format)
  local _, ends = text:gsub('\n', '')
  local _, returns = text:gsub('\r\n', '')
  if format == 'mac' or ends == 0 then
    return format
  end
  return (returns == ends or (returns > 0 and format == 'dos')) and 'dos' or 'unix'
end

--- The lines of the file, and the buffer's options that have to change with them.
local function parsed(buf, bytes)
  local had = vim.bo[buf]
  local options, text = {}, bytes
  if not had.binary then
    text, options.fileencoding = decoded(bytes, had.fileencoding)
    if is_unicode(options.fileencoding) then
      options.bomb = text:sub(1, 3) == BOM
      text = options.bomb and text:sub(4) or text
    end
    options.fileformat = format_of(text, had.fileformat)
  end
  local ending = options.fileformat == 'mac' and '\r' or '\n'
  if text ~= '' then
    options.endofline = text:sub(-1) == ending
  end
  local lines = {}
  for line in ((options.endofline and text or text .. ending)):gmatch(ending == '\r' and '([^\r]*)\r' or '([^\n]*)\n') do
    lines[#lines + 1] = options.fileformat == 'dos' and line:gsub('\r$', '') or line
  end
  for name, value in pairs(options) do
    if had[name] == value then
      options[name] = nil
    end
  end
  return lines, options
end

--- The edits that turn the lines `old` into the lines `new`.
local function edits_between(old, new)
  local before, behind, most = 0, 0, math.min(#old, #new)
  while before < most and old[before + 1] == new[before + 1] do
    before = before + 1
  end
  while behind < most - before and old[#old - behind] == new[#new - behind] do
    behind = behind + 1
  end
  local old_rest, new_rest =
    vim.list_slice(old, before + 1, #old - behind), vim.list_slice(new, before + 1, #new - behind)
  if #old_rest == 0 and #new_rest == 0 then
    return {}
  elseif #old_rest == 0 or #new_rest == 0 then
    return { { start = before, ['end'] = #old - behind, lines = new_rest } }
  end
  local compare = vim.text and vim.text.diff or vim.diff
  local hunks =
    compare(table.concat(old_rest, '\n') .. '\n', table.concat(new_rest, '\n') .. '\n', { result_type = 'indices' })
  return vim.tbl_map(function(hunk)
    local start = before + hunk[1] - (hunk[2] > 0 and 1 or 0)
    return { start = start, ['end'] = start + hunk[2], lines = vim.list_slice(new_rest, hunk[3], hunk[3] + hunk[4] - 1) }
  end, hunks)
end

local seconds, microseconds = loop.gettimeofday()
local moment = ('%d%03d.%d'):format(seconds, math.floor(microseconds / 1000), fn.getpid())

--- Copies the buffer's text to a file and returns its path; nil if the text is empty or no copies are wanted.
--- Raises an error if the copy can't be written.
local function back_up(buf)
  local text = text_of(buf)
  if not params.backups or text == '' then
    return nil
  end
  local encoding = vim.bo[buf].fileencoding
  text = not is_utf8(encoding) and not vim.bo[buf].binary and convert(text, 'utf-8', encoding) or text
  local path = ('%s/%s%s'):format(params.backups, moment, canonical(api.nvim_buf_get_name(buf)))
  local ok = pcall(fn.mkdir, path:match('^(.*)/'), 'p', 448)
  local file = ok and loop.fs_open(path, 'w', 384)
  local written = file and loop.fs_write(file, text, 0)
  if file then
    loop.fs_close(file)
  end
  return written == #text and path or error('its text could not be copied to ' .. params.backups, 0)
end

--- Triggers the autocommands that a reload by Neovim would trigger; a file type that the user set is kept.
local function announce(buf)
  local ignored, filetype = vim.o.eventignore, vim.bo[buf].filetype
  vim.o.eventignore = (ignored == '' and '' or ignored .. ',') .. 'FileType,Syntax'
  keep_views(buf, function()
    api.nvim_buf_call(buf, function()
      vim.cmd('silent! doautocmd <nomodeline> BufReadPost')
      if vim.bo[buf].filetype ~= filetype then
        vim.bo[buf].filetype = filetype
      end
      vim.cmd('silent! doautocmd <nomodeline> FileChangedShellPost')
      if vim.bo[buf].undofile then
        vim.cmd('silent! wundo! ' .. fn.fnameescape(fn.undofile(api.nvim_buf_get_name(buf))))
      end
    end)
  end)
  vim.o.eventignore = ignored
end

--- Reloads the file. Returns whether the text or its format changed, and the path of the copy of the previous text.
local function read_again(buf)
  local different, backup = false, nil
  for _ = 1, TRIES do
    local before = stamp(buf)
    local lines, options = parsed(buf, bytes_of(api.nvim_buf_get_name(buf)))
    local edits = edits_between(api.nvim_buf_get_lines(buf, 0, -1, false), lines)
    if #edits > 0 or next(options) then
      backup = backup or back_up(buf)
      different = true
    elseif guard.sure[buf] and guard.stamps[buf] == before then
      break
    end
    local problem = change(buf, edits, options)
    if problem then
      error(problem, 0)
    elseif stamp(buf) == before then
      break
    end
  end
  return different, backup
end

local result = { success = true, reloaded = {}, kept = {} }

local function keep(buf, reason)
  local now, lines = stamp(buf), api.nvim_buf_line_count(buf)
  local notified = guard.notified[buf] == now or nil
  guard.notified[buf] = now
  if not params.watched then
    guard.told[buf] = now
  end
  table.insert(result.kept, { name = api.nvim_buf_get_name(buf), lines = lines, reason = reason, notified = notified })
end

--- Whether the plugin is about to show the file in this buffer with unsaved changes, because the user has accepted a
--- proposal that contains them.
local function is_accepted(buf)
  local written = package.loaded['drawbridge.buffers.written']
  if not written or not written.expects then
    return false
  end
  local ok, bytes = pcall(bytes_of, api.nvim_buf_get_name(buf))
  return ok and written.expects(buf, bytes)
end

local function refresh(buf)
  local now = stamp(buf)
  local changed, asked = guard.stamps[buf] ~= now, params.file_path ~= nil
  local known = params.watched and guard.notified or guard.told
  if now == 'none' or (not asked and (known[buf] == now or (not changed and guard.sure[buf]))) then
    return
  elseif vim.bo[buf].modified or is_taken_over(buf) then
    if changed and not is_accepted(buf) then
      keep(buf, not vim.bo[buf].modified and 'a plugin reads or writes the file' or nil)
    end
    return
  end
  local ok, different, backup = pcall(read_again, buf)
  if not ok then
    keep(buf, tostring(different))
  elseif different then
    guard.reported[buf] = nil
    announce(buf)
    table.insert(result.reloaded, { name = api.nvim_buf_get_name(buf), backup = backup or vim.NIL })
  end
end

for _, buf in ipairs(params.file_path and find({ params.file_path })[1] or files()) do
  refresh(buf)
end
return answer(result)
