--- Shared by methods that read or replace a buffer's text: what a save would write; changes that keep marks and views.
local LINE_ENDS = { unix = '\n', dos = '\r\n', mac = '\r' }
local PAIRED = 200 -- lines in one edit; if it has more, they are replaced together and lose the marks inside them
local BOM = '\239\187\191'

-- Encodings whose Neovim names mean something else in iconv, with their iconv names.
local BYTE_ORDERS = { ['utf-16'] = 'utf-16be', ['ucs-2'] = 'utf-16be', ['ucs-2le'] = 'utf-16le' }

local function is_utf8(encoding)
  return encoding == '' or encoding == 'utf-8'
end

local function is_unicode(encoding)
  return encoding == '' or encoding:find('^u[tc][fs]') ~= nil
end

--- The text in another encoding; nil if it can't be converted.
local function convert(text, from, to)
  -- In Neovim 0.7 this works only for strings without NUL.
  local ok, converted = pcall(vim.iconv or fn.iconv, text, BYTE_ORDERS[from] or from, BYTE_ORDERS[to] or to)
  return ok and type(converted) == 'string' and (converted ~= '' or text == '') and converted or nil
end

--- The buffer's text in UTF-8, with the line endings and the byte order mark that a save would write.
local function text_of(buf)
  local options = vim.bo[buf]
  local count = api.nvim_buf_line_count(buf)
  local bom = options.bomb and is_unicode(options.fileencoding) and not options.binary and BOM or ''
  -- In Neovim, an empty buffer looks like one empty line.
  if count == 1 and api.nvim_buf_call(buf, fn.wordcount).bytes == 0 then
    return bom
  end
  local ending = options.binary and '\n' or LINE_ENDS[options.fileformat]
  local final = options.endofline or (options.fixendofline and not options.binary)
  return bom .. table.concat(api.nvim_buf_get_lines(buf, 0, -1, false), ending) .. (final and ending or '')
end

--- Whether a plugin reads or writes the file instead of Neovim, or the buffer is not a normal one (`buftype`), so that
--- the content on disk is not the buffer's text.
local function is_taken_over(buf)
  local name = api.nvim_buf_get_name(buf)
  local commands = api.nvim_get_autocmds({ event = { 'BufReadCmd', 'BufWriteCmd' } })
  local packed, unpackers = pcall(api.nvim_get_autocmds, { event = 'BufReadPost', group = 'gzip' })
  for _, one in ipairs(vim.list_extend(packed and unpackers or {}, commands)) do
    if one.buflocal then
      if one.buffer == buf then
        return true
      end
    elseif vim.regex(fn.glob2regpat(one.pattern)):match_str(one.pattern:find('/') and name or name:match('[^/]*$')) then
      return true
    end
  end
  return vim.bo[buf].buftype ~= ''
end

