--- `:checkhealth drawbridge`: checks each step from Neovim to the agent, and shows what to do if one fails.
local config = require('drawbridge.config')

local M = {}

-- The maximum wait for a program, in ms: Gemini CLI takes 2 s to print its version, and `drawbridge info` calls each
-- guard once as a test.
local WAIT, WAIT_FOR_GEMINI, WAIT_FOR_GUARD = 2000, 8000, 5000
local OLDEST_GEMINI = 31 -- 0.31 is the first version that looks for an editor beyond its own parent processes
local cli = require('drawbridge.cli')

-- Neovim 0.7 has only the old names, which newer versions no longer have.
local reporter = vim.health or require('health')
local start = reporter.start or reporter.report_start
local ok = reporter.ok or reporter.report_ok
local info = reporter.info or reporter.report_info
local warn = reporter.warn or reporter.report_warn
local fault = reporter.error or reporter.report_error

local function home(path)
  return vim.fn.fnamemodify(path, ':~')
end

--- The first line that a program prints, or nil and the reason. Takes at most `wait` milliseconds.
local function ask(words, wait)
  wait = wait or WAIT
  local printed = {}
  local function collect(_, lines)
    vim.list_extend(printed, lines)
  end
  local started, job = pcall(vim.fn.jobstart, words, { on_stdout = collect, on_stderr = collect })
  if not started or job <= 0 then
    return nil, "it can't be run"
  end
  pcall(vim.fn.chanclose, job, 'stdin') -- so that the program does not wait for answers to its questions
  local code = vim.fn.jobwait({ job }, wait)[1]
  if code == -1 then
    vim.fn.jobstop(job)
    return nil, ('it did not answer within %d seconds'):format(wait / 1000)
  end
  local output = vim.trim(table.concat(printed, '\n'))
  if code ~= 0 then
    local last = output:match('[^\n]*$')
    return nil, ('it exited with code %d%s'):format(code, last ~= '' and ': ' .. last or '')
  end
  return output:match('^[^\n]*')
end

local function check_neovim()
  local version = vim.version()
  local text = ('Neovim %d.%d.%d'):format(version.major, version.minor, version.patch)
  if vim.fn.has('nvim-0.7.2') == 1 then
    ok(text)
  else
    fault(text .. ' is too old', { 'Install Neovim 0.7.2 or newer.' })
  end
end

--- Checks the bridge program. Returns whether it can be run.
local function check_program()
  local source = require('drawbridge.program')
  local program, problem = source.find()
  if not program and config.get().command then
    local advice = 'Correct the `command` option of setup{}, or remove it to use the bridge that :DrawbridgeInstall '
    fault(problem, { advice .. 'installs.' })
    return false
  elseif not program then
    fault('The bridge is not installed', {
      source.remedy():gsub('^%l', string.upper) .. ' (Python 3.11 or newer is required). Then run :DrawbridgeStart.',
      'Or set the path of another installation: setup{ command = "/path/to/drawbridge" }.',
    })
    return false
  end
  local words = vim.list_extend(vim.deepcopy(program), { '--version' })
  local version, reason = ask(words)
  local name = home(table.concat(program, ' '))
  if version then
    ok(('Bridge program: %s (%s)'):format(name, version))
  else
    fault(('Bridge program: %s: %s'):format(name, reason), {
      ('Run `%s` in a shell to see its error.'):format(table.concat(words, ' ')),
    })
  end
  return version ~= nil
end

local function mode(path)
  local stat = vim.loop.fs_stat(path)
  return stat and stat.mode % 512
end

local function check_private(path, wanted, what)
  local found = mode(path)
  if not found then
    fault(('%s %s is missing'):format(what, home(path)), { ':DrawbridgeRestart creates it again.' })
  elseif found ~= wanted then
    local is_open = found % 64 ~= 0
    local text = is_open and 'is accessible to other users (mode %03o)' or 'has an unexpected mode (%03o)'
    warn(('%s %s '):format(what, home(path)) .. text:format(found), { ('Run `chmod %03o %s`.'):format(wanted, path) })
  else
    ok(('%s %s is readable only by you (mode %03o)'):format(what, home(path), found))
  end
end

--- The content of a lock file, or nil if it can't be read or is not a JSON object.
local function read_json(file)
  local opened, lines = pcall(vim.fn.readfile, file)
  local decoded, content = pcall(vim.json.decode, opened and table.concat(lines, '\n') or '')
  return decoded and type(content) == 'table' and content or nil
end

local function is_alive(pid)
  if type(pid) ~= 'number' or pid < 1 or pid > 2 ^ 31 - 1 or pid % 1 ~= 0 then
    return false
  end
  local result, _, name = vim.loop.kill(pid, 0)
  return result == 0 or name == 'EPERM'
end

local function shares_a_folder(one, other)
  for _, folder in ipairs(type(one.workspaceFolders) == 'table' and one.workspaceFolders or {}) do
    if vim.tbl_contains(type(other.workspaceFolders) == 'table' and other.workspaceFolders or {}, folder) then
      return true
    end
  end
  return false
