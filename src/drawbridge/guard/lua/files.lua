--- The beginning of the code for each kind of request from the guard to Neovim: this file, other files that the method
--- needs, and the method's own file run as one chunk, with the method's name and its parameters (JSON) as `...`; the
--- answer is also JSON.
--- docs/internals/protocols/guard.md describes the methods. Needs Neovim 0.7.2 or newer, but not the Drawbridge plugin.
--- Every edit of an agent waits for this code: keep it small.
local api, fn = vim.api, vim.fn
local loop = vim.uv or vim.loop

local REVISION = 2 -- the version of what `watch` sets up in Neovim; increase it when that changes
local VISUAL = { v = 'v', V = 'V', ['\22'] = '\22', s = 'v', S = 'V', ['\19'] = '\22' }
local EXACT = 2 ^ 53 -- above this, Lua rounds inode numbers
local TICK = 0.01 -- seconds; a kernel's longest tick (100 Hz)

-- The forms of a multibyte character in UTF-8.
local CHARACTERS = {
  '[\194-\223][\128-\191]',
  '\224[\160-\191][\128-\191]',
  '[\225-\236\238\239][\128-\191][\128-\191]',
  '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]',
  '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}

--- Decodes JSON. "\udc80" to "\udcff" stand for bytes that are not UTF-8, as in Python, and become those bytes.
local function decode(json)
  if json:find('\\udc', 1, true) then
    json = json:gsub('\\\\', '\1'):gsub('(\\ud[89ab]%x%x)\\u', '%1\2')
    json = json:gsub('\\udc([89a-f]%x)', function(byte)
      return string.char(tonumber(byte, 16))
    end)
    json = json:gsub('\2', '\\u'):gsub('\1', '\\\\')
  end
  return vim.json.decode(json, { luanil = { object = true, array = true } })
end

local function is_valid(text)
  if not text:find('[\128-\255]') then
    return true
  end
  for _, character in ipairs(CHARACTERS) do
    text = text:gsub(character, ' ')
  end
  return not text:find('[\128-\255]')
end

local function answer(result)
  local json = vim.json.encode(result)
  if is_valid(json) then
    return json
  end
  return (
    json:gsub('[\128-\255]+', function(run)
      local parts, at = {}, 1
      while at <= #run do
        local found
        for _, character in ipairs(CHARACTERS) do
          found = found or run:match('^' .. character, at)
        end
        parts[#parts + 1] = found or ('\\udc%x'):format(run:byte(at))
        at = at + (found and #found or 1)
      end
      return table.concat(parts)
    end)
  )
end

--- The path with links resolved; if it does not exist yet, the resolved path of the part that exists, and the rest.
local function canonical(path, again)
  local rest, up, went_up = '', 0, false
  for _ = 1, 100 do -- links may form a loop
    local real = loop.fs_realpath(path)
    if real then
      for _ = 1, up do
        real = real:match('^(.*)/') or ''
      end
      path = (real == '/' and '' or real) .. rest
      -- Without the "..", the path may contain a link after all. This is tried only once, since such links may form a
      -- loop, too.
      return went_up and not again and canonical(path, true) or path
    end
    local folder, name = path:match('^(.*)/([^/]*)$')
    if not folder then
      break
    end
    local link = up == 0 and loop.fs_readlink(path)
    if link then
      path = link:sub(1, 1) == '/' and link or folder .. '/' .. link
    else
      if name == '..' then
        up, went_up = up + 1, true
      elseif name ~= '' and name ~= '.' then
        rest, up = up == 0 and '/' .. name .. rest or rest, math.max(up - 1, 0)
      end
      path = folder == '' and '/' or folder
    end
  end
  return path
end

local function same_file(a, b)
  if a.stat and b.stat then
    return a.stat.ino == b.stat.ino
      and a.stat.dev == b.stat.dev
      and (a.stat.ino < EXACT or a.stat.nlink > 1 or canonical(a.path) == canonical(b.path))
  end
  return not a.stat and not b.stat and canonical(a.path) == canonical(b.path)
end

local function is_file(buf)
  local kind = vim.bo[buf].buftype
  -- The plugin marks the buffers of proposals and suggestions.
  local can_be_file = kind == '' or (kind == 'acwrite' and not vim.b[buf].drawbridge_view)
  return can_be_file and api.nvim_buf_get_name(buf):sub(1, 1) == '/'
end

--- For each of the paths, the loaded buffers that show that file.
local function find(paths)
  local found, wanted = {}, {}
  for index, path in ipairs(paths) do
    found[index], wanted[index] = {}, { path = path, stat = loop.fs_stat(path) }
  end
  for _, buf in ipairs(#paths > 0 and api.nvim_list_bufs() or {}) do
    local name = api.nvim_buf_is_loaded(buf) and api.nvim_buf_get_name(buf) or ''
    if name:sub(1, 1) == '/' then
      local its = { path = name, stat = loop.fs_stat(name) }
      for index, file in ipairs(wanted) do
        if same_file(file, its) and is_file(buf) then
          table.insert(found[index], buf)
        end
      end
    end
  end
  return found
end

--- All loaded buffers of files.
local function files()
  return vim.tbl_filter(function(buf)
    return api.nvim_buf_is_loaded(buf) and is_file(buf)
  end, api.nvim_list_bufs())
end

--- The current modification time and size of the buffer's file; 'none' if there is no file.
local function stamp(buf)
  local found = loop.fs_stat(api.nvim_buf_get_name(buf))
  return found and ('%d.%09d %d'):format(found.mtime.sec, found.mtime.nsec, found.size) or 'none'
end

--- Whether the file was written after the first unsaved change. The times of undo entries are in whole seconds, and
--- their clock can be one tick behind the clock of file times (Linux 6.13 and newer: 4 ms measured). A file can
--- therefore seem newer than a change that was made after the file was written.
local function written_since(buf)
  local first
  local undo = api.nvim_buf_call(buf, fn.undotree)
  for _, entry in ipairs(undo.entries) do
    local is_saved = undo.save_cur > 0 and entry.save == undo.save_cur
    first = not is_saved and (first or entry.time) or nil
  end
  local found = loop.fs_stat(api.nvim_buf_get_name(buf))
  return first and found and found.mtime.sec + found.mtime.nsec / 1e9 > first + 1 + TICK
end

--- Records what Neovim can't report later, as it happens.
local function watch(guard)
  local group = api.nvim_create_augroup('drawbridge_guard', {})
  local function on(events, callback)
    api.nvim_create_autocmd(events, { group = group, callback = callback })
  end
  for _, buf in ipairs(files()) do
    guard.stamps[buf] = vim.bo[buf].modified and written_since(buf) and 'older' or stamp(buf)
  end
  on({ 'BufReadPost', 'BufNewFile', 'BufWritePost', 'BufFilePost', 'FileChangedShellPost' }, function(args)
    local of_copy = args.event == 'BufWritePost' and args.match ~= api.nvim_buf_get_name(args.buf)
    local kept = args.event == 'FileChangedShellPost' and vim.bo[args.buf].modified
    if not of_copy and not kept then
      guard.stamps[args.buf], guard.sure[args.buf] = stamp(args.buf), true
    end
  end)
  on('ModeChanged', function()
    local before, now = VISUAL[vim.v.event.old_mode:sub(1, 1)], VISUAL[vim.v.event.new_mode:sub(1, 1)]
    local buf = api.nvim_get_current_buf()
    if now and not before then
      -- An operator may have changed the text by the time the mode ends.
      guard.left, guard.entered = nil, { buf = buf, tick = api.nvim_buf_get_changedtick(buf) }
    elseif before and not now and guard.entered and guard.entered.buf == buf then
      guard.left = guard.entered
      guard.left.kind, guard.left.at = before, loop.hrtime()
      guard.left.from, guard.left.to, guard.left.curswant = fn.getpos("'<"), fn.getpos("'>"), fn.winsaveview().curswant
    end
  end)
  on('DiagnosticChanged', function(args)
    guard.reported[args.buf] = true
  end)
  on('BufWipeout', function(args)
    for _, known in ipairs({ 'stamps', 'sure', 'told', 'notified', 'reported', 'before' }) do
      guard[known][args.buf] = nil
    end
  end)
end

-- The data that this Neovim keeps between requests.
local guard = _G.__drawbridge_guard
if not guard or guard.revision ~= REVISION then
  guard = {
    revision = REVISION,
    stamps = {},
    sure = {},
    told = {}, -- the changes on disk that an agent was informed of
    notified = {}, -- the changes on disk that the user was informed of
    reported = {},
    before = {},
    remembered = {},
    given = {},
  }
  _G.__drawbridge_guard = guard
  watch(guard)
end

local params = decode((select(2, ...)))
