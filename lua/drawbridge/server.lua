--- Runs the bridge as a job of this Neovim: starts it, restarts it with the same port and token, and stops it.
local config = require('drawbridge.config')
local log = require('drawbridge.log')
local program = require('drawbridge.program')
local message = require('drawbridge.message')

local M = {}

local READY_WITHIN = 5000 -- ms that `when_ready` waits
local STOP_WITHIN = 2000 -- ms from closing the bridge's stdin to SIGTERM
local RESTARTS, RESTARTS_WITHIN = 5, 60 -- the maximum number of restarts, within this number of seconds
local FIRST_PAUSE = 100 -- ms before the first restart, doubled with each further restart within RESTARTS_WITHIN

---@alias drawbridge.Phase 'stopped'|'starting'|'ready'|'stopping'|'pausing'|'failed'|'leaving'

local state = {
  phase = 'stopped', ---@type drawbridge.Phase
  job = nil, ---@type integer?
  program = nil, ---@type string[]?
  ready = nil, ---@type {port: integer, pid: integer, lock_file: string?, discovery_file: string?}?
  problem = nil, ---@type string? Why it is in phase "failed".
  last_line = nil, ---@type string? The last line on its stderr that was not an event, without a log prefix.
  restarts = {}, ---@type integer[] When it was restarted automatically, in Unix seconds.
  launch_again = false, ---Whether to start the bridge again once phase "stopping" has ended.
}
-- The token stays the same until Neovim ends, and the port until the `server.port` option changes, so that agents can
-- reconnect to a restarted bridge.
local kept = { port = nil, token = nil, asked = nil } -- asked: the `server.port` option at the last start
local waiting = {} ---@type fun(bridge: drawbridge.Bridge?, problem: string?)[]
local hooked = false

local function answer_waiting(bridge, problem)
  local callbacks = waiting
  waiting = {}
  for _, callback in ipairs(callbacks) do
    callback(bridge, problem)
  end
end

--- The port and the token of the bridge, or nil unless it is in phase "ready" and its token is known.
---@return drawbridge.Bridge?
local function known_bridge()
  if state.phase == 'ready' and kept.token then
    return { port = state.ready.port, token = kept.token }
  end
end

--- Changes the phase, which a status line shows. Only `M.leave` sets it directly.
---@param phase drawbridge.Phase
local function enter(phase)
  state.phase = phase
  vim.schedule(function()
    vim.cmd('redrawstatus!')
  end)
end

--- Gives up and reports `problem` once, to the callers that wait for the bridge or, if no caller waits, to the user, in
--- a message that begins with `what`.
local function fail(what, problem)
  state.problem = problem
  enter('failed')
  if #waiting > 0 then
    answer_waiting(nil, problem)
  else
    message.notice(what .. problem, 'error')
  end
end

local function became_ready(event)
  state.ready = {
    port = event.port,
    pid = event.pid,
    lock_file = event.lock_file,
    discovery_file = event.discovery_file,
  }
  enter('ready')
  kept.port = event.port
  if known_bridge() then
    answer_waiting(known_bridge())
  end
end

local function read_line(line)
  if line:sub(1, 1) == '{' then
    local ok, event = pcall(vim.json.decode, line)
    if ok and type(event) == 'table' and event.event == 'ready' and type(event.port) == 'number' then
      return became_ready(event)
    end
  end
  if line:find('%S') then
    log.add(line)
    -- Removes the prefix that only a log needs: the time, the level and the logger, or the command's name.
    state.last_line = line:gsub('^%d%d%d%d[%d:, -]+%u+ [%w._]+: ', ''):gsub('^drawbridge %l+: ', '')
  end
end

--- Returns a callback that joins the pieces that a channel delivers (`:help channel-lines`) into complete lines and reads
--- them.
local function line_reader()
  local rest = ''
  return function(_, pieces)
    local ended = #pieces == 1 and pieces[1] == ''
    pieces[1] = rest .. pieces[1]
    rest = ended and '' or table.remove(pieces)
    for _, line in ipairs(pieces) do
      read_line(line)
    end
  end
end

local launch

