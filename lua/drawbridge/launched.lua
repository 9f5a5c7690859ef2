--- The first thing that runs in a Neovim started by `drawbridge nvim`, before the user's configuration (`--cmd`).

local PLUGIN = 'lua/drawbridge/init.lua'

--- Whether lazy.nvim manages the plugin, whose folder is not on the runtime path until the plugin is used.
local function lazy_has_it()
  local lazy = package.loaded.lazy
  local ok, plugins = pcall(function()
    return lazy.plugins()
  end)
  for _, plugin in ipairs(ok and plugins or {}) do
    if plugin.dir and vim.loop.fs_stat(plugin.dir .. '/' .. PLUGIN) then
      return true
    end
  end
  return false
end

--- Whether the user's own setup has the plugin, loaded or not. This looks for files and does not call `require`, which
--- would run a `drawbridge.lua` in the current directory, because that directory is on Lua's path.
local function is_there()
  return vim.g.loaded_drawbridge ~= nil
    or #vim.api.nvim_get_runtime_file(PLUGIN, false) > 0
    or vim.fn.globpath(vim.o.packpath, 'pack/*/opt/*/' .. PLUGIN) ~= ''
    or lazy_has_it()
end

--- Adds the bundled copy of the plugin and, if Neovim has a UI, sets it up. If the user's own setup has the plugin,
--- that copy takes precedence, and nothing is changed.
---@param runtime string The folder of the bundled copy.
---@param python string The interpreter of the Python side, so that the plugin and the bridge have the same version.
local function join(runtime, python)
  if is_there() then
    return
  end
  vim.o.runtimepath = vim.o.runtimepath .. ',' .. vim.fn.escape(runtime, '\\,')
  vim.cmd('runtime plugin/drawbridge.lua')
  if #vim.api.nvim_list_uis() > 0 then -- without a UI, as in a script, nobody can decide
    require('drawbridge').setup({ command = { python, '-P', '-m', 'drawbridge' } })
  end
end

---@param socket string The path of the socket that Neovim listens on, unless the user has chosen another address.
---@param runtime string
---@param python string
return function(socket, runtime, python)
  vim.loop.fs_chmod(socket, 384) -- 0600, whatever the umask is
  if vim.o.loadplugins then
    -- Plugin managers rewrite the runtime path while they start, so it can be checked only after that.
    vim.api.nvim_create_autocmd('VimEnter', {
      once = true,
      callback = function()
        join(runtime, python)
      end,
    })
  end
end
