--- Whether the person is in the middle of typing something into a terminal. A view that opens would get the rest of the text.
---
--- The prompt box of an agent shows it. While a dialog hides the box, and in other terminals, what was typed since the last
--- Enter counts.
local prompt_box = require('drawbridge.prompt_box')

local M = {}

local LOOK_AFTER = 100 -- ms from a key until the program has certainly drawn it

local drafts = {} ---@type table<integer, {open: boolean, has_box: boolean}> By the terminal's buffer.
local timer

local function draft_of(buffer)
  drafts[buffer] = drafts[buffer] or { open = false, has_box = false }
  return drafts[buffer]
end

--- Updates the draft from the prompt box, if there is one.
local function look(buffer)
  if not vim.api.nvim_buf_is_valid(buffer) then
    drafts[buffer] = nil
    return
  end
  local draft, state = draft_of(buffer), prompt_box.state(buffer)
  draft.has_box = draft.has_box or state ~= nil
  if state == 'empty' or state == 'typed' then
    draft.open = state == 'typed'
  end
end

--- A key was typed in Terminal mode.
---@param buffer integer
---@param pressed string
function M.key(buffer, pressed)
  local draft, state = draft_of(buffer), prompt_box.state(buffer)
  draft.has_box = draft.has_box or state ~= nil
  if state == nil and draft.has_box then
    return -- it answers a dialog
  end
  local code = pressed:byte()
  if pressed == '\r' then
    draft.open = false
  elseif code and code >= 32 and code ~= 127 and code ~= 128 then
    draft.open = true
  end
  -- Other keys delete or restore text: the box shows what is left.
  timer = timer or (vim.uv or vim.loop).new_timer()
  timer:start(
    LOOK_AFTER,
    0,
    vim.schedule_wrap(function()
      look(buffer)
    end)
  )
end

--- Whether the terminal contains text that the person has not sent.
---@param buffer integer
---@return boolean
function M.is_open(buffer)
  look(buffer)
  return draft_of(buffer).open
end

return M
