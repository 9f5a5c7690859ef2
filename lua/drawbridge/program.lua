--- The program that runs the bridge, and its arguments.
local config = require('drawbridge.config')

local M = {}

local LEVELS = { debug = 'debug', info = 'info', warn = 'warning', error = 'error' } -- the bridge's names, by the plugin's

--- The plugin's folder, which contains `lua/` and, after `tools/dev.py setup`, `.venv/`.
function M.root()
  local source = debug.getinfo(1, 'S').source:sub(2)
  return vim.fn.fnamemodify(vim.loop.fs_realpath(source) or source, ':h:h:h')
end

--- The command that runs the Python side, from the `command` option, the plugin's own `.venv`, or PATH, in this order.
---@return string[]? program
---@return string? problem What is missing, and what to do.
function M.find()
  local set = config.get().command
  if set then
    local words = config.words(set)
    if vim.fn.executable(words[1]) == 1 then
      return words
    end
    return nil, ("command: %s can't be run"):format(words[1])
  end
  local own = M.root() .. '/.venv/bin/drawbridge'
  for _, candidate in ipairs({ own, vim.fn.exepath('drawbridge') }) do
    if vim.fn.executable(candidate) == 1 then
      return { candidate }
    end
  end
  return nil, 'the bridge is not installed (:DrawbridgeInstall)'
end

--- What to do if the Python side is missing. The text is too long for a one-line message.
function M.remedy()
  local script = M.root() .. '/tools/dev.py'
  if vim.fn.filereadable(script) == 1 then
    return ('run :DrawbridgeInstall, or in a shell: python3 %s setup'):format(vim.fn.fnamemodify(script, ':~'))
  end
  return 'make `drawbridge` available on PATH'
end

local function absolute(path)
  local full = vim.fn.fnamemodify(path, ':p')
  return #full > 1 and (full:gsub('/$', '')) or full
end

-- How a switch is passed on. One value is a flag, and the other one is set in the environment. Otherwise the bridge's
-- settings file would decide.
local SWITCHES = {
  { 'single_client', '--single-client', true },
  { 'execute_code', '--execute-code', true },
  { 'context', '--no-context', false },
}

--- The arguments of `drawbridge ide`, which are the previous port and what the user set in `setup{}`. The rest may be
--- in the bridge's own settings file.
---@param options table The options, as returned by `config.get()`.
---@param last {port: integer?, token: string?} The port and token of the previous bridge of this Neovim.
---@return string[] arguments
---@return table<string, string> environment In addition to Neovim's own.
function M.invocation(options, last)
  local server = options.server
  local arguments, environment = { 'ide', '--nvim', 'stdio' }, { DRAWBRIDGE_TOKEN = last.token }
  local function add(flag, values)
    for _, value in ipairs(values) do
      vim.list_extend(arguments, { flag, tostring(value) })
    end
  end
  add('--workspace', vim.tbl_map(absolute, config.list(server.workspace)))
  add('--port', { last.port or server.port })
  add('--agent', config.list(server.agent))
  add('--host', config.list(server.host))
  add('--mention', { server.mention })
  add('--reject', { server.reject })
  -- "warn" is the bridge's own default too.
  add('--log-level', { LEVELS[server.log_level or (options.log_level ~= 'warn' and options.log_level)] })
  add('--log-file', { server.log_file and absolute(server.log_file) })
  add('--ignore', config.list(server.ignore))
  for _, switch in ipairs(SWITCHES) do
    local name, flag, flagged = unpack(switch)
    if server[name] == flagged then
      table.insert(arguments, flag)
    elseif server[name] ~= nil then
      environment['DRAWBRIDGE_' .. name:upper()] = tostring(server[name])
    end
  end
  return arguments, environment
end

return M
