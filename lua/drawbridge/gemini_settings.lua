--- Whether Gemini CLI's own settings files let it connect to an editor.
local M = {}

-- Where Gemini CLI looks for system-wide defaults: on Linux and on macOS.
local SYSTEM_DEFAULTS = {
  '/etc/gemini-cli/system-defaults.json',
  '/Library/Application Support/GeminiCli/system-defaults.json',
}

--- The `ide` object of a settings file. Empty if the file or the object does not exist, and nil if the file can't be
--- read as JSON (the CLI accepts comments in it).
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

--- The `ide` object of the user's settings. Empty if the file or the object does not exist, and nil if the file can't
--- be read as JSON.
---@return {enabled: boolean?, hasSeenNudge: boolean?}?
function M.ide()
  return ide(M.file())
end

--- Whether a file with system-wide defaults for Gemini CLI exists, or the environment names one.
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

--- The path of a file that exists if the plugin must not ask again.
local function declined()
  return vim.fn.stdpath(vim.fn.has('nvim-0.8') == 1 and 'state' or 'data') .. '/drawbridge/gemini-declined'
end

--- Remembers that the user does not want to be asked again.
function M.decline()
  local file = declined()
  pcall(vim.fn.mkdir, vim.fn.fnamemodify(file, ':h'), 'p')
  pcall(vim.fn.writefile, {}, file)
end

--- Whether the user has not decided yet. If so, Gemini CLI would ask whether to connect, and after a Yes it would look
--- for an installer that does not exist for Neovim. False if the settings can't be read, or if there are system-wide
--- defaults.
---@return boolean
function M.is_undecided()
  local user = M.ide()
  local is_open = user ~= nil and user.enabled == nil and user.hasSeenNudge ~= true and not M.has_defaults()
  return is_open and vim.fn.filereadable(declined()) == 0
end

return M
