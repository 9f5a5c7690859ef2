--- Whether a write of a proposal is the user's decision. `:w`, `:x`, `ZZ` and keys mapped to them, in the proposal's
--- own window, are decisions, and so is a Yes when Neovim asks on closing whether to save. `:wa`, writes by an autosave
--- plugin, a timer or another program, and writes of unknown origin are not.
local M = {}

-- Each command's shortest form and its full one.
local COMMANDS = { w = 'write', up = 'update', x = 'xit', exi = 'exit', wq = 'wq' }
local QUITS = { q = 'quit', clo = 'close', tabc = 'tabclose', bd = 'bdelete', bw = 'bwipeout' }

local ASKED_AGAIN = 20 -- ms between two checks of whether a question was answered

local armed ---@type {buffer: integer, command: string, is_forced: boolean}?
local acting = false -- Whether a command or mapping of the user is running.
local before ---@type string? The key before the current one.
local namespace = vim.api.nvim_create_namespace('drawbridge_consent')
local COMMAND_KEY = vim.api.nvim_replace_termcodes('<Cmd>', true, true, true)
local LUA_KEY = '\128\253g' -- the key that a mapping to a Lua function sends
local group

local function among(commands, word)
  for short, long in pairs(commands) do
    if word and #word >= #short and long:sub(1, #word) == word then
      return long
    end
  end
end

--- The command in full if `line` is a plain write of the current buffer, or closes it and may ask whether to write it,
--- and whether it has a "!".
---@param line string
---@return string?, boolean?
local function command_of(line)
  local words, confirms = line:gsub('^[%s:]+', ''):gsub('^sil%a*!?%s+', ''):gsub('^conf%a*%s+', '')
  local word, bang = words:match('^(%a+)(!?)%s*$')
  if confirms == 0 and not vim.o.confirm then
    return among(COMMANDS, word), bang == '!'
  end
  -- With 'autowriteall', Neovim writes before it asks, so that write is not a Yes.
  local asks = bang == '' and not vim.o.autowriteall
  return among(COMMANDS, word) or (asks and among(QUITS, word) or nil), bang == '!'
end

local function arm(command, is_forced)
  local buffer = vim.api.nvim_get_current_buf()
  local consent = command and { buffer = buffer, command = command, is_forced = is_forced == true }
  armed, acting = consent, true
  -- Consent covers what the key does and the answer to a question that follows, but nothing the event loop does later.
  local function lapse()
    if vim.api.nvim_get_mode().mode:sub(1, 1) == 'r' then
      return vim.defer_fn(lapse, ASKED_AGAIN)
    end
    acting = false
    if consent and armed == consent then
      M.lapsed(consent)
      armed = nil
    end
  end
  vim.schedule(lapse)
end

--- The command of a `<Cmd>` mapping, if Neovim reports which keys were typed (0.10 and newer).
local function mapped_command(typed)
  if not typed or typed == '' then
    return nil
  end
  local mode = vim.api.nvim_get_mode().mode:sub(1, 1)
  local map = vim.fn.maparg(vim.fn.keytrans(typed), mode, false, true)
  return map.rhs and map.rhs:match('^<[Cc][Mm][Dd]>(.-)<[Cc][Rr]>')
end

local function key(pressed, typed)
  if pressed == COMMAND_KEY then
    arm(command_of(mapped_command(typed) or ''))
  elseif pressed == LUA_KEY then
    arm(nil)
  elseif pressed == 'Z' and before == 'Z' and vim.api.nvim_get_mode().mode == 'n' then
    arm('xit')
    pressed = nil
  elseif before == '\23' and (pressed == 'q' or pressed == 'c') and vim.api.nvim_get_mode().mode == 'n' then
    arm(command_of(pressed == 'q' and 'quit' or 'close'))
  end
  before = pressed
end

--- Starts watching the user's commands. `lapsed` is called with the consent of a command that wrote nothing.
---@param lapsed fun(consent: {buffer: integer, command: string})
function M.watch(lapsed)
  M.lapsed = lapsed
  vim.on_key(function(pressed, typed)
    pcall(key, pressed, typed)
  end, namespace)
  group = vim.api.nvim_create_augroup('drawbridge_consent', {})
  vim.api.nvim_create_autocmd('CmdlineLeave', {
    group = group,
    pattern = ':',
    callback = function()
      if vim.v.event.abort then
        arm(nil)
      else
        arm(command_of(vim.fn.getcmdline()))
      end
    end,
  })
end

function M.unwatch()
  vim.on_key(nil, namespace)
  pcall(vim.api.nvim_del_augroup_by_id, group)
end

--- Whether any command or mapping of the user is running.
function M.is_acting()
  return acting
end

--- Restores consent that has lapsed.
function M.renew(consent)
  armed = consent
end

--- Whether the current write comes from Neovim's own question and not from a plugin in the same command. Neovim 0.7 can't
--- tell them apart.
local function answers_a_question()
  return vim.startswith(vim.fn.expand('<stack>'), 'BufWriteCmd ')
end

--- Whether the user has just asked to write `buffer`, and whether with a "!". Returns true only once for each request.
---@param buffer integer
---@return boolean, boolean?
function M.given(buffer)
  local given, is_forced = armed ~= nil and armed.buffer == buffer, armed and armed.is_forced
  if given and vim.tbl_contains(vim.tbl_values(QUITS), armed.command) then
    given = answers_a_question()
  end
  if given then
    armed = nil
  end
  return given, is_forced
end

--- Whether the command that is running writes `buffer`, as `ZZ` does.
---@param buffer integer
---@return boolean
function M.writes(buffer)
  return armed ~= nil and armed.buffer == buffer and vim.tbl_contains(vim.tbl_values(COMMANDS), armed.command)
end

--- Whether the command that closes a window of `buffer` writes it, as `ZZ` does, and whether it has a "!". Closing
--- alone does not write.
---@param buffer integer
---@return boolean, boolean?
function M.wrote(buffer)
  if M.writes(buffer) then
    return M.given(buffer)
  end
  return false
end

return M
