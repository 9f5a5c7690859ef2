--- Buffers of files: which there are, how they stand, what they hold.
local M = {}

local loop = vim.uv or vim.loop

--- The path without links, so that two spellings of one file are equal; the file itself need not exist.
local function canonical(path)
  local real = loop.fs_realpath(path)
  if real then
    return real
  end
  local folder, name = path:match('^(.*)/([^/]+)$')
  local real_folder = folder and loop.fs_realpath(folder == '' and '/' or folder)
  return real_folder and (real_folder == '/' and '' or real_folder) .. '/' .. name or path
end

--- Whether the buffer is one of a real file: no terminal, no help, no URL, no view of ours.
---@param buffer integer
function M.is_file(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return name ~= '' and vim.bo[buffer].buftype == '' and not name:find('^%a[%w+.-]*://')
end

local function files()
  return vim.tbl_filter(M.is_file, vim.api.nvim_list_bufs())
end

--- The buffer of a file. Names are compared, never matched as a pattern: `[` and `*` may be part of them.
---@param path string
---@return integer?
function M.find(path)
  for _, buffer in ipairs(files()) do
    if vim.api.nvim_buf_get_name(buffer) == path then
      return buffer
    end
  end
  local wanted = canonical(path)
  for _, buffer in ipairs(files()) do
    if canonical(vim.api.nvim_buf_get_name(buffer)) == wanted then
      return buffer
    end
  end
end

--- Whether saving the buffer would write nothing at all: Neovim shows no lines and one empty line alike.
---@param buffer integer
function M.is_empty(buffer)
  return vim.api.nvim_buf_call(buffer, function()
    return vim.fn.line2byte(1) == -1
  end)
end

--- A place in a buffer as the bridge takes it.
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

--- What saving would write of a buffer with unsaved changes, but for the lines themselves.
---@param params {path: string}
function M.unsaved(params)
  local buffer = M.find(params.path)
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) or not vim.bo[buffer].modified then
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

--- Reads a buffer anew from disk without a question; it keeps cursor, folds and undo.
local function read_again(buffer, existed)
  local views = {}
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    views[window] = vim.api.nvim_win_call(window, vim.fn.winsaveview)
  end
  local global, reload_limit = vim.o.autoread, vim.o.undoreload
  vim.o.undoreload = -1
  vim.bo[buffer].autoread = true
  vim.api.nvim_buf_call(buffer, function()
    -- A file that was not there when the buffer was made is asked about by :checktime, whatever 'autoread' says.
    vim.cmd(existed and 'silent! checktime %' or 'silent! edit')
  end)
  vim.o.undoreload = reload_limit
  vim.api.nvim_buf_call(buffer, function()
    vim.cmd('setlocal autoread<')
  end)
  vim.o.autoread = global
  for window, view in pairs(views) do
    vim.api.nvim_win_call(window, function()
      vim.fn.winrestview(view)
    end)
  end
end

--- Shows a file as it is on disk now. Unsaved work goes only where it is just what the proposal started from.
---@param path string
---@param known {buffer: integer, tick: integer, existed: boolean}? How the buffer was when the proposal was shown.
function M.reload(path, known)
  local buffer = M.find(path)
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local same = known and known.buffer == buffer
  if vim.bo[buffer].modified then
    if not same or vim.api.nvim_buf_get_changedtick(buffer) ~= known.tick then
      return
    end
    vim.bo[buffer].modified = false
  end
  read_again(buffer, not same or known.existed)
end

return M
