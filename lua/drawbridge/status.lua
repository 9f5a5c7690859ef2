--- The status: a few characters for a status line, a table for scripts, and a small window for the user.
local M = {}

--- A module of the plugin, or nil unless something has loaded it already. A status line must not load any module.
local function loaded(name)
  local module = package.loaded['drawbridge.' .. name]
  return type(module) == 'table' and module or nil
end

--- The names of the connected agents as the bridge has reported them.
---@return string[]
function M.agents()
  local link = loaded('link')
  local state = link and link.attached() and link.state()
  return state and state.agents or {}
end

--- The names of the connected agents that have written a file that is open here without asking since their last
--- proposal.
---@return string[]
function M.unasked()
  local link = loaded('link')
  local state = link and link.attached() and link.state()
  return state and state.unasked or {}
end

--- Permission modes of Claude Code in which it asks before it changes a file.
M.ASKING = { default = true, manual = true, plan = true }

--- Returns what the guard's hook has reported about the connected agents.
---@return string? silent The mode of an agent that does not ask, or nil if no agent has reported such a mode.
---@return string? asks The mode of an agent that asks, or nil unless all agents have reported a mode.
local function reported()
  local link = loaded('link')
  local state = link and link.attached() and link.state() or { pids = {}, modes = {} }
  local silent, asks, unknown
  for _, pid in ipairs(state.pids) do
    local mode = state.modes[pid]
    unknown = unknown or not mode
    asks = M.ASKING[mode] and mode or asks
    silent = mode and not M.ASKING[mode] and mode or silent
  end
  return silent, not unknown and asks or nil
end

--- Whether a connected agent is known to change files without asking.
local function is_silent()
  local silent, asks = reported()
  return silent ~= nil or (#M.unasked() > 0 and not asks)
end

--- Whether the agent asks before it changes files, in words, or nil if nothing is known, for example while Claude Code
--- is not connected. Claude Code does not report its mode to editors. If the guard is installed, its hook reports the
--- mode. Otherwise, an agent that has written a file without asking does not ask. If it has written none, the answer
--- follows from how it was started and from its settings.
---@return string?
function M.asking()
  local silent, asks = reported()
  local unasked = M.unasked()[1]
  if silent then
    return ('no: Claude Code is in "%s" mode (Shift+Tab in its terminal changes it)'):format(silent)
  elseif unasked and asks then
    return ('possibly not: %s wrote a file without asking; its mode is now "%s"'):format(unasked, asks)
  elseif unasked then
    return 'no: ' .. unasked .. ' wrote a file without asking (Shift+Tab in its terminal changes its mode)'
  elseif not vim.tbl_contains(M.agents(), 'Claude Code') then
    return nil
  elseif asks then
    return ('yes: Claude Code is in "%s" mode'):format(asks)
  end
  local state, terminal = loaded('link').state(), loaded('terminal')
  local elsewhere = vim.tbl_filter(function(pid)
    return not state.modes[pid] and not (terminal and terminal.session_of(pid))
  end, state.pids)
  local mode = require('drawbridge.claude_settings').default_mode()
  if #elsewhere == 0 or M.ASKING[mode] then
    return 'yes'
  end
  local why = mode and ('permissions.defaultMode is "%s"'):format(mode)
    or 'newer versions of Claude Code start in auto mode unless permissions.defaultMode is set'
  return ("possibly not: %s; Claude Code's footer shows its mode"):format(why)
end

--- The number of proposals that wait for the user.
---@return integer
function M.pending()
  local review = loaded('review')
  local pending = review and review.pending() or 0
  return type(pending) == 'table' and #pending or pending
end

--- Whether a proposal has just opened and still ignores keys, including those that accept or reject it.
---@return boolean
function M.ignores_keys()
  local review = loaded('review')
  local settling = vim.tbl_filter(function(proposal)
    return proposal.settling
  end, review and review.pending() or {})
  return #settling > 0
end

local last ---@type {text: string, at: integer}? The last warning or error from the bridge.

--- Stores a warning or an error from the bridge for `:DrawbridgeStatus`.
---@param text string
function M.remember(text)
  last = { text = text, at = os.time() }
end

--- The agents' short names, each once: "claude-code" and "Claude Code" are both "Claude".
local function short(agents)
  local names, seen = {}, {}
  for _, agent in ipairs(agents) do
    local name = agent:match('^%w+') or agent
    name = name:sub(1, 1):upper() .. name:sub(2)
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return table.concat(names, ', ')
end

---@return 'stopped'|'failed'|'starting'|'listening'|'connected'|'stopping'
function M.word()
  local server = loaded('server')
  local phase = server and server.status().phase or 'stopped'
  if phase == 'stopping' then
    return 'stopping'
  elseif #M.agents() > 0 then
    return 'connected'
  elseif phase == 'ready' then
    return 'listening'
  elseif phase == 'starting' or phase == 'pausing' then
    return 'starting'
  elseif phase == 'failed' then
    return 'failed'
  end
  local link = loaded('link')
  return link and link.attached() and 'listening' or 'stopped'
end

local function line()
  local word = M.word()
  if word ~= 'starting' and word ~= 'listening' and word ~= 'connected' then
    return ''
  end
  local text = word == 'connected' and '◆ ' .. short(M.agents()) or '◇'
  if is_silent() then
    text = text .. ' (not asking)'
  end
  local pending = M.pending()
  return pending > 0 and ('%s ▲%d'):format(text, pending) or text
end

---@return string
function M.line()
  local ok, text = pcall(line)
  return ok and text or ''
end

---@return table
function M.get()
  local process = require('drawbridge.server').status()
  local link = require('drawbridge.link')
  local bridge = link.attached() and link.state() or {}
  return {
    state = M.word(),
    port = bridge.port or process.port,
    pid = process.pid,
    lock_file = process.lock_file,
    discovery_file = process.discovery_file,
    program = process.program,
    problem = process.problem,
    agents = M.agents(),
    pending = M.pending(),
    ignores_keys = M.ignores_keys(),
  }
end

local NEXT = {
  stopped = ':DrawbridgeStart starts the bridge',
  failed = ':DrawbridgeLog and :checkhealth drawbridge have the details',
  starting = 'wait a moment',
  stopping = 'wait a moment',
  listening = ':DrawbridgeClaude or :DrawbridgeGemini, or /ide in another terminal',
  connected = ':DrawbridgeSend mentions a file or lines to Claude Code',
}

--- The next steps for the user.
local function next_step(now)
  local review = loaded('review')
  for _, proposal in ipairs(review and review.pending() or {}) do
    if proposal.shown or proposal.settling then
      return ':DrawbridgeAccept or :DrawbridgeReject'
    end
  end
  local is_only_gemini = #now.agents > 0
    and #vim.tbl_filter(function(name)
      return name ~= 'Gemini CLI'
    end, now.agents) == 0
  if now.pending > 0 then
    return ':DrawbridgeReview opens the proposal that has waited longest'
  elseif now.state == 'connected' and is_only_gemini then
    return 'ask Gemini CLI for a change'
  end
  return NEXT[now.state]