--- The length of the common prefix in bytes. The prefix never ends inside a multibyte character.
local function common_start(a, b)
  local count, most = 0, math.min(#a, #b)
  while count < most and a:byte(count + 1) == b:byte(count + 1) do
    count = count + 1
  end
  while count > 0 and (a:sub(count + 1, count + 1) .. b:sub(count + 1, count + 1)):find('[\128-\191]') do
    count = count - 1
  end
  return count
end

--- Replaces only the bytes of the line that differ, so that marks outside them stay in place.
local function edit_line(buf, row, old, new)
  local before = common_start(old, new)
  local behind, most = 0, math.min(#old, #new) - before
  while behind < most and old:byte(-behind - 1) == new:byte(-behind - 1) do
    behind = behind + 1
  end
  while behind > 0 and old:sub(-behind, -behind):find('[\128-\191]') do
    behind = behind - 1
  end
  if #old ~= #new or before < #old then
    api.nvim_buf_set_text(buf, row, before, row, #old - behind, { new:sub(before + 1, #new - behind) })
  end
end

local function edit_lines(buf, edit)
  local first, finish, new = edit.start, edit['end'], edit.lines
  local paired = math.min(finish - first, #new)
  -- Surplus or missing lines come first. They are at the end, so the rows above stay valid.
  if #new ~= finish - first then
    api.nvim_buf_set_lines(buf, first + paired, finish, true, vim.list_slice(new, paired + 1))
  end
  local old = api.nvim_buf_get_lines(buf, first, first + paired, true)
  guard.run = function()
    if paired > PAIRED then
      return api.nvim_buf_set_lines(buf, first, first + paired, true, vim.list_slice(new, 1, paired))
    end
    for index, line in ipairs(old) do
      edit_line(buf, first + index - 1, line, new[index])
    end
  end
  -- Before 0.12 a line loses its marks when a part of it is replaced.
  vim.cmd('lockmarks lua __drawbridge_guard.run()')
  guard.run = nil
end

local function in_window(window, run)
  return window == api.nvim_get_current_win() and run() or api.nvim_win_call(window, run)
end

local function line_at(buf, row)
  return api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
end

--- Runs `change` and makes every window of the buffer show the same text as before, if the text still exists.
local function keep_views(buf, change)
  local space, views = api.nvim_create_namespace('drawbridge_guard'), {}
  local function mark(row, column, options)
    return api.nvim_buf_set_extmark(buf, space, row, column, options)
  end
  for _, window in ipairs(fn.win_findbuf(buf)) do
    local view = in_window(window, fn.winsaveview)
    local line = line_at(buf, view.lnum - 1)
    local column = math.min(view.col, #line)
    views[window] = {
      view = view,
      byte = line:byte(column + 1),
      top = mark(view.topline - 1, 0, {}),
      cursor = mark(view.lnum - 1, column, {}),
      column = mark(view.lnum - 1, column, { right_gravity = false }), -- stays where replaced text begins
    }
  end
  local ok, problem = pcall(change)
  for window, kept in pairs(views) do
    local function place(id)
      return api.nvim_buf_get_extmark_by_id(buf, space, id, {})
    end
    local view, top, cursor, column = kept.view, place(kept.top), place(kept.cursor), place(kept.column)
    if top[1] and cursor[1] and api.nvim_win_is_valid(window) and api.nvim_win_get_buf(window) == buf then
      view.topline, view.lnum = top[1] + 1, cursor[1] + 1
      local at = column[1] == cursor[1] and column[2] or cursor[2]
      -- Inside replaced text, the same column is as good a guess as any.
      view.col = line_at(buf, cursor[1]):byte(at + 1) == kept.byte and at or view.col
      in_window(window, function()
        fn.winrestview(view)
      end)
    end
  end
  api.nvim_buf_clear_namespace(buf, space, 0, -1)
  return ok, problem
end

--- Runs `run` while the buffer's options have these values.
local function with_options(buf, options, run)
  local former = {}
  for name, value in pairs(options) do
    former[name], vim.bo[buf][name] = vim.bo[buf][name], value
  end
  local ok, problem = pcall(run)
  for name, value in pairs(former) do
    vim.bo[buf][name] = value
  end
  return ok, problem
end

--- Makes Neovim treat the buffer as equal to the file on disk, without reading or writing it: Neovim trusts a handler
--- of BufWriteCmd.
local function take_as_saved(buf)
  local group = api.nvim_create_augroup('drawbridge_guard_saved', {})
  local may_write = vim.o.write
  if not may_write then
    vim.o.write = true
  end
  api.nvim_create_autocmd('BufWriteCmd', {
    group = group,
    buffer = buf,
    callback = function()
      vim.bo[buf].modified = false
    end,
  })
  local ok, problem = pcall(api.nvim_buf_call, buf, function()
    vim.cmd('silent keepalt lockmarks write!')
  end)
  -- nvim_del_autocmd is not used, because in 0.7 it leaves an empty entry behind, which would swallow every later save.
  vim.cmd('autocmd! drawbridge_guard_saved')
  api.nvim_del_augroup_by_id(group)
  if not may_write then
    vim.o.write = false
  end
  guard.stamps[buf], guard.sure[buf] = stamp(buf), true
  return ok, problem
end

local function close_undo_block(buf)
  api.nvim_buf_call(buf, function()
    vim.cmd('noautocmd let &g:undolevels = &g:undolevels')
  end)
end

--- Changes the text as one undo step, and makes Neovim treat the buffer as equal to the file on disk. Returns nil, or
--- the error if it failed; in that case, the text is unchanged.
local function change(buf, edits, options)
  local tick = api.nvim_buf_get_changedtick(buf)
  close_undo_block(buf)
  local ok, problem = keep_views(buf, function()
    local done, why = with_options(buf, { modifiable = true, readonly = false }, function()
      for index = #edits, 1, -1 do
        edit_lines(buf, edits[index])
      end
      for name, value in pairs(options) do
        vim.bo[buf][name] = value
      end
    end)
    if done then
      done, why = take_as_saved(buf)
    end
    if not done then
      error(why, 0)
    end
  end)
  if ok then
    close_undo_block(buf)
  elseif api.nvim_buf_get_changedtick(buf) ~= tick then
    api.nvim_buf_call(buf, function()
      vim.cmd('silent! undo')
    end)
  end
  return not ok and tostring(problem) or nil
end
