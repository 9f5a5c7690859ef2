--- The connection to the bridge: one dispatcher for its calls, one notification for the events sent to it, and its state.
local M = {}

--- The version of the calls and events. `editors/neovim/neovim.py` contains the same number. Raise both with each change.
M.REVISION = 7

local ALIVE_EVERY = 1000 -- ms between two checks of the channel: Neovim does not report that it has closed

local ANCESTORS = 6 -- how many processes, from the one that called the hook upward, are compared with the agents

---@class drawbridge.Bridge
---@field channel integer?
---@field port integer?
---@field token string?
---@field agents string[]
---@field pids integer[]
---@field unasked string[]
---@field modes table<integer, string> The permission mode that each agent's hook last reported, by the agent's process ID.
local bridge ---@type drawbridge.Bridge?
local state_callbacks = {} ---@type fun()[]
local alive_timer
local group

local function each_callback()
  for _, callback in ipairs(state_callbacks) do
    pcall(callback)
  end
end

local function is_open(channel)
  local ok, info = pcall(vim.api.nvim_get_chan_info, channel)
  return ok and info.id ~= nil
end

--- Runs `User <name>` autocommands. `data` is in `vim.g.drawbridge_event`, and in `args.data` if Neovim supports it.
---@param name string
---@param data table
function M.fire(name, data)
  vim.g.drawbridge_event = vim.tbl_extend('force', { name = name }, data)
  local options = { pattern = name, modeline = false }
  local with_data = vim.tbl_extend('force', options, { data = data })
  if not pcall(vim.api.nvim_exec_autocmds, 'User', vim.fn.has('nvim-0.8') == 1 and with_data or options) then
    vim.g.drawbridge_event = nil
  end
end

--- Sends an event to the bridge, if one is connected. Disconnects if the channel is closed.
---@param event string
---@param payload table
function M.send(event, payload)
  if bridge and not pcall(vim.rpcnotify, bridge.channel, 'drawbridge', event, payload) then
    M.detach()
  end
end

--- Whether a bridge is connected to this Neovim.
---@return boolean
function M.attached()
  return bridge ~= nil
end

--- The state of the bridge, without its channel, or nil if no bridge is connected. `port` and `token` are nil until the
--- bridge has announced them.
---@return drawbridge.Bridge?
function M.state()
  local known = vim.deepcopy(bridge)
  if known then
    known.channel = nil
  end
  return known
end

--- Calls `callback` whenever `state()` changes.
---@param callback fun()
function M.on_state(callback)
  table.insert(state_callbacks, callback)
end

local function parent(pid)
  local file = io.open(('/proc/%d/stat'):format(pid))
  local text = file and file:read('*a') or ''
  if file then
    file:close()
  end
  return tonumber(text:match('.*%) %S+ (%d+)'))
end

--- Stores the permission mode that the guard's hook reports. `process` is the process that called the hook. The mode is
--- stored for the connected agent that is this process or one of its ancestors, if any.
---@param mode string
---@param process integer
function M.report_mode(mode, process)
  local pid = process
  mode = mode:gsub('%c', '?')
  for _ = 1, ANCESTORS do
    if not bridge or not pid or pid <= 1 then
      return
    elseif vim.tbl_contains(bridge.pids, pid) then
      if bridge.modes[pid] ~= mode then
        bridge.modes[pid] = mode
        vim.schedule(each_callback)
      end
      return
    end
    pid = parent(pid)
  end
end

--- Disconnects from the bridge, whose views close without a decision. Also called when the bridge has ended.
function M.detach()
  if not bridge then
    return
  end
  local agents = bridge.agents
  bridge = nil
  alive_timer:stop()
  vim.api.nvim_del_augroup_by_id(group)
  require('drawbridge.selection').stop()
  require('drawbridge.buffers.save').stop()
  require('drawbridge.view.focus').unwatch()
  require('drawbridge.review').close_all()
  if package.loaded['drawbridge.changes'] then
    require('drawbridge.changes').stop()
  end
  if package.loaded['drawbridge.changes.suggest'] then
    require('drawbridge.changes.suggest').stop()
  end
  for _, agent in ipairs(agents) do
    M.fire('DrawbridgeDisconnected', { agent = agent })
  end
  each_callback()
end

local function folders()
  -- This is the directory of the whole editor, because `:lcd` and `:tcd` do not change where the user works.
  return { vim.fn.getcwd(-1, -1) }
end

local function watch()
  local loop = vim.uv or vim.loop
  alive_timer = alive_timer or loop.new_timer()
  alive_timer:start(
    ALIVE_EVERY,
    ALIVE_EVERY,
    vim.schedule_wrap(function()
      if bridge and not is_open(bridge.channel) then
        M.detach()
      end
    end)
  )
  group = vim.api.nvim_create_augroup('drawbridge_link', {})
  vim.api.nvim_create_autocmd('DirChanged', {
    group = group,
    callback = function()
      M.send('folders', { folders = folders() })
    end,
  })
  vim.api.nvim_create_autocmd('VimLeavePre', {
    group = group,
    callback = function()
      M.send('leaving', { pid = vim.fn.getpid() })
    end,
  })