local function pause_then_launch(code)
  local now = os.time()
  state.restarts = vim.tbl_filter(function(at)
    return now - at < RESTARTS_WITHIN
  end, state.restarts)
  local reason = state.last_line or ('exit code %d'):format(code)
  if #state.restarts >= RESTARTS then
    return fail('the bridge keeps exiting: ', reason)
  end
  message.notice('restarting the bridge: ' .. reason, 'info')
  table.insert(state.restarts, now)
  enter('pausing')
  vim.defer_fn(function()
    if state.phase == 'pausing' then
      launch()
    end
  end, FIRST_PAUSE * 2 ^ (#state.restarts - 1))
end

local function exited(job, code)
  if job ~= state.job then
    return
  end
  local phase = state.phase
  state.job, state.ready = nil, nil
  require('drawbridge.link').detach()
  if phase == 'leaving' then
    return
  elseif phase == 'stopping' then
    enter('stopped')
    if state.launch_again then
      launch()
    else
      answer_waiting(nil, 'the bridge was stopped')
    end
  elseif code == 2 then
    -- Its arguments or settings can't be used, so another attempt would not help.
    fail('bridge not started: ', state.last_line or 'exit code 2')
  else
    pause_then_launch(code)
  end
end

local function remember(bridge)
  if bridge then
    kept.port = bridge.port or kept.port
    kept.token = bridge.token or kept.token
  end
end

local function hook()
  if hooked then
    return
  end
  hooked = true
  require('drawbridge.link').on_state(function()
    remember(require('drawbridge.link').state())
    if known_bridge() then
      answer_waiting(known_bridge())
    end
    vim.cmd('redrawstatus!')
  end)
  vim.api.nvim_create_autocmd('VimLeavePre', {
    group = vim.api.nvim_create_augroup('drawbridge_server', {}),
    callback = function()
      M.leave()
    end,
  })
end

function launch()
  state.launch_again, state.problem, state.last_line = false, nil, nil
  local words, problem = program.find()
  if not words then
    return fail('', problem)
  end
  hook()
  state.program = words
  if config.get().server.port ~= kept.asked then
    kept.asked, kept.port = config.get().server.port, nil
  end
  local arguments, environment = program.invocation(config.get(), kept)
  local ok, job = pcall(vim.fn.jobstart, vim.list_extend(vim.deepcopy(words), arguments), {
    rpc = true,
    -- When Neovim ends, it would wait for an attached child. The bridge exits when its stdin closes.
    detach = true,
    env = next(environment) and environment or vim.empty_dict(),
    on_stderr = line_reader(),
    on_exit = exited,
  })
  if not ok or job <= 0 then
    return fail('', ("%s can't be run: %s"):format(words[1], ok and 'it is not executable' or tostring(job)))
  end
  state.job = job
  enter('starting')
end

--- Starts the bridge unless it is running, starting or about to be restarted. If it is stopping, starts it afterward. A
--- failure is reported as `fail` describes.
function M.start()
  if state.phase == 'stopping' then
    state.launch_again = true
  elseif state.phase == 'stopped' or state.phase == 'failed' then
    state.restarts = {}
    launch()
  end
end

local function close_stdin(job)
  -- This fails if the bridge has just ended, which does no harm.
  pcall(vim.fn.chanclose, job, 'rpc')
end

--- Stops the bridge, which removes its discovery files. Its views close. Returns immediately.
---@return boolean was_running
function M.stop()
  state.launch_again = false
  if state.job and state.phase ~= 'stopping' then
    local job = state.job
    enter('stopping')
    close_stdin(job)
    vim.defer_fn(function()
      if state.job == job then
        vim.fn.jobstop(job)
      end
    end, STOP_WITHIN)
    return true
  end
  local was_running = state.phase == 'pausing' or state.phase == 'stopping'
  if state.phase == 'pausing' or state.phase == 'failed' then
    state.problem = nil
    enter('stopped')
    answer_waiting(nil, 'the bridge was stopped')
  end
  return was_running
end

--- Called when Neovim ends: closes the bridge's stdin, so that it ends too. Does not wait for it.
function M.leave()
  state.phase = 'leaving'
  if state.job then
    close_stdin(state.job)
  end
end

--- Calls back once with the bridge's port and token, or with nil and the reason. Starts the bridge if it is not
--- running.
---@param callback fun(bridge: drawbridge.Bridge?, problem: string?)
function M.when_ready(callback)
  if known_bridge() then
    return callback(known_bridge())
  end
  local answered = false
  local function once(bridge, problem)
    if not answered then
      answered = true
      callback(bridge, problem)
    end
  end
  table.insert(waiting, once)
  M.start()
  vim.defer_fn(function()
    once(nil, ('the bridge did not start in %d s'):format(READY_WITHIN / 1000))
  end, READY_WITHIN)
end

--- Why no bridge is connected, for the message of a command that needs one.
---@return string
function M.missing()
  local is_coming = state.launch_again or vim.tbl_contains({ 'starting', 'ready', 'pausing' }, state.phase)
  return is_coming and 'the bridge is still starting; try again' or 'the bridge is not running (:DrawbridgeStart)'
end

--- The state of the process. Cheap.
---@return {phase: drawbridge.Phase, problem?: string, port?: integer, pid?: integer, lock_file?: string, discovery_file?: string, program?: string[]}
function M.status()
  local ready = state.ready or {}
  return {
    phase = state.phase,
    problem = state.problem,
    port = ready.port,
    pid = ready.pid,
    lock_file = ready.lock_file,
    discovery_file = ready.discovery_file,
    program = state.program,
  }
end

return M
