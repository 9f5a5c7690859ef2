--- `:GeminiStatus`, `:GeminiRestart` and `:GeminiStop`: other names for Drawbridge commands, unless another plugin uses them.
local M = {}

local NAMES = { 'Status', 'Restart', 'Stop' }

--- Creates or deletes the aliases. A command of the same name that the user or another plugin has defined is not touched.
---@param wanted boolean
function M.set(wanted)
  local commands = vim.api.nvim_get_commands({})
  for _, name in ipairs(NAMES) do
    local alias, ours = 'Gemini' .. name, 'Drawbridge' .. name
    local found = commands[alias]
    if wanted and not found then
      vim.api.nvim_create_user_command(alias, ours, {})
    elseif found and found.definition == ours and not wanted then
      vim.api.nvim_del_user_command(alias)
    end
  end
end

return M
