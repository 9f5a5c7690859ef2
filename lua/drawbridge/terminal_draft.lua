--- Whether the user is in the middle of typing something into a terminal. A view that opens then would receive the rest of
--- the text.
---
--- An agent's prompt box shows its unsent text. Once a dialog has replaced the box, typing is no longer possible, and
--- the text in the box stays until the dialog is answered. In other terminals, what was typed since the last Enter
--- counts.
local prompt_box = require('drawbridge.prompt_box')

local M = {}

local LOOK_AFTER = 100 -- ms from a key until the program has usually drawn it
local DRAWN_AFTER = 2000 -- ms from Enter until the program has drawn it on a busy machine

--- `sent`: what the box showed when Enter was pressed, and when that was, in ms. Nil once another key was pressed, the
--- box has shown something else, or DRAWN_AFTER has passed.
---@class drawbridge.Draft
---@field open boolean
---@field has_box boolean
---@field sent {text: string, at: number}?

local drafts = {} ---@type table<integer, drawbridge.Draft> By the terminal's buffer.
local timer

local function now()
  return (vim.uv or vim.loop).hrtime() / 1e6
end

local function draft_of(buffer)
  drafts[buffer] = drafts[buffer] or { open = false, has_box = false }
  return drafts[buffer]
end

local function state_of(buffer)
  local draft, state, text = draft_of(buffer), prompt_box.state(buffer)
  draft.has_box = draft.has_box or (state ~= nil and state ~= 'dialog')
  return draft, state, text
end

--- Updates the draft from the prompt box, if there is one.
local function look(buffer)
  if not vim.api.nvim_buf_is_valid(buffer) then
    drafts[buffer] = nil
    return
  end
  local draft, state, text = state_of(buffer)
  local sent = draft.sent
  if state == 'typed' and sent and vim.startswith(text, sent.text) and now() - sent.at < DRAWN_AFTER then
    return -- the screen does not show the effect of Enter yet, and perhaps not the last letters before it
  end
  draft.sent = nil
  if state == 'empty' or state == 'typed' or (state == 'dialog' and draft.has_box) then
    draft.open = state == 'typed'
  end
end

--- Called for each key that is typed in Terminal mode.
---@param buffer integer
---@param pressed string
function M.key(buffer, pressed)
  local draft, state, text = state_of(buffer)
  if (state == nil or state == 'dialog') and draft.has_box then
    return -- the key answers a dialog
  end
  local code = pressed:byte()
  draft.sent = nil
  if pressed == '\r' then
    draft.open, draft.sent = false, text and { text = text, at = now() } or nil
  elseif code and code >= 32 and code ~= 127 and code ~= 128 then
    draft.open = true
  end
  -- Other keys delete or restore text, and the box shows what is left.
  timer = timer or (vim.uv or vim.loop).new_timer()
  timer:start(
    LOOK_AFTER,
    LOOK_AFTER,
    vim.schedule_wrap(function()
      look(buffer)
      if not (drafts[buffer] and drafts[buffer].sent) then
        timer:stop()
      end
    end)
  )
end

--- Whether the terminal contains text that the user has not sent.
---@param buffer integer
---@return boolean
function M.is_open(buffer)
  look(buffer)
  return draft_of(buffer).open
end

--- Whether a dialog of the agent has replaced its prompt box, so that a key would answer the dialog.
---@param buffer integer
---@return boolean
function M.is_answering(buffer)
  return prompt_box.state(buffer) == 'dialog'
end

return M