end

---@return {[1]: string, [2]: string}[] rows Label and text.
local function rows(now, guard)
  local home = function(path)
    return path and vim.fn.fnamemodify(path, ':~')
  end
  local list = {
    { 'bridge', now.state .. (now.problem and (': ' .. now.problem) or '') },
    { 'agents', #now.agents > 0 and table.concat(now.agents, ', ') or 'none' },
    { 'proposals', now.pending > 0 and ('%d waiting (:DrawbridgeReview)'):format(now.pending) or 'none' },
  }
  local function add(label, text)
    if text then
      list[#list + 1] = { label, text }
    end
  end
  add('asks', M.asking())
  add('guard', guard)
  add('last', last and ('%s  %s'):format(os.date('%H:%M', last.at), last.text))
  add('port', now.port and tostring(now.port))
  add('process', now.pid and tostring(now.pid))
  add('lock file', home(now.lock_file))
  add('discovery', home(now.discovery_file))
  add('program', now.program and table.concat(vim.tbl_map(home, now.program), ' '))
  add('next', next_step(now))
  return list
end

--- The options of a window in the middle of the screen, which is as large as the lines need and the screen allows.
local function place(lines)
  local width, height = 1, #lines
  for _, text in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(text))
  end
  width = math.max(1, math.min(width, vim.o.columns - 4))
  -- A line that is too long for the screen is wrapped rather than lost.
  for _, text in ipairs(lines) do
    height = height + math.floor(math.max(0, vim.fn.strdisplaywidth(text) - 1) / width)
  end
  height = math.max(1, math.min(height, vim.o.lines - 4))
  return {
    relative = 'editor',
    style = 'minimal',
    border = 'rounded',
    zindex = 70, -- above the notices, because the user has asked for this window
    width = width,
    height = height,
    row = math.max(0, math.floor((vim.o.lines - height) / 2) - 1),
    col = math.max(0, math.floor((vim.o.columns - width) / 2) - 1),
  }
end

local function fill(buffer, lines)
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  local space = vim.api.nvim_create_namespace('drawbridge_status')
  vim.api.nvim_buf_set_extmark(buffer, space, 0, 0, { end_col = #lines[1], hl_group = 'Title' })
  for index = 2, #lines - 1 do
    vim.api.nvim_buf_set_extmark(buffer, space, index, 0, { end_col = 11, hl_group = 'Comment' })
  end
end

local function lines_of(guard)
  local lines = { ' Drawbridge', '' }
  for _, row in ipairs(rows(M.get(), guard)) do
    lines[#lines + 1] = (' %-10s %s '):format(row[1], row[2])
  end
  return lines
end

--- Shows the status in its own window. `q`, Esc, Enter or leaving the window closes it.
function M.show()
  local buffer, lines = vim.api.nvim_create_buf(false, true), lines_of('checking …')
  vim.bo[buffer].bufhidden = 'wipe'
  fill(buffer, lines)
  local window = vim.api.nvim_open_win(buffer, true, place(lines))
  vim.wo[window].wrap = true
  local guard = require('drawbridge.guard')
  local job = guard.ask(function(...)
    if vim.api.nvim_win_is_valid(window) then
      lines = lines_of(guard.line(...))
      fill(buffer, lines)
      vim.api.nvim_win_set_config(window, place(lines))
    end
  end)
  local function close()
    if job then
      vim.fn.jobstop(job)
    end
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
  for _, key in ipairs({ 'q', '<Esc>', '<CR>' }) do
    vim.keymap.set('n', key, close, { buffer = buffer, nowait = true })
  end
  vim.api.nvim_create_autocmd('WinLeave', { buffer = buffer, once = true, callback = vim.schedule_wrap(close) })
end

return M
