--- Buffers of files: finds them, and reports their state and content.
local M = {}

local loop = vim.uv or vim.loop

--- The path with links resolved, so that two spellings of one file are equal. The file itself does not need to exist.
--- If its directory does not exist either, the path is returned unchanged.
---@param path string
---@return string
function M.canonical(path)
  local real = loop.fs_realpath(path)
  if real then
    return real
  end
  local folder, name = path:match('^(.*)/([^/]+)$')
  local real_folder = folder and loop.fs_realpath(folder == '' and '/' or folder)
  return real_folder and (real_folder == '/' and '' or real_folder) .. '/' .. name or path
end

--- Whether the buffer belongs to a real file, not to a terminal, help, a URL or a view of a proposal.
---@param buffer integer
function M.is_file(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return name ~= '' and vim.bo[buffer].buftype == '' and not name:find('^%a[%w+.-]*://')
end

local function files()
  return vim.tbl_filter(M.is_file, vim.api.nvim_list_bufs())
end

--- The loaded buffers without unsaved changes whose files exist.
---@return {buffer: integer, path: string}[] With the files' canonical paths.
function M.saved()
  local found = {}
  for _, buffer in ipairs(files()) do
    local path = M.canonical(vim.api.nvim_buf_get_name(buffer))
    if vim.api.nvim_buf_is_loaded(buffer) and not vim.bo[buffer].modified and loop.fs_stat(path) then
      found[#found + 1] = { buffer = buffer, path = path }
    end
  end
  return found
end

--- The buffer of a file, or nil. Names are compared, never matched as a pattern, because `[` and `*` may be part of
--- them.
---@param path string
---@return integer?
function M.find(path)
  for _, buffer in ipairs(files()) do
    if vim.api.nvim_buf_get_name(buffer) == path then
      return buffer
    end
  end
  local wanted = M.canonical(path)
  for _, buffer in ipairs(files()) do
    if M.canonical(vim.api.nvim_buf_get_name(buffer)) == wanted then
      return buffer
    end
  end
end

--- A path for display, relative to the editor's current directory, or to the home directory, if it is below one of
--- them.
---@param path string
---@return string
function M.shown_path(path)
  for _, folder in ipairs({ vim.fn.getcwd(-1, -1), M.canonical(vim.fn.getcwd(-1, -1)) }) do
    folder = folder:gsub('/$', '')
    if vim.startswith(path, folder .. '/') then
      return path:sub(#folder + 2)
    end
  end
  return vim.fn.fnamemodify(path, ':~')
end

--- The autocommand pattern that matches exactly this buffer name.
---@param name string
---@return string
function M.pattern(name)
  return vim.fn.escape(name, '\\*?[]{},')
end

--- Whether saving the buffer would write an empty file. Its lines don't show that, because an empty buffer has one
--- empty line.
---@param buffer integer
function M.is_empty(buffer)
  if vim.api.nvim_buf_line_count(buffer) > 1 or vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] ~= '' then
    return false
  end
  return vim.api.nvim_buf_call(buffer, vim.fn.wordcount).bytes == 0
end

--- A position in a buffer, in the bridge's format. The column is a number if the line is ASCII up to it, or if the
--- buffer is not loaded. Otherwise it is the line's text before the column.
---@param row integer From 0.
---@param column integer Bytes.
---@return {line: integer, column: integer|string}
function M.position(buffer, row, column)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return { line = row, column = column }
  end
  local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
  local before = line:sub(1, column)
  return { line = row, column = before:find('[\128-\255]') and before or #before }
end

local function untitled(buffer)
  return loop.fs_stat(vim.api.nvim_buf_get_name(buffer)) == nil
end

function M.tabs()
  local active = require('drawbridge.selection').active_buffer()
  local tabs = {}
  for _, buffer in ipairs(files()) do
    if vim.bo[buffer].buflisted then
      table.insert(tabs, {
        path = vim.api.nvim_buf_get_name(buffer),
        active = buffer == active,
        modified = vim.bo[buffer].modified,
        language = vim.bo[buffer].filetype,
        line_count = vim.api.nvim_buf_line_count(buffer),
      })
    end
  end
  return tabs
end

---@param params {path: string}
---@return {modified: boolean, untitled: boolean}?
function M.status(params)
  local buffer = M.find(params.path)
  if buffer and (vim.bo[buffer].buflisted or vim.api.nvim_buf_is_loaded(buffer)) then
    return { modified = vim.bo[buffer].modified, untitled = untitled(buffer) }
  end
end

local LINE_ENDS = { unix = '\n', dos = '\r\n', mac = '\r' }

--- The file's buffer, and the format in which Neovim would save it, or nil if no loaded buffer has unsaved changes to
--- the file.
---@param params {path: string}
function M.unsaved(params)
  local buffer = M.find(params.path)
  if buffer and not vim.api.nvim_buf_is_loaded(buffer) then
    buffer = nil
  end
  require('drawbridge.buffers.written').note(params.path, buffer)
  if not buffer or not vim.bo[buffer].modified then
    return nil
  end
  local options = vim.bo[buffer]
  local encoding = options.fileencoding
  local unicode = encoding == '' or encoding:find('^utf') or encoding:find('^ucs')
  return {
    buffer = buffer,
    empty = M.is_empty(buffer),
    eol = LINE_ENDS[options.fileformat],
    bom = options.bomb and unicode ~= nil,
    final_newline = options.endofline or (options.fixendofline and not options.binary),
  }
end

local function diagnostic(buffer, found)
  local code = found.code or vim.tbl_get(found, 'user_data', 'lsp', 'code')
  return {
    message = found.message,
    severity = found.severity,
    start = M.position(buffer, found.lnum, found.col),
    ['end'] = M.position(buffer, found.end_lnum or found.lnum, found.end_col or found.col),
    source = found.source,
    code = code ~= nil and tostring(code) or nil,
  }
end

---@param params {path?: string, limit: integer}
function M.diagnostics(params)
  local only = params.path and M.find(params.path)
  if params.path and not only then
    return { { path = params.path, diagnostics = {} } }
  end
  local room = params.limit
  local answer = {}
  for _, buffer in ipairs(only and { only } or files()) do
    local list = {}
    for _, found in ipairs(room > 0 and vim.diagnostic.get(buffer) or {}) do
      if room > 0 then
        table.insert(list, diagnostic(buffer, found))
        room = room - 1
      end
    end
    if only or #list > 0 then
      table.insert(answer, { path = params.path or vim.api.nvim_buf_get_name(buffer), diagnostics = list })
    end
  end
  return answer
end

return M
