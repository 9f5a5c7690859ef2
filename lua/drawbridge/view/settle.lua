--- The first moment of a view. Keys typed now were meant for what was shown before, so they have no effect on the view.
local config = require('drawbridge.config')

local M = {}

local loop = vim.uv or vim.loop
local SETTLES = 500 -- ms without a key until a view accepts keys, or less if `idle_ms` is less
local LOOK = 20 -- ms between two checks for keys

local MOUSE = { 'Mouse', 'Scroll', 'Drag', 'Release', 'Focus' }

local function now()
  return loop.hrtime() / 1e6
end

--- A key in the form that `feedkeys` accepts, or nil for what the mouse or the terminal itself sends.
---@param key integer|string The return value of `getchar`.
local function typed(key)
  if type(key) == 'number' then
    return vim.fn.nr2char(key)
  end
  local name = vim.fn.exists('*keytrans') == 1 and vim.fn.keytrans(key) or ''
  for _, word in ipairs(MOUSE) do
    if name:find(word, 1, true) then
      return nil
    end
  end
  return key
end

--- Reads all keys that were typed.
---@return {key: string, special: boolean}[]
local function drain()
  local keys = {}
  while true do
    local key = vim.fn.getchar(0)
    if key == 0 or key == '' then
      return keys
    end
    local text = typed(key)
    if text then
      table.insert(keys, { key = text, special = type(key) == 'string' })
    end
  end
end

--- Waits until no key has been typed for a moment, but no longer than the view is open. Neovim keeps processing other
--- events.
---@param is_open fun(): boolean
---@param gives_back boolean Whether to return at the first key.
---@return {key: string, special: boolean}[] keys The keys that were typed.
function M.wait(is_open, gives_back)
  local quiet = math.min(config.get().idle_ms, SETTLES)
  local keys, last = {}, now()
  while is_open() and now() - last < quiet and not (gives_back and #keys > 0) do
    vim.cmd('redraw')
    local _, why = vim.wait(LOOK, function()
      return not is_open() or vim.fn.getchar(1) ~= 0
    end, LOOK)
    local come = drain()
    if why == -2 then
      table.insert(come, { key = '\3', special = false }) -- Ctrl-C
    end
    if #come > 0 then
      last = now()
      vim.list_extend(keys, come)
    end
  end
  return keys
end

--- Types keys where the user is now.
---@param keys {key: string, special: boolean}[]
function M.type(keys)
  for _, one in ipairs(keys) do
    -- A string that `getchar` returns is already escaped.
    vim.api.nvim_feedkeys(one.key, 'mt', not one.special)
  end
end

return M
