--- The options of `require('drawbridge').setup{}`: one table with each option, its default and its type.
local M = {}

---@class drawbridge.Kind
---@field expects string Completes "must be ...".
---@field fits fun(value: any): boolean

local function is_text(value)
  return type(value) == 'string' and value ~= ''
end

local function is_list_of_texts(value)
  if type(value) ~= 'table' or #value == 0 then
    return false
  end
  local count = 0
  for _, item in pairs(value) do
    count = count + 1
    if not is_text(item) then
      return false
    end
  end
  return count == #value
end

---@return drawbridge.Kind
local function whole(low, high)
  return {
    expects = ('a whole number from %d to %d'):format(low, high),
    fits = function(value)
      return type(value) == 'number' and value % 1 == 0 and value >= low and value <= high
    end,
  }
end

---@return drawbridge.Kind
local function one_of(...)
  local choices = { ... }
  return {
    expects = "'" .. table.concat(choices, "', '", 1, #choices - 1) .. "' or '" .. choices[#choices] .. "'",
    fits = function(value)
      return vim.tbl_contains(choices, value)
    end,
  }
end

---@return drawbridge.Kind
local function some_of(...)
  local one = one_of(...)
  return {
    expects = one.expects .. ', or a non-empty list of them',
    fits = function(value)
      if not is_list_of_texts(value) then
        return one.fits(value)
      end
      return #vim.tbl_filter(one.fits, value) == #value
    end,
  }
end

local boolean = {
  expects = 'true or false',
  fits = function(value)
    return type(value) == 'boolean'
  end,
}
local text = { expects = 'a non-empty string', fits = is_text }
local texts = {
  expects = 'a non-empty string, or a non-empty list of them',
  fits = function(value)
    return is_text(value) or is_list_of_texts(value)
  end,
}
local size = {
  expects = 'a fraction between 0 and 1, or a whole number of columns or lines up to 1000',
  fits = function(value)
    return type(value) == 'number' and value > 0 and (value < 1 or (value % 1 == 0 and value <= 1000))
  end,
}
local level = one_of('debug', 'info', 'warn', 'error')

-- name, kind, default. `command` and the options in `server` have no default here. If a `server` option is not set, the
-- bridge's own settings file applies.
local OPTIONS = {
  { 'auto_start', boolean, true },
  { 'debounce_ms', whole(0, 10000), 50 },
  { 'idle_ms', whole(0, 60000), 500 },
  { 'allow_w_to_accept', boolean, true },
  { 'log_level', level, 'warn' },
  { 'command', texts },
  { 'terminal.command', texts, 'claude' },
  { 'terminal.position', one_of('right', 'left', 'bottom', 'top', 'tab', 'float'), 'right' },
  { 'terminal.size', size, 0.4 },
  { 'terminal.auto_insert', boolean, true },
  { 'terminal.auto_close', boolean, true },
  { 'gemini.command', texts, 'gemini' },
  { 'gemini.aliases', boolean, true },
  { 'diff.layout', one_of('vertical', 'horizontal', 'inline'), 'vertical' },
  { 'diff.open_in', one_of('tab', 'current'), 'tab' },
  { 'server.port', whole(1, 65535) },
  { 'server.workspace', texts },
  { 'server.agent', some_of('claude', 'gemini') },
  { 'server.host', texts },
  { 'server.single_client', boolean },
  { 'server.mention', one_of('recent', 'all') },
  { 'server.reject', one_of('upgrade', '1008') },
  { 'server.log_level', level },
  { 'server.log_file', text },
  { 'server.execute_code', boolean },
  { 'server.context', boolean },
  { 'server.ignore', texts },
}

local kinds, groups = {}, {}
for _, option in ipairs(OPTIONS) do
  kinds[option[1]] = option[2]
  local group = option[1]:match('^(.-)%.')
  if group then
    groups[group] = true
  end
end

local function put(options, name, value)
  local group, key = name:match('^(.-)%.(.+)$')
  if group then
    options[group][key] = value
  else
    options[name] = value
  end
end

local function defaults()
  local options = {}
  for group in pairs(groups) do
    options[group] = {}
  end
  for _, option in ipairs(OPTIONS) do
    put(options, option[1], option[3])
  end
  return options
end

--- The minimum number of letters to change, add, remove or swap with their neighbors to turn `a` into `b`.
local function distance(a, b)
  local rows = { [0] = {} }
  for j = 0, #b do
    rows[0][j] = j
  end
  for i = 1, #a do
    rows[i] = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      rows[i][j] = math.min(rows[i - 1][j - 1] + (same and 0 or 1), rows[i - 1][j] + 1, rows[i][j - 1] + 1)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        rows[i][j] = math.min(rows[i][j], rows[i - 2][j - 2] + 1)
      end
    end
  end
  return rows[#a][#b]
end

--- The option or table that an unknown name probably means: one that is misspelled, or in the wrong table. nil if no name
--- is similar.
---@param name string Dotted, as in "diff.layuot".
---@return string?
local function meant(name)
  local key = name:match('[^.]+$')
  local best, least = nil, math.max(1, math.floor(#key / 2.5)) + 1
  local function consider(known, far)
    if far < least then
      best, least = known, far
    end
  end
  for group in pairs(groups) do
    consider(group, distance(name, group))
  end
  for _, option in ipairs(OPTIONS) do
    consider(option[1], distance(name, option[1]))
    -- Counts as half a step farther, so that options of the table that was named take precedence.
    consider(option[1], distance(key, option[1]:match('[^.]+$')) + 0.5)
  end
  return best
end

local function shown(value)
  local line = vim.inspect(value):gsub('%s+', ' ')
  return #line > 30 and line:sub(1, 27) .. '...' or line
end

local function check(given, group, accepted, problems)
  local keys = vim.tbl_keys(given)
  table.sort(keys, function(a, b)
    return tostring(a) < tostring(b)
  end)
  for _, key in ipairs(keys) do
    local value = given[key]
    local name = group .. tostring(key)
    local kind = kinds[name]
    if group == '' and groups[key] then
      if type(value) == 'table' then
        check(value, key .. '.', accepted, problems)
      else
        problems[#problems + 1] = ('%s must be a table, not %s'):format(name, shown(value))
      end
    elseif not kind then
      local guess = meant(name)
      problems[#problems + 1] = ('%s is unknown%s'):format(name, guess and ('; did you mean %s?'):format(guess) or '')
    elseif not kind.fits(value) then
      problems[#problems + 1] = ('%s must be %s, not %s'):format(name, kind.expects, shown(value))
    else
      put(accepted, name, value)
    end
  end
end

local current = defaults()

--- The current options, which are the defaults until `setup{}` is called. The caller must not change them.
function M.get()
  return current
end

--- The dotted names of all options, in the order of `:help drawbridge-options`.
---@return string[]
function M.names()
  return vim.tbl_map(function(option)
    return option[1]
  end, OPTIONS)
end

--- Applies `given` over the defaults, completely or not at all.
---@param given table?
---@return string[] problems Empty if the options were applied; otherwise the previous options are kept.
function M.apply(given)
  if given ~= nil and type(given) ~= 'table' then
    return { 'the argument must be a table, not ' .. shown(given) }
  end
  local accepted, problems = defaults(), {}
  check(given or {}, '', accepted, problems)
  if #problems == 0 then
    current = accepted
  end
  return problems
end

--- A string or a list of strings as a list, which is empty for nil. A string is one word, spaces included.
---@param value string|string[]?
---@return string[]
function M.list(value)
  if value == nil then
    return {}
  end
  return type(value) == 'table' and vim.deepcopy(value) or { value }
end

--- A command as a list of words. A `~` at its start is the home directory.
---@param value string|string[]
---@return string[]
function M.words(value)
  local words = M.list(value)
  words[1] = words[1]:sub(1, 1) == '~' and vim.fn.expand(words[1]) or words[1]
  return words
end

return M
