--- `:DrawbridgeInstall`: installs the bridge into the plugin's own `.venv`.
local config = require('drawbridge.config')
local log = require('drawbridge.log')
local program = require('drawbridge.program')
local message = require('drawbridge.message')

local M = {}

local running = false

--- The interpreter to start the script with, or nil. The script looks for a newer one if this one is too old.
local function python()
  for _, name in ipairs({ 'python3', 'python' }) do
    if vim.fn.executable(name) == 1 then
      return name
    end
  end
end

local function finished(code, last)
  running = false
  if code ~= 0 then
    return message.answer(
      (':DrawbridgeInstall: not installed: %s'):format(last or ('exit code %d'):format(code)),
      'error'
    )
  end
  message.answer(':DrawbridgeInstall: installed')
  require('drawbridge').start()
end

local function install(words)
  local last
  local function collect(_, lines)
    for _, line in ipairs(lines) do
      if line:find('%S') then
        last = line
        log.add(line)
      end
    end
  end
  local started, job = pcall(vim.fn.jobstart, words, {
    cwd = program.root(),
    on_stdout = collect,
    on_stderr = collect,
    on_exit = vim.schedule_wrap(function(_, code)
      finished(code, last)
    end),
  })
  if not started or job <= 0 then
    return message.answer((":DrawbridgeInstall: %s can't be run"):format(words[1]), 'error')
  end
  running = true
  pcall(vim.fn.chanclose, job, 'stdin')
  message.answer(':DrawbridgeInstall: installing; :DrawbridgeLog shows the progress')
end

--- Asks the user, then installs the bridge without blocking Neovim.
function M.run()
  local script = program.root() .. '/tools/dev.py'
  if running then
    return message.answer(':DrawbridgeInstall: an installation is already running')
  elseif program.find() then
    return message.answer(':DrawbridgeInstall: the bridge is already installed')
  elseif config.get().command then
    -- The bridge would still be started with this command.
    return message.answer(':DrawbridgeInstall: correct or remove the `command` option', 'error')
  elseif vim.fn.filereadable(script) == 0 or not python() then
    local missing = python() and ('%s is missing. Make `drawbridge` available on PATH instead.'):format(script)
      or 'python3 was not found. Install Python 3.11 or newer.'
    return message.answer(':DrawbridgeInstall: ' .. missing, 'error')
  end
  local words = { python(), script, 'setup' }
  local question = ('Install the bridge into %s/.venv? This downloads Python packages with pip.'):format(
    vim.fn.fnamemodify(program.root(), ':~')
  )
  if vim.fn.confirm(question, '&Yes\n&No', 2) == 1 then
    install(words)
  else
    message.answer(':DrawbridgeInstall: canceled')
  end
end

return M
