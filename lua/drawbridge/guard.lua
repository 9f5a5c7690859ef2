--- The state of the guard that protects unsaved work, as `drawbridge info` reports it. The guard works without the plugin.
local M = {}

local STATES = { works = 'on', unreadable = 'unknown' }
local MORE = ':checkhealth drawbridge has the details'

---@class drawbridge.Guard
---@field agent string
---@field title string The agent's name for display.
---@field state 'works'|'broken'|'off'|'absent'|'unreadable'
---@field file string
---@field problem string

---@class drawbridge.Guards
---@field guards drawbridge.Guard[] At least one for each agent: see `inspect` in `info/guards.py`.
---@field problems string[] What to fix, one sentence for each problem.
---@field finds_us boolean Whether the guard finds this Neovim.

local function parsed(text)
  local read, report = pcall(vim.json.decode, text)
  if not read or type(report) ~= 'table' or type(report.guard) ~= 'table' then
    return nil
  end
  local found = { guards = report.guard, problems = report.problems or {}, finds_us = false }
  for _, guard in ipairs(found.guards) do
    guard.title = guard.title or guard.agent -- earlier versions of the program do not report titles
  end
  for _, editor in ipairs(report.editors or {}) do
    found.finds_us = found.finds_us or editor.pid == vim.fn.getpid()
  end
  return found
end

--- Runs `drawbridge info` without blocking. `done` receives the result, or nil and the reason.
---@param done fun(found: drawbridge.Guards?, problem: string?)
---@return integer? job
function M.ask(done)
  local program, problem = require('drawbridge.program').find()
  if not program then
    return done(nil, problem)
  end
  local printed = {}
  local function collect(_, lines)
    printed = lines
  end
  local started, job = pcall(vim.fn.jobstart, vim.list_extend(vim.deepcopy(program), { 'info', '--json' }), {
    stdout_buffered = true,
    on_stdout = collect,
    on_exit = vim.schedule_wrap(function(_, code)
      local found = parsed(table.concat(printed, '\n'))
      local what = code == 0 and 'did not print a readable report' or ('exited with code %d'):format(code)
      done(found, not found and '`drawbridge info` ' .. what or nil)
    end),
  })
  if not started or job <= 0 then
    return done(nil, ("%s can't be run"):format(program[1]))
  end
  pcall(vim.fn.chanclose, job, 'stdin')
  return job
end

--- Runs `drawbridge info` and waits for the result, at most `wait` milliseconds.
---@return drawbridge.Guards? found
---@return string? problem
function M.find(wait)
  local answer
  local job = M.ask(function(found, problem)
    answer = { found = found, problem = problem }
  end)
  if not vim.wait(wait, function()
    return answer ~= nil
  end, 20) then
    vim.fn.jobstop(job)
    return nil, ('`drawbridge info` did not answer within %d seconds'):format(wait / 1000)
  end
  return answer.found, answer.problem
end

--- The guard's state on one line, for the user.
---@param found drawbridge.Guards?
---@param problem string?
function M.line(found, problem)
  if not found then
    return ("can't be determined: %s"):format(problem)
  end
  local states = {}
  for _, guard in ipairs(found.guards) do
    local state = ('%s for %s'):format(STATES[guard.state] or guard.state, guard.title)
    if guard.state ~= 'absent' and not vim.tbl_contains(states, state) then
      states[#states + 1] = state
    end
  end
  if #states == 0 then
    return 'not installed: run drawbridge setup claude (or gemini, codex)'
  end
  local line = table.concat(states, ', ')
  if not found.finds_us then
    line = line .. "; it can't find this Neovim"
  end
  return (#found.problems > 0 or not found.finds_us) and ('%s (%s)'):format(line, MORE) or line
end

return M
