--- The agents' command lines: the command of each, its environment, and the completion of its arguments.
local config = require('drawbridge.config')

local M = {}

---@class drawbridge.Cli
---@field name string Its name for display, and the name of its terminal.
---@field command string Its command in Neovim.
---@field option string The option that sets its command.
---@field install string What to type if it is not installed.
---@field words fun(arguments: string[]): string[] Returns the command to run.
---@field first_words? fun(arguments: string[]): string[] Returns arguments to add to the command line; may ask first.
---@field environment fun(bridge: drawbridge.Bridge): table<string, string> Returns the variables that it needs besides `no_proxy`.
---@field flags string[] The flags that are offered for completion.
---@field values table<string, string[]> The values that a flag accepts.

local LOCAL = { 'localhost', '127.0.0.1', '::1' }

--- If one of these files exists, Gemini CLI assumes that it runs in a container.
M.CONTAINER_FILES = { '/.dockerenv', '/run/.containerenv' }
-- If one of these variables is set, the CLI assumes that its editor is in the container too.
local SAME_CONTAINER = { 'SSH_CONNECTION', 'REMOTE_CONTAINERS', 'VSCODE_REMOTE_CONTAINERS_SESSION' }

local function chooses_mode(words)
  for _, word in ipairs(words) do
    if word == '--dangerously-skip-permissions' or word:match('^%-%-permission%-mode=?') then
      return true
    end
  end
  return false
end

--- Whether a Gemini CLI started here would look for its editor on the container's host.
---@return boolean
function M.looks_outside()
  for _, name in ipairs(SAME_CONTAINER) do
    if (vim.env[name] or '') ~= '' then
      return false
    end
  end
  for _, file in ipairs(M.CONTAINER_FILES) do
    if vim.loop.fs_stat(file) then
      return true
    end
  end
  return false
end

--- Flags with which Gemini CLI still starts an interactive session, without a value and with one.
local GEMINI_SWITCHES = { ['--debug'] = true, ['-d'] = true, ['--sandbox'] = true, ['-s'] = true }
local GEMINI_VALUES = {
  ['--approval-mode'] = true,
  ['--extensions'] = true,
  ['-e'] = true,
  ['--include-directories'] = true,
  ['--model'] = true,
  ['-m'] = true,
  ['--resume'] = true,
  ['-r'] = true,
}

--- Whether the arguments consist only of these flags, without a subcommand or a prompt. Gemini CLI accepts only one
--- prompt.
local function are_flags(arguments)
  local is_value = false
  for _, word in ipairs(arguments) do
    local flag = word:match('^(%-[^=]*)=') or word
    if is_value and word:sub(1, 1) ~= '-' then
      is_value = false
    elseif GEMINI_SWITCHES[flag] or GEMINI_VALUES[flag] then
      is_value = GEMINI_VALUES[flag] == true and flag == word
    else
      return false
    end
  end
  return true
end

--- If the user has not decided yet and the arguments are only flags, asks whether Gemini CLI may connect to editors.
--- After a Yes, Gemini CLI is started with the command that enables this. A file with defaults would make the question
--- unnecessary, but Gemini CLI (0.61) reads only one that belongs to root.
---@param arguments string[]
---@return string[] # The arguments that are added to the command line.
local function gemini_first_words(arguments)
  local settings = require('drawbridge.gemini_settings')
  if not are_flags(arguments) or not settings.is_undecided() then
    return {}
  end
  local question =
    'Let Gemini CLI connect to this Neovim? This runs /ide enable in Gemini CLI once, which sets ide.enabled in %s.'
  local answer = vim.fn.confirm(question:format(vim.fn.fnamemodify(settings.file(), ':~')), '&Yes\n&Never', 1)
  if answer == 1 then
    return { '--prompt-interactive', '/ide enable' }
  elseif answer == 2 then
    settings.decline()
  end
  return {}
end

