--- The permission mode in which Claude Code starts, according to the project's and the user's settings files.
local M = {}

--- Returns Claude Code's own directory.
---@return string
function M.directory()
  return vim.env.CLAUDE_CONFIG_DIR or vim.fn.expand('~/.claude')
end

--- Returns `permissions.defaultMode` from the settings file with the highest precedence that sets it, and the path of
--- that file, or nil if no file sets it.
---@param broken? fun(file: string) Called for each file that is read and is not a JSON object.
---@return string? mode
---@return string? file
function M.default_mode(broken)
  local project = vim.fn.getcwd(-1, -1) .. '/.claude/'
  local files = { project .. 'settings.local.json', project .. 'settings.json', M.directory() .. '/settings.json' }
  for _, file in ipairs(files) do
    if vim.fn.filereadable(file) == 1 then
      local read, settings = pcall(vim.json.decode, table.concat(vim.fn.readfile(file), '\n'))
      if not read or type(settings) ~= 'table' then
        if broken then
          broken(file)
        end
      elseif type(settings.permissions) == 'table' and type(settings.permissions.defaultMode) == 'string' then
        return settings.permissions.defaultMode, file
      end
    end
  end
end

return M
