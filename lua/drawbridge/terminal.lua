--- `:DrawbridgeClaude`: the CLI in a terminal window, with what it needs to find the bridge in its environment.
local config = require('drawbridge.config')
local say = require('drawbridge.say')

local M = {}

local LOCAL = { 'localhost', '127.0.0.1', '::1' }
local FLAGS = {
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
}
local VALUES = {
  ['--permission-mode'] = { 'acceptEdits', 'auto', 'bypassPermissions', 'default', 'plan' },
  ['--model'] = { 'fable', 'haiku', 'opus', 'sonnet' },
}

local session ---@type {buffer: integer, job: integer?}?
local opening = false

--- The entries of both variables and the local addresses, each once, in this order.
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

--- What is put into the CLI's environment; the rest it inherits.
---@param port integer The bridge's.
---@param inherited table<string, string> Neovim's own environment.
---@return table<string, string>
function M.environment(port, inherited)
  local none = M.no_proxy(inherited.no_proxy, inherited.NO_PROXY)
  return {
    CLAUDE_CODE_SSE_PORT = tostring(port),
    MCP_CONNECTION_NONBLOCKING = 'true',
    -- The CLI goes through http_proxy even to 127.0.0.1, and programs differ in which spelling they read.
    no_proxy = none,
    NO_PROXY = none,
  }
end

local function chooses_mode(words)
  for _, word in ipairs(words) do
    if word == '--dangerously-skip-permissions' or word:match('^%-%-permission%-mode=?') then
      return true
    end
  end
  return false
end

--- The words to run. Newer CLIs start in a mode that asks nothing and so shows no diff; unless told otherwise, ask.
---@param command string|string[] The option `terminal.command`.
---@param arguments string[]
---@return string[]
function M.command(command, arguments)
  local words = config.words(command)
  if not chooses_mode(words) and not chooses_mode(arguments) then
    vim.list_extend(words, { '--permission-mode', 'default' })
  end
  return vim.list_extend(words, arguments)
end

--- Splits at spaces as a shell does: 'single' and "double" quotes hold words together, a backslash the next letter.
---@param line string
---@return string[]
function M.words(line)
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

--- Completion for the command line: a few flags and what may follow them.
function M.complete(lead, line, position)
  local before = vim.split(line:sub(1, position), '%s+')
  local flag = before[#before - 1]
  if flag == '--add-dir' then
    return vim.fn.getcompletion(lead, 'dir')
  end
  return vim.tbl_filter(function(candidate)
    return candidate:sub(1, #lead) == lead
  end, VALUES[flag] or FLAGS)
end

local function extent(size, whole)
  return math.max(1, size < 1 and math.floor(whole * size + 0.5) or math.min(size, whole))
end

local function open_float(buffer, size)
  local share = size < 1 and size or 0.8
  local width, height = extent(math.max(share, 0.5), vim.o.columns - 2), extent(math.max(share, 0.5), vim.o.lines - 4)
  return vim.api.nvim_open_win(buffer, true, {
    relative = 'editor',
    border = 'rounded',
    width = width,
    height = height,
    row = math.floor((vim.o.lines - height) / 2) - 1,
    col = math.floor((vim.o.columns - width) / 2) - 1,
  })
end

local SPLITS = {
  right = 'botright vertical split',
  left = 'topleft vertical split',
  bottom = 'botright split',
  top = 'topleft split',
  tab = 'tab split',
}

--- A window for `buffer` where the options want it; it becomes the current one.
local function open_window(buffer)
  local options = config.get().terminal
  if options.position == 'float' then
    open_float(buffer, options.size)
  else
    vim.cmd('keepalt ' .. SPLITS[options.position])
    vim.api.nvim_win_set_buf(0, buffer)
    if options.position == 'right' or options.position == 'left' then
      vim.api.nvim_win_set_width(0, extent(options.size, vim.o.columns))
      vim.wo.winfixwidth = true
    elseif options.position ~= 'tab' then
      vim.api.nvim_win_set_height(0, extent(options.size, vim.o.lines))
      vim.wo.winfixheight = true
    end
  end
  vim.wo.number, vim.wo.relativenumber, vim.wo.signcolumn, vim.wo.spell = false, false, 'no', false
end

local function enter()
  if config.get().terminal.auto_insert then
    vim.cmd('startinsert')
  end
end

local function focus(buffer)
  local window = vim.fn.bufwinid(buffer)
  if window == -1 then
    window = vim.fn.win_findbuf(buffer)[1]
  end
  if window then
    vim.api.nvim_set_current_win(window)
  else
    open_window(buffer)
  end
  enter()
end

local function ended(buffer, code)
  if session and session.buffer == buffer then
    session = nil
  end
  if vim.v.dying > 0 or vim.v.exiting ~= vim.NIL or not vim.api.nvim_buf_is_valid(buffer) then
    return
  end
  if code == 0 and config.get().terminal.auto_close then
    if vim.api.nvim_get_current_buf() == buffer then
      vim.cmd('stopinsert')
    end
    vim.api.nvim_buf_delete(buffer, { force = true })
  elseif code ~= 0 then
    say.answer((':DrawbridgeClaude: it ended with code %d'):format(code), 'warn')
  end
end

local function run(words, port)
  local buffer = vim.api.nvim_create_buf(false, false)
  open_window(buffer)
  local options = {
    env = M.environment(port, vim.fn.environ()),
    on_exit = function(_, code)
      ended(buffer, code)
    end,
  }
  local started, job
  if vim.fn.has('nvim-0.11') == 1 then
    started, job = pcall(vim.fn.jobstart, words, vim.tbl_extend('error', options, { term = true }))
  else
    started, job = pcall(vim.fn.termopen, words, options)
  end
  if not started or job <= 0 then
    vim.api.nvim_buf_delete(buffer, { force = true })
    return say.answer((':DrawbridgeClaude: %s: %s'):format(words[1], started and 'not started' or job), 'error')
  end
  vim.bo[buffer].bufhidden = 'hide'
  session = { buffer = buffer, job = job }
  enter()
end

--- Whether the CLI is there; says what to install where it is not.
local function installed(program)
  if vim.fn.executable(program) == 1 then
    return true
  elseif program == 'claude' then
    say.answer('drawbridge: no claude; npm install -g @anthropic-ai/claude-code', 'error')
  else
    say.answer(("drawbridge: %s can't be run (terminal.command)"):format(program), 'error')
  end
  return false
end

--- Opens the terminal, or goes to the one that is open. Waits for a bridge that is just starting, without blocking.
---@param arguments string[]
function M.open(arguments)
  if session and vim.api.nvim_buf_is_valid(session.buffer) then
    focus(session.buffer)
    if #arguments > 0 then
      say.answer(':DrawbridgeClaude: it runs already; end it to use other arguments', 'warn')
    end
    return
  end
  local words = M.command(config.get().terminal.command, arguments)
  if opening or not installed(words[1]) then
    return
  end
  opening = true
  require('drawbridge.server').when_ready(function(port, problem)
    opening = false
    if port then
      run(words, port)
    else
      say.answer((':DrawbridgeClaude: not started: %s'):format(problem), 'error')
    end
  end)
end

return M
