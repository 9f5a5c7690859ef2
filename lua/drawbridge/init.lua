--- The functions for a user's configuration: `require('drawbridge').setup{}`, one function for each command, and the
--- state for scripts and status lines.
---
--- Modules are required where they are used, so that an editor without an agent loads almost nothing.
local M = {}

local function say(text, level)
  require('drawbridge.message').answer(text, level)
end

--- Applies the options. Starts the bridge, unless `auto_start` is off, and creates or removes the aliases.
local function put_into_force()
  local options = require('drawbridge.config').get()
  require('drawbridge.aliases').set(options.gemini.aliases)
  if options.auto_start then
    require('drawbridge.server').start()
  end
end

--- Applies the options once Neovim has started, so that startup is not slowed and other plugins' commands exist.
--- Idempotent.
local function put_into_force_soon()
  if vim.v.vim_did_enter == 1 then
    return put_into_force()
  end
  vim.api.nvim_create_autocmd('VimEnter', {
    group = vim.api.nvim_create_augroup('drawbridge_setup', {}),
    once = true,
    callback = put_into_force,
  })
end

--- Sets the options (`:help drawbridge-options`) and starts the bridge unless `auto_start` is off.
---
--- If an option is invalid, all problems are reported, no option is set and nothing is started.
---@param options? table
---@return boolean ok
function M.setup(options)
  if vim.fn.has('nvim-0.7.2') == 0 then
    vim.api.nvim_err_writeln('drawbridge: Neovim 0.7.2 or newer is required')
    return false
  end
  local config = require('drawbridge.config')
  local problems = config.apply(options)
  if #problems > 0 then
    require('drawbridge.message').problems('setup{}', problems)
    return false
  end
  put_into_force_soon()
  return true
end

local function start_and_report(command)
  require('drawbridge.server').when_ready(function(bridge, problem)
    if bridge then
      say(('%s: the bridge listens on port %d'):format(command, bridge.port))
    else
      say(('%s: %s'):format(command, problem), 'error')
    end
  end)
end

--- `:DrawbridgeStart`: starts the bridge, unless it is already running.
function M.start()
  local server = require('drawbridge.server')
  local phase = server.status().phase
  if phase == 'starting' then
    return say(':DrawbridgeStart: the bridge is already starting')
  elseif phase == 'ready' then
    return say((':DrawbridgeStart: the bridge is already running (%s)'):format(require('drawbridge.status').word()))
  end
  start_and_report(':DrawbridgeStart')
end

--- `:DrawbridgeInstall`: asks, then installs the bridge and starts it.
function M.install()
  require('drawbridge.install').run()
end

--- `:DrawbridgeRestart`: restarts the bridge with the same port and token, so that Claude Code reconnects
--- automatically.
function M.restart()
  local server = require('drawbridge.server')
  server.stop()
  start_and_report(':DrawbridgeRestart')
end

--- `:DrawbridgeStop`: stops the bridge, which is not restarted automatically.
function M.stop()
  local server = require('drawbridge.server')
  if server.stop() then
    local is_ending = server.status().phase == 'stopping' -- if not, only a restart was canceled
    say(':DrawbridgeStop: the bridge ' .. (is_ending and 'is stopping' or 'has stopped'))
  elseif require('drawbridge.link').attached() then
    say(':DrawbridgeStop: stop this bridge where you started it')
  else
    say(':DrawbridgeStop: the bridge is not running')
  end
end

--- `:DrawbridgeStatus`: shows the status in a small window. `q` or Esc closes it.
function M.show_status()
  require('drawbridge.status').show()
end

--- `:DrawbridgeLog`: shows the last lines that the bridge and the plugin have logged. `q` closes the window.
function M.log()
  local file = require('drawbridge.config').get().server.log_file
  require('drawbridge.log').show(file and vim.fn.fnamemodify(file, ':p'))
end

--- `:DrawbridgeSend`: inserts a mention of the current buffer's file, or of some of its lines, into Claude Code's
--- prompt.
---@param first? integer 1-based; if omitted, the whole file is sent.
---@param last? integer 1-based, inclusive.
---@return boolean ok
function M.send(first, last)
  local path = vim.api.nvim_buf_get_name(0)
  if not require('drawbridge.buffers').is_file(vim.api.nvim_get_current_buf()) then
    say(':DrawbridgeSend: this buffer is not a file', 'warn')
    return false
  end
  if not require('drawbridge.link').attached() then
    say(':DrawbridgeSend: ' .. require('drawbridge.server').missing(), 'warn')
    return false
  end
  require('drawbridge.selection').mention(path, first and first - 1, last and last - 1)
  local name, lines = vim.fn.fnamemodify(path, ':t'), ''
  if first then
    lines = first == last and (' line %d'):format(first) or (' lines %d-%d'):format(first, last)
  end
  local unsaved = vim.bo.modified and ' (without its unsaved changes)' or ''
  say((':DrawbridgeSend: %s%s%s'):format(name, lines, unsaved))
  return true
