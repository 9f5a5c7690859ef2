--- Shows a file as the agent wrote it, without asking the user and without losing unsaved work.
local buffers = require('drawbridge.buffers')

local M = {}

local MOST = 50 -- the maximum number of remembered buffers, beyond which the oldest is forgotten

local read = {} ---@type table<string, {buffer: integer?, tick: integer?}> By path: see `note`.
local remembered = {} ---@type {id: string, target: drawbridge.Target, accepted: string|false}[]

---@class drawbridge.Target The user's own buffer of a file as it was when the bridge read the text for a proposal.
---@field buffer integer
---@field tick integer? Its changedtick; nil if it was not loaded then.
---@field existed boolean Whether the file existed.

--- Notes the state of a file's buffer when the bridge reads its unsaved text for a proposal. The proposal arrives later,
--- and does not contain what the user has typed until then.
---@param path string
---@param buffer integer? nil if the file is not loaded.
function M.note(path, buffer)
  read[path] = { buffer = buffer, tick = buffer and vim.api.nvim_buf_get_changedtick(buffer) }
end

---@param path string
---@return drawbridge.Target?
function M.target(path)
  local as_read = read[path]
  read[path] = nil
  local buffer = path ~= '' and buffers.find(path)
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    return nil
  end
  local tick
  if not as_read then
    tick = vim.api.nvim_buf_get_changedtick(buffer)
  elseif as_read.buffer == buffer then
    tick = as_read.tick
  end
  return {
    buffer = buffer,
    tick = tick,
    existed = (vim.uv or vim.loop).fs_stat(vim.api.nvim_buf_get_name(buffer)) ~= nil,
  }
end

--- The text without what an agent may change when it writes it: the byte-order mark and the line endings.
local function plain(text)
  return (text:gsub('^\239\187\191', ''):gsub('\r\n', '\n'):gsub('\n$', ''))
end

--- Remembers the buffer of a decided or withdrawn proposal until the file is written. Ignored without a `target`.
---@param id string
---@param target drawbridge.Target?
---@param accepted string? The accepted text; nil if none was accepted here.
function M.remember(id, target, accepted)
  if target then
    -- Only an unsaved buffer needs the text: see `expects`.
    local is_unsaved = vim.api.nvim_buf_is_valid(target.buffer) and vim.bo[target.buffer].modified
    table.insert(
      remembered,
      { id = id, target = target, accepted = is_unsaved and accepted and plain(accepted) or false }
    )
  end
  if #remembered > MOST then
    table.remove(remembered, 1)
  end
end

function M.forget_all()
  remembered, read = {}, {}
end

local function recall(id)
  for index, one in ipairs(remembered) do
    if one.id == id then
      return table.remove(remembered, index).target
    end
  end
end

--- Whether a buffer with unsaved changes will show its file in a moment, because the user has accepted the text that is
--- on disk, and has not changed the buffer since. Called by the guard, which may be faster than the bridge.
---@param buffer integer
---@param on_disk string
function M.expects(buffer, on_disk)
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  for _, one in ipairs(remembered) do
    if one.target.buffer == buffer and one.target.tick == tick and one.accepted == plain(on_disk) then
      return true
    end
  end
  return false
end

local function in_all_windows(buffer, run)
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_call(window, function()
      run(window)
    end)
  end
end

--- Reads the file again, as 'autoread' would, but always as a change that can be undone. Cursors stay where they are.
---@param buffer integer
---@param existed boolean Whether the file existed when the buffer was read.
function M.read_again(buffer, existed)
  local views = {}
  in_all_windows(buffer, function(window)
    views[window] = vim.fn.winsaveview()
  end)
  local undoreload = vim.o.undoreload
  vim.o.undoreload = -1
  vim.api.nvim_buf_call(buffer, function()
    local autoread = vim.api.nvim_get_option_value('autoread', { scope = 'local' })
    vim.cmd('setlocal autoread')
    -- :checktime asks about a file that did not exist before, whatever 'autoread' is.
    vim.cmd(existed and 'silent! checktime %' or 'silent! edit')
    vim.api.nvim_set_option_value('autoread', autoread, { scope = 'local' })
  end)
  vim.o.undoreload = undoreload
  in_all_windows(buffer, function(window)
    if views[window] then
      vim.fn.winrestview(views[window])
    end
  end)
end

--- Shows what the agent wrote. Unsaved work is replaced only if the proposal contains all of it.
---@param params {path: string, id: string}
function M.written(params)
  local known = recall(params.id)
  local buffer = buffers.find(params.path)
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
  M.read_again(buffer, not same or known.existed)
end

--- Shows what an agent wrote without a proposal. Unsaved work is kept.
---@param params {path: string}
---@return 'reloaded'|'unsaved'|nil done nil if the file is not open, or if its buffer already shows that text
function M.overwritten(params)
  local buffer = buffers.find(params.path)
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    return nil
  elseif vim.bo[buffer].modified then
    return 'unsaved'
  end
  local before = vim.api.nvim_buf_get_changedtick(buffer)
  M.read_again(buffer, true)
  return vim.api.nvim_buf_get_changedtick(buffer) ~= before and 'reloaded' or nil
end

--- Shows the open files below a directory as they are on disk. Unsaved work is kept.
---@param params {directory: string} With links resolved.
function M.reload(params)
  local below = params.directory:gsub('/$', '') .. '/'
  for _, one in ipairs(buffers.saved()) do
    if vim.startswith(one.path, below) then
      -- A buffer without text may have been opened before its file existed.
      local lines = vim.api.nvim_buf_get_lines(one.buffer, 0, 2, false)
      M.read_again(one.buffer, #lines > 1 or lines[1] ~= '')
    end
  end
end

return M