end

local handlers = {}

function handlers.attach(params)
  if bridge and bridge.channel ~= params.channel and is_open(bridge.channel) then
    local is_own = vim.api.nvim_get_chan_info(bridge.channel).stream == 'job'
    local advice = is_own and 'Stop it with :DrawbridgeStop.' or 'Neovim did not start it: stop it where it runs.'
    error({ code = 'REFUSED', message = 'Another bridge is already connected to this Neovim. ' .. advice })
  end
  M.detach()
  require('drawbridge.view.room').prepare()
  bridge = { channel = params.channel, agents = {}, pids = {}, unasked = {}, modes = {} }
  watch()
  require('drawbridge.selection').start()
  require('drawbridge.buffers.save').start()
  require('drawbridge.view.focus').watch()
  each_callback()
  if package.loaded['drawbridge.terminal'] then
    require('drawbridge.terminal').report()
  end
  return { pid = vim.fn.getpid() }
end

function handlers.detach()
  M.detach()
end

local function count(names)
  local counts = {}
  for _, name in ipairs(names) do
    counts[name] = (counts[name] or 0) + 1
  end
  return counts
end

--- The names that `after` contains more often than `before`.
local function gained(before, after)
  local known, names = count(before), {}
  for _, name in ipairs(after) do
    if (known[name] or 0) > 0 then
      known[name] = known[name] - 1
    else
      table.insert(names, name)
    end
  end
  return names
end

function handlers.announce(params)
  local before = bridge.agents
  bridge.port, bridge.token, bridge.agents, bridge.pids = params.port, params.token, params.agents, params.pids or {}
  bridge.unasked = params.unasked or {}
  local modes = {}
  for _, pid in ipairs(bridge.pids) do
    modes[pid] = bridge.modes[pid]
  end
  bridge.modes = modes
  for _, agent in ipairs(gained(bridge.agents, before)) do
    M.fire('DrawbridgeDisconnected', { agent = agent })
  end
  for _, agent in ipairs(gained(before, bridge.agents)) do
    M.fire('DrawbridgeConnected', { agent = agent })
  end
  each_callback()
end

handlers.folders = folders

function handlers.tell(params)
  -- For a message of two lines, Neovim would ask "Press ENTER".
  local words = params.message:gsub('%s*\n%s*', ' ')
  require('drawbridge.message').report(words, params.level, params.level ~= 'info')
  if params.level ~= 'info' then
    require('drawbridge.status').remember(words)
  end
end

--- Copies a text into the unnamed register and, if Neovim has a clipboard, into `+`. Returns where it is, for a message.
function handlers.copy(params)
  local lines = vim.split((params.text:gsub('%z', '')), '\n', { plain = true })
  vim.fn.setreg('"', lines, 'v')
  local has_clipboard = vim.fn.has('clipboard') == 1 and pcall(vim.fn.setreg, '+', lines, 'v')
  return has_clipboard and 'registers " and +' or 'register "'
end

function handlers.selection()
  return require('drawbridge.selection').current()
end

--- The modules that answer all other calls, each with its methods. A method is the module's function of the same name.
local MODULES = {
  buffers = { 'tabs', 'diagnostics', 'status', 'unsaved' },
  ['buffers.open'] = { 'open' },
  ['buffers.save'] = { 'save' },
  ['buffers.written'] = { 'written', 'overwritten', 'reload' },
  changes = { 'show_review' },
  ['changes.suggest'] = { 'suggested' },
  prompt_box = { 'paste', 'submit', 'take_back' },
  review = { 'propose', 'ready', 'mark', 'count', 'put_back', 'proposed', 'withdraw' },
}
for name, methods in pairs(MODULES) do
  for _, method in ipairs(methods) do
    handlers[method] = function(params)
      return require('drawbridge.' .. name)[method](params)
    end
  end
end

--- Answers one call from the bridge. Errors are returned to it, and never shown on the screen.
---@param method string
---@param params table
---@return {ok: boolean, value?: any, code?: string, message?: string}
function M.handle(method, params)
  local handler = handlers[method]
  if not handler then
    local problem =
      'The plugin has no method "%s". Restart Neovim, so that the plugin and the bridge have the same version.'
    return { ok = false, code = 'INTERNAL', message = problem:format(method) }
  elseif not bridge and method ~= 'attach' then
    return { ok = false, code = 'INTERNAL', message = 'The bridge that called "' .. method .. '" is not attached.' }
  end
  local ok, value = pcall(handler, params)
  if ok then
    return { ok = true, value = value }
  elseif type(value) == 'table' then
    return { ok = false, code = value.code, message = value.message }
  end
  return { ok = false, code = 'INTERNAL', message = tostring(value) }
end

return M