end

--- `:DrawbridgeAccept`: accepts the proposal under the cursor, otherwise the newest one that is shown, as it is on
--- screen. If none is shown, opens the one that has waited longest.
---@param is_forced? boolean Whether to accept it even if changed lines have not been on the screen (`:DrawbridgeAccept!`).
function M.accept(is_forced)
  require('drawbridge.review').accept(is_forced)
end

--- `:DrawbridgeReject`: rejects the proposal under the cursor, otherwise the newest one that is shown.
function M.reject()
  require('drawbridge.review').reject()
end

--- `:DrawbridgeRejectHunk`: reverts the hunk under the cursor. The rest of the proposal stays open.
function M.reject_hunk()
  require('drawbridge.review').reject_hunk()
end

--- `:DrawbridgeReview`: shows the proposal that has waited longest or, if none is waiting, goes to one that is shown.
function M.review()
  require('drawbridge.review').open()
end

--- `:DrawbridgeChanges`: shows the undecided changes of runs, as a quickfix list and in the buffers.
---@param only_new? boolean Whether to show only the changes since the last visit, as `:DrawbridgeChanges!` does.
function M.changes(only_new)
  require('drawbridge.changes').open(only_new or false)
end

--- `:DrawbridgeKeep`: keeps the change at the cursor, or the one on the current line of the quickfix list.
function M.keep()
  require('drawbridge.changes').decide(':DrawbridgeKeep', 'keep', false)
end

--- `:DrawbridgeUndo`: undoes the change at the cursor, or the one on the current line of the quickfix list.
function M.undo()
  require('drawbridge.changes').decide(':DrawbridgeUndo', 'undo', false)
end

--- `:DrawbridgeKeepFile`: keeps all changes to the current file, or to the file on the current line of the quickfix list.
function M.keep_file()
  require('drawbridge.changes').decide(':DrawbridgeKeepFile', 'keep', true)
end

--- `:DrawbridgeUndoFile`: undoes all changes to the current file, or to the file on the current line of the quickfix list.
function M.undo_file()
  require('drawbridge.changes').decide(':DrawbridgeUndoFile', 'undo', true)
end

--- `:DrawbridgeKeepAll`: asks, then keeps all changes of the review that is shown.
function M.keep_all()
  require('drawbridge.changes').keep_all()
end

--- `:DrawbridgeComment`: adds a draft comment on lines of the current file.
---@param text string
---@param first? integer 1-based; if omitted, the cursor line is used.
---@param last? integer 1-based, inclusive.
function M.comment(text, first, last)
  first = first or vim.api.nvim_win_get_cursor(0)[1]
  require('drawbridge.changes').comment(text, first, last or first)
end

--- `:DrawbridgeComment!`: removes the draft at the cursor.
function M.remove_comment()
  require('drawbridge.changes').remove_comment()
end

--- `:DrawbridgeSuggest`: opens a window in which lines of the current file can be edited, to suggest them to the agent.
---@param text? string The text of the comment.
---@param first? integer 1-based; if omitted, the cursor line is used.
---@param last? integer 1-based, inclusive.
function M.suggest(text, first, last)
  first = first or vim.api.nvim_win_get_cursor(0)[1]
  require('drawbridge.changes').suggest(text or '', first, last or first)
end

--- `:DrawbridgeResolve`: resolves the comment at the cursor, or reopens it.
function M.resolve()
  require('drawbridge.changes').resolve()
end

--- `:DrawbridgeSendComments`: sends all drafts to the agent, as one prompt.
---@param text? string The beginning of the prompt.
function M.send_comments(text)
  require('drawbridge.changes').send_comments(text or '')
end

--- `:DrawbridgeClaude`: runs Claude Code in a terminal window, connected to this Neovim.
---@param arguments? string[] Flags and prompt for the CLI.
function M.claude(arguments)
  require('drawbridge.terminal').open('claude', arguments or {})
end

--- `:DrawbridgeGemini`: runs Gemini CLI in its own terminal window, connected to this Neovim.
---@param arguments? string[] Flags and prompt for the CLI.
function M.gemini(arguments)
  require('drawbridge.terminal').open('gemini', arguments or {})
end

--- The state for scripts. See `:help drawbridge.status()`.
---@return table
function M.status()
  return require('drawbridge.status').get()
end

--- A few characters for a status line, or '' unless the bridge is running or starting. Cheap, and never raises an
--- error.
---@return string
function M.statusline()
  local status = package.loaded['drawbridge.status']
  if not status then
    -- Nothing was started yet, so no module needs to be loaded.
    if not package.loaded['drawbridge.server'] then
      return ''
    end
    status = require('drawbridge.status')
  end
  return status.line()
end

return M