end

--- Reports the other editors whose lock files name one of this bridge's folders, because Claude Code's /ide lists them
--- too.
local function check_company(lock_file)
  local own = read_json(lock_file)
  local directory = vim.fn.fnamemodify(lock_file, ':h')
  local found, names = pcall(vim.fn.readdir, directory)
  for _, name in ipairs(own and found and names or {}) do
    local file = directory .. '/' .. name
    local other = file ~= lock_file and name:match('^%d+%.lock$') and read_json(file)
    if other and shares_a_folder(own, other) and is_alive(other.pid) then
      info(
        ('%s (process %d) serves this folder too; in the /ide list, this Neovim is "%s"'):format(
          tostring(other.ideName),
          other.pid,
          tostring(own.ideName)
        )
      )
    end
  end
end

local function check_bridge()
  local now = require('drawbridge.status').get()
  if now.problem then
    return fault('The bridge is not running: ' .. now.problem, { 'Correct the problem, then run :DrawbridgeStart.' })
  elseif now.state == 'stopped' then
    return warn('The bridge is stopped', {
      'Run :DrawbridgeStart. setup{} starts the bridge automatically unless auto_start is false.',
    })
  elseif not now.port then
    return warn(('The bridge is %s'):format(now.state), { 'Wait a moment, then run :checkhealth drawbridge again.' })
  end
  ok(('The bridge listens on 127.0.0.1:%d (process %s)'):format(now.port, now.pid or 'unknown'))
  if now.lock_file then
    check_private(now.lock_file, tonumber('600', 8), 'Lock file')
    check_private(vim.fn.fnamemodify(now.lock_file, ':h'), tonumber('700', 8), 'Lock file directory')
    check_company(now.lock_file)
  end
  if now.discovery_file then
    check_private(now.discovery_file, tonumber('600', 8), 'Discovery file')
    check_private(vim.fn.fnamemodify(now.discovery_file, ':h'), tonumber('700', 8), 'Discovery file directory')
  end
  if #now.agents > 0 then
    ok('Connected: ' .. table.concat(now.agents, ', '))
  else
    info(
      'No agent is connected: use :DrawbridgeClaude or :DrawbridgeGemini. In another terminal, '
        .. 'type /ide in Claude Code, or /ide enable in Gemini CLI'
    )
  end
end

local function check_guard_of(guard)
  local setup = ('`drawbridge setup %s`'):format(guard.agent)
  if guard.state == 'works' and guard.problem == '' then
    ok(('Your unsaved work is protected from %s (%s)'):format(guard.title, home(guard.file)))
  elseif guard.state == 'absent' and vim.fn.executable(guard.agent) == 1 then
    warn(('%s may overwrite your unsaved work: it has no guard'):format(guard.title), { setup .. ' installs it.' })
  elseif guard.state == 'absent' then
    info(('%s has no guard; %s installs it'):format(guard.title, setup))
  end
end

--- Reports the state of each guard, and then the problems, which include those of the guards.
local function check_guard()
  local found, problem = require('drawbridge.guard').find(WAIT_FOR_GUARD)
  if not found then
    return warn("The guard's state can't be determined: " .. problem, { 'Run `drawbridge info` in a shell.' })
  end
  for _, guard in ipairs(found.guards) do
    check_guard_of(guard)
  end
  for _, sentence in ipairs(found.problems) do
    fault(sentence)
  end
  if not found.finds_us then
    warn("The guard can't find this Neovim instance: agents may overwrite your unsaved changes", {
      "Start Neovim with `drawbridge nvim`. Or list all directories with editors' sockets, including /tmp, in "
        .. 'socket_dir under [hook] in the settings, and run `drawbridge setup` again for each agent.',
    })
  end
end

local function check_claude()
  local program = config.words(config.get().terminal.command)
  if vim.fn.executable(program[1]) == 0 then
    local is_default = program[1] == 'claude'
    return warn(("%s can't be run"):format(program[1]), {
      is_default and ('Install it: %s'):format(cli.agents.claude.install) or 'Correct terminal.command in setup{}.',
      is_default and 'Or set its path: setup{ terminal = { command = "/path/to/claude" } }.' or nil,
    })
  end
  local version, reason = ask(vim.list_extend(program, { '--version' }))
  if version then
    ok(('%s: %s'):format(home(vim.fn.exepath(program[1])), version))
  else
    warn(('%s --version: %s'):format(program[1], reason))
  end
end

local function check_directory()
  local set = vim.env.CLAUDE_CONFIG_DIR or ''
  if set ~= '' and vim.fn.resolve(vim.fn.fnamemodify(set, ':p')) ~= vim.fn.resolve(vim.fn.expand('~/.claude/')) then
    local advice = 'Claude Code in another terminal finds this Neovim only if it has the same CLAUDE_CONFIG_DIR.'
    info(('CLAUDE_CONFIG_DIR is %s here, not the default ~/.claude. %s'):format(home(set), advice))
  end
end