---@type table<'claude'|'gemini', drawbridge.Cli>
M.agents = {
  claude = {
    name = 'Claude Code',
    command = ':DrawbridgeClaude',
    option = 'terminal.command',
    install = 'npm install -g @anthropic-ai/claude-code',
    -- Newer CLIs start in a mode that does not ask, and so shows no diffs. This makes them ask, unless the command line
    -- sets a mode.
    words = function(arguments)
      local words = config.words(config.get().terminal.command)
      if not chooses_mode(words) and not chooses_mode(arguments) then
        vim.list_extend(words, { '--permission-mode', 'default' })
      end
      return vim.list_extend(words, arguments)
    end,
    environment = function(bridge)
      return { CLAUDE_CODE_SSE_PORT = tostring(bridge.port), MCP_CONNECTION_NONBLOCKING = 'true' }
    end,
    flags = {
      '--add-dir',
      '--allowedTools',
      '--append-system-prompt',
      '--continue',
      '--dangerously-skip-permissions',
      '--disallowedTools',
      '--fork-session',
      '--model',
      '--permission-mode',
      '--resume',
      '--settings',
      '--verbose',
    },
    values = {
      ['--permission-mode'] = { 'acceptEdits', 'auto', 'bypassPermissions', 'default', 'plan' },
      ['--model'] = { 'fable', 'haiku', 'opus', 'sonnet' },
    },
  },
  gemini = {
    name = 'Gemini CLI',
    command = ':DrawbridgeGemini',
    option = 'gemini.command',
    install = 'npm install -g @google/gemini-cli',
    words = function(arguments)
      return vim.list_extend(config.words(config.get().gemini.command), arguments)
    end,
    first_words = gemini_first_words,
    environment = function(bridge)
      local cwd = vim.fn.getcwd()
      return {
        GEMINI_CLI_IDE_PID = tostring(vim.fn.getpid()), -- the discovery file's name contains this process ID
        GEMINI_CLI_IDE_SERVER_PORT = tostring(bridge.port),
        GEMINI_CLI_IDE_AUTH_TOKEN = bridge.token,
        GEMINI_CLI_IDE_WORKSPACE_PATH = vim.loop.fs_realpath(cwd) or cwd,
        REMOTE_CONTAINERS = M.looks_outside() and 'true' or nil,
      }
    end,
    flags = {
      '--approval-mode',
      '--debug',
      '--extensions',
      '--include-directories',
      '--model',
      '--prompt-interactive',
      '--resume',
      '--sandbox',
    },
    values = { ['--approval-mode'] = { 'auto_edit', 'default', 'plan', 'yolo' } },
  },
}

--- The entries of the lists, then the local addresses, each once, separated by commas.
---@param ... string? Comma-separated lists.
---@return string
function M.no_proxy(...)
  local entries, seen = {}, {}
  local function add(entry)
    if entry ~= '' and not seen[entry] then
      seen[entry] = true
      entries[#entries + 1] = entry
    end
  end
  for index = 1, select('#', ...) do
    for _, entry in ipairs(vim.split(select(index, ...) or '', ',', { plain = true })) do
      add(vim.trim(entry))
    end
  end
  for _, entry in ipairs(LOCAL) do
    add(entry)
  end
  return table.concat(entries, ',')
end

--- The variables that are set in an agent's environment. It inherits all others.
---@param agent 'claude'|'gemini'
---@param bridge drawbridge.Bridge
---@return table<string, string>
function M.environment(agent, bridge)
  local none = M.no_proxy(vim.env.no_proxy, vim.env.NO_PROXY)
  -- A CLI uses http_proxy even for 127.0.0.1, and programs differ in which spelling they read.
  return vim.tbl_extend('error', M.agents[agent].environment(bridge), { no_proxy = none, NO_PROXY = none })
end

--- Splits a line at spaces, much as a shell does. 'single' and "double" quotes group words, and outside of single
--- quotes, a backslash quotes the next character.
---@param line string
---@return string[]
function M.split(line)
  local words, word, quote = {}, nil, nil
  local index = 1
  while index <= #line do
    local letter = line:sub(index, index)
    if letter == '\\' and quote ~= "'" and index < #line then
      index = index + 1
      word = (word or '') .. line:sub(index, index)
    elseif letter == quote then
      quote = nil
    elseif not quote and (letter == '"' or letter == "'") then
      quote, word = letter, word or ''
    elseif not quote and letter:match('%s') then
      words[#words + 1], word = word, nil
    else
      word = (word or '') .. letter
    end
    index = index + 1
  end
  words[#words + 1] = word
  return words
end

--- Completes the agent's arguments with directories or values after a flag that takes them, otherwise with flags.
---@param agent 'claude'|'gemini'
function M.complete(agent, lead, line, position)
  local cli = M.agents[agent]
  local before = vim.split(line:sub(1, position), '%s+')
  local flag = before[#before - 1]
  if flag == '--add-dir' or flag == '--include-directories' then
    return vim.fn.getcompletion(lead, 'dir')
  end
  return vim.tbl_filter(function(candidate)
    return candidate:sub(1, #lead) == lead
  end, cli.values[flag] or cli.flags)
end

return M
