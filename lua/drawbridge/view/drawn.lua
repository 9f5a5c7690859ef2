--- When the user can see what Neovim has drawn.
---
--- Neovim moves the cursor and scrolls long before it draws, and a mapping runs to its end before Neovim shows the result.
--- What is calculated from a window's position in the meantime has not been on the screen.
local M = {}

local NAMESPACE = vim.api.nvim_create_namespace('drawbridge_drawn')

local watching = {} ---@type table<any, fun()>
local is_due, is_drawing = false, false

local function run()
  is_due = false
  for _, callback in pairs(vim.deepcopy(watching)) do
    callback()
  end
end

--- Calls the functions of `watch` as soon as Neovim waits for the user.
function M.soon()
  if not is_due and next(watching) ~= nil then
    is_due = true
    vim.schedule(run)
  end
end

--- Calls `callback` each time that Neovim has drawn something and then waits for the user.
---@param key any
---@param callback fun()
function M.watch(key, callback)
  watching[key] = callback
  vim.api.nvim_set_decoration_provider(NAMESPACE, {
    on_end = function()
      if not is_drawing then
        M.soon()
      end
    end,
  })
end

---@param key any
function M.unwatch(key)
  watching[key] = nil
  if next(watching) == nil then
    vim.api.nvim_set_decoration_provider(NAMESPACE, {})
  end
end

--- Draws what has changed since Neovim last drew. Only call this while Neovim waits for the user.
---@return boolean is_drawn False while a question, messages or the command line may cover windows.
function M.draw()
  local mode = vim.api.nvim_get_mode()
  if mode.blocking or mode.mode:find('^[cr!]') or vim.fn.getcmdwintype() ~= '' then
    return false
  end
  is_drawing = true
  local ok = pcall(vim.cmd, 'redraw')
  is_drawing = false
  return ok
end

return M