local function check_proxies()
  local proxies = {}
  for _, name in ipairs({ 'http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY' }) do
    if (vim.env[name] or '') ~= '' then
      proxies[#proxies + 1] = name
    end
  end
  local exempt = ',' .. (vim.env.no_proxy or '') .. ',' .. (vim.env.NO_PROXY or '') .. ','
  if #proxies > 0 and not exempt:find('127.0.0.1', 1, true) and not exempt:find(',%s*%*%s*,') then
    warn(('A proxy is set (%s), and no_proxy does not include 127.0.0.1'):format(table.concat(proxies, ', ')), {
      ':DrawbridgeClaude and :DrawbridgeGemini handle this. In another terminal, run this before you start the agent: '
        .. 'export no_proxy="localhost,127.0.0.1,::1${no_proxy:+,$no_proxy}"; export NO_PROXY="$no_proxy"',
    })
  else
    ok('No proxy is used between an agent and the bridge')
  end
end

local function check_mode()
  local settings = require('drawbridge.claude_settings')
  local users = home(settings.directory() .. '/settings.json')
  local advice = {
    ':DrawbridgeClaude starts Claude Code with --permission-mode default.',
    'For other terminals: put {"permissions": {"defaultMode": "default"}} into .claude/settings.json in the project, '
      .. 'or into '
      .. users
      .. '.',
  }
  local chosen, file = settings.default_mode(function(broken)
    warn(home(broken) .. ' is not a valid JSON object', { 'Correct it: Claude Code ignores the file until then.' })
  end)
  if not chosen then
    warn(
      'permissions.defaultMode is not set: newer versions of Claude Code start in auto mode, which shows no diffs',
      advice
    )
  elseif require('drawbridge.status').ASKING[chosen] then
    ok(('Claude Code asks before it writes (defaultMode "%s" in %s)'):format(chosen, home(file)))
  else
    warn(('defaultMode is "%s" in %s: not every change is shown as a diff'):format(chosen, home(file)), advice)
  end
end

local function check_gemini()
  local program = config.words(config.get().gemini.command)
  if vim.fn.executable(program[1]) == 0 then
    -- Many users have only one agent.
    local how = 'to use Gemini CLI, run %s, or set its path: setup{ gemini = { command = "/path/to/gemini" } }'
    local advice = program[1] == 'gemini' and how:format(cli.agents.gemini.install)
    return info(("%s can't be run: %s"):format(program[1], advice or 'correct gemini.command in setup{}'))
  end
  local version, reason = ask(vim.list_extend(program, { '--version' }), WAIT_FOR_GEMINI)
  if not version then
    return warn(('%s --version: %s'):format(program[1], reason))
  end
  local name = home(vim.fn.exepath(program[1]))
  local major, minor = version:match('^v?(%d+)%.(%d+)')
  if major and tonumber(major) == 0 and tonumber(minor) < OLDEST_GEMINI then
    warn(
      ('%s: %s supports only VS Code as its editor'):format(name, version),
      { ('Update it: %s@latest'):format(cli.agents.gemini.install) }
    )
  else
    ok(('%s: %s'):format(name, version))
  end
end

--- Reports the setting that Gemini CLI needs to look for an editor.
local function check_gemini_setting()
  local settings = require('drawbridge.gemini_settings')
  local file, ide = home(settings.file()), settings.ide()
  if not ide then
    info(
      ("%s can't be read here as JSON, perhaps because it contains comments. "):format(file)
        .. 'Gemini CLI looks for an editor if the file contains "ide": {"enabled": true}'
    )
  elseif ide.enabled == true then
    ok(('Gemini CLI looks for an editor (ide.enabled in %s)'):format(file))
  elseif ide.enabled == false then
    warn(('ide.enabled is false in %s, so Gemini CLI does not look for an editor'):format(file), {
      'Type /ide enable in Gemini CLI once.',
    })
  elseif settings.has_defaults() then
    info(('ide.enabled is not set in %s: the Gemini defaults on this machine apply'):format(file))
  elseif settings.is_undecided() then
    info(
      ('ide.enabled is not set in %s: :DrawbridgeGemini asks whether to set it. '):format(file)
        .. 'In another terminal, type /ide enable in Gemini CLI once. If it asks whether to connect Neovim, press Esc '
        .. 'first: if you choose Yes, it looks for an installer that does not exist.'
    )
  else
    info(
      ('ide.enabled is not set in %s: Gemini CLI looks for an editor only after you type /ide enable in it once'):format(
        file
      )
    )
  end
end

local function check_container()
  if cli.looks_outside() then
    info(
      'This is a container: unless :DrawbridgeGemini starts it, Gemini CLI looks for its editor outside the '
        .. 'container. Before you start gemini elsewhere, run: export REMOTE_CONTAINERS=true'
    )
  end
end

function M.check()
  start('This Neovim')
  check_neovim()
  local answers = check_program()
  start('The bridge')
  check_bridge()
  check_proxies()
  if answers then
    start('The guard')
    check_guard()
  end
  start('Gemini CLI')
  check_gemini()
  check_gemini_setting()
  check_container()
  start('Claude Code')
  check_claude()
  check_directory()
  check_mode()
end

return M
