--- Whether Gemini CLI's own settings files let it connect to an editor.
local M = {}

-- Where Gemini CLI looks for machine-wide defaults: on Linux and on macOS.
local SYSTEM_DEFAULTS = {
  '/etc/gemini-cli/system-defaults.json',
  '/Library/Application Support/GeminiCli/system-defaults.json',
}

--- The `ide` object of a settings file; empty if the file does not exist, nil if it can't be read as JSON (the CLI accepts
--- comments in it).
local function ide(file)
  if vim.fn.filereadable(file) == 0 then
    return {}
  end
  local read, settings = pcall(vim.json.decode, table.concat(vim.fn.readfile(file), '\n'))
  if not read or type(settings) ~= 'table' then
    return nil
  end
  return type(settings.ide) == 'table' and settings.ide or {}
end

--- The user's settings file.
---@return string
function M.file()
  return (vim.env.GEMINI_CLI_HOME or vim.fn.expand('~')) .. '/.gemini/settings.json'
end

--- The `ide` object of the user's settings; empty if the file does not exist, nil if it can't be read as JSON.
---@return {enabled: boolean?, hasSeenNudge: boolean?}?
function M.ide()
  return ide(M.file())
end

--- Whether this machine has its own defaults for Gemini CLI.
---@return boolean
function M.has_defaults()
  if (vim.env.GEMINI_CLI_SYSTEM_DEFAULTS_PATH or '') ~= '' then
    return true
  end
  for _, file in ipairs(SYSTEM_DEFAULTS) do
    if vim.loop.fs_stat(file) then
      return true
    end
  end
  return false
end

--- Whether the user has not decided yet: Gemini CLI would ask whether to connect, and after a Yes it would look for an
--- installer that does not exist for Neovim.
---@return boolean
function M.is_undecided()
  local user = M.ide()
  return user ~= nil and user.enabled == nil and user.hasSeenNudge ~= true and not M.has_defaults()
end

return M
