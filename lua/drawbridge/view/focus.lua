--- Decides when a window may open in front of the user. No window opens while they are typing.
local draft = require('drawbridge.terminal_draft')

local M = {}

local loop = vim.uv or vim.loop
local POLL = 50 -- ms between two checks while something waits
local CALM = { n = true, nt = true, t = true } -- normal mode, normal mode of a terminal, terminal mode

local last_key = 0
local namespace = vim.api.nvim_create_namespace('drawbridge_keys')
local waiting = {} ---@type {id: any, run: fun(), also?: fun(): boolean}[]
local timer

local function now()
  return loop.hrtime() / 1e6
end

--- Starts to record when keys are typed.
function M.watch()
  vim.on_key(function(pressed)
    last_key = now()
    if vim.api.nvim_get_mode().mode == 't' then
      pcall(draft.key, vim.api.nvim_get_current_buf(), pressed)
    end
  end, namespace)
end

function M.unwatch()
  vim.on_key(nil, namespace)
  waiting = {}
end

--- Whether the current window is a picker or a menu. The agent's terminal, which may float too, does not count.
local function in_float()
  return vim.api.nvim_win_get_config(0).relative ~= '' and vim.bo.buftype ~= 'terminal'
end

--- Whether the user is neither typing nor in the middle of something.
---@return boolean
function M.is_free()
  local mode = vim.api.nvim_get_mode()
  return CALM[mode.mode] == true
    and not mode.blocking
    and now() - last_key >= require('drawbridge.config').get().idle_ms
    and vim.fn.getcmdwintype() == ''
    and vim.fn.reg_recording() == ''
    and vim.fn.reg_executing() == ''
    and not in_float()
    and not (mode.mode == 't' and draft.is_open(vim.api.nvim_get_current_buf()))
end

local function next_one()
  for index, one in ipairs(waiting) do
    if not one.also or one.also() then
      return table.remove(waiting, index)
    end
  end
end

local function look()
  while M.is_free() do
    local one = next_one()
    if not one then
      break
    end
    one.run()
  end
  if not waiting[1] then
    timer:stop()
  end
end

--- Runs `run` as soon as the user is free, in the order of the calls, or immediately if they already are.
---@param id any The ID to pass to `forget`.
---@param run fun()
---@param also? fun(): boolean An additional condition.
function M.when_free(id, run, also)
  table.insert(waiting, { id = id, run = run, also = also })
  timer = timer or loop.new_timer()
  look()
  if not waiting[1] then
    return
  end
  timer:start(POLL, POLL, vim.schedule_wrap(look))
end

--- Cancels the call that waits under `id`.
function M.forget(id)
  waiting = vim.tbl_filter(function(one)
    return one.id ~= id
  end, waiting)
end

return M
