--- `:DrawbridgeClaude` and `:DrawbridgeGemini`: each agent's CLI in its own terminal window, connected to the bridge.
local cli = require('drawbridge.cli')
local config = require('drawbridge.config')
local message = require('drawbridge.message')

local M = {}

local sessions = {} ---@type table<string, {buffer: integer, job: integer, pid: integer}> By agent.
local opening = {} ---@type table<string, boolean>

--- Reports to the bridge which terminals accept prompts, each by the process that was started in it.
function M.report()
  local claude = sessions.claude
  require('drawbridge.link').send('terminals', { pids = claude and { claude.pid } or {} })
end

---@param pid integer The process ID, as reported.
---@return {buffer: integer, job: integer, pid: integer}?
function M.session_of(pid)
  local claude = sessions.claude
  return claude and claude.pid == pid and vim.api.nvim_buf_is_valid(claude.buffer) and claude or nil
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
local SHARED = {
  right = 'belowright split',
  left = 'belowright split',
  bottom = 'belowright vertical split',
  top = 'belowright vertical split',
}

--- The window of another agent in this tab page, unless it is floating. Nil if there isn't one.
local function neighbor()
  for _, session in pairs(sessions) do
    local window = vim.fn.bufwinid(session.buffer)
    if window ~= -1 and vim.api.nvim_win_get_config(window).relative == '' then
      return window
    end
  end
end

--- Opens a window for `buffer` at the position in the options, and makes it current. If both agents are open, they share
--- the space of one window.
local function open_window(buffer)
  local options = config.get().terminal
  local beside = neighbor()
  if options.position == 'float' then
    open_float(buffer, options.size)
  elseif beside and options.position ~= 'tab' then
    vim.api.nvim_set_current_win(beside)
    vim.cmd('keepalt ' .. SHARED[options.position])
    vim.api.nvim_win_set_buf(0, buffer)
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

local function ended(agent, buffer, code)
  if sessions[agent] and sessions[agent].buffer == buffer then
    sessions[agent] = nil
    M.report()
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
    message.answer(('%s: exited with code %d'):format(cli.agents[agent].command, code), 'warn')
  end
end

--- Gives the terminal a readable name instead of "term://~/project//4711:/usr/bin/claude".
local function rename(buffer, name)
  local before = vim.api.nvim_buf_get_name(buffer)
  require('drawbridge.view.text').name(buffer, name)
  -- Neovim keeps the previous name in another buffer.
  local left = vim.fn.bufnr('^' .. vim.fn.escape(before, '\\[]{}*?,^$~.') .. '$')
  if left ~= -1 and left ~= buffer then
    pcall(vim.api.nvim_buf_delete, left, { force = true })
  end
end

local function run(agent, words, bridge)
  local buffer = vim.api.nvim_create_buf(false, false)
  open_window(buffer)
  local options = {
    env = cli.environment(agent, bridge),
    on_exit = function(_, code)
      ended(agent, buffer, code)
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
    local reason = started and '' or ': ' .. tostring(job)
    return message.answer(("%s: %s can't be run%s"):format(cli.agents[agent].command, words[1], reason), 'error')
  end
  vim.bo[buffer].bufhidden = 'hide'
  rename(buffer, cli.agents[agent].name)
  sessions[agent] = { buffer = buffer, job = job, pid = vim.fn.jobpid(job) }
  M.report()
  enter()
end

--- Whether the CLI is installed. If not, reports how to install it.
local function installed(agent, program)
  if vim.fn.executable(program) == 1 then
    return true
  elseif program == agent then
    message.answer(('%s not found; run %s'):format(agent, cli.agents[agent].install), 'error')
  else
    message.answer(("drawbridge: %s can't be run (%s)"):format(program, cli.agents[agent].option), 'error')
  end
  return false
end

--- Opens the agent's terminal, or goes to the one that is open. Starts the bridge if necessary, and waits for it without
--- blocking.
---@param agent 'claude'|'gemini'
---@param arguments string[]
function M.open(agent, arguments)
  local session, command = sessions[agent], cli.agents[agent].command
  if session and vim.api.nvim_buf_is_valid(session.buffer) then
    focus(session.buffer)
    if #arguments > 0 then
      message.answer(('%s: already running; exit it to use other arguments'):format(command), 'warn')
    end
    return
  end
  local words = cli.agents[agent].words(arguments)
  if opening[agent] or not installed(agent, words[1]) then
    return
  end
  if cli.agents[agent].first_words then
    vim.list_extend(words, cli.agents[agent].first_words(arguments))
  end
  opening[agent] = true
  require('drawbridge.server').when_ready(function(bridge, problem)
    opening[agent] = nil
    if bridge then
      run(agent, words, bridge)
    else
      message.answer(('%s: not started: %s'):format(command, problem), 'error')
    end
  end)
end

return M
