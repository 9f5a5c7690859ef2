--- Proposals: which are waiting, which are shown, and the user's decision on each.
local bar = require('drawbridge.view.bar')
local buffers = require('drawbridge.buffers')
local consent = require('drawbridge.view.consent')
local draft = require('drawbridge.terminal_draft')
local focus = require('drawbridge.view.focus')
local link = require('drawbridge.link')
local notice = require('drawbridge.view.notice')
local seen = require('drawbridge.view.seen')
local settling = require('drawbridge.view.settle')
local text = require('drawbridge.view.text')
local view = require('drawbridge.view')
local written = require('drawbridge.buffers.written')

local M = {}

---@class drawbridge.Entry
---@field id string
---@field agent string
---@field title string
---@field path string Empty for code.
---@field name string The path for display, as `buffers.shown_path` returns it; "code" for code.
---@field is_new boolean Whether the file does not exist yet.
---@field kind 'change'|'code'
---@field note string?
---@field changes string[] What changes besides the lines.
---@field added integer
---@field removed integer
---@field first integer The first changed line of the proposed text, from 0.
---@field rows integer[] The changed rows: see `_changed` in `editors/neovim/reviews.py`.
---@field unseen drawbridge.Unseen? What the user has not seen yet; nil until the text is complete.
---@field dos boolean
---@field bom boolean
---@field final_newline boolean
---@field proposed integer The buffer of the proposed text.
---@field old integer? The buffer of the current text, for diff mode.
---@field inline boolean
---@field target drawbridge.Target?
---@field filled integer? The changedtick of the proposed text when it arrived.
---@field windows {proposed: integer, old: integer?}? Only while it is shown.
---@field tab integer? Its own tab page.
---@field stacked boolean? Whether its sides are one above the other because there is no room to show them side by side.
---@field screen {[1]: integer, [2]: integer}? The columns and lines of the editor when its sides were last sized.
---@field borrowed boolean? Whether the window of the current text belongs to the user and stays open.
---@field old_options table? That window's options before diff mode.
---@field place table? Where the cursor and focus were before.
---@field group integer? Autocommands of the view.
---@field decided boolean?
---@field accepted string? The accepted text, if its file is open.
---@field sent_back boolean? Whether the running command has tried to accept it before all of it was on the screen.
---@field told boolean? Whether the user was notified that a save by a plugin does not accept the proposal.
---@field had_focus boolean? Whether the view had the focus when the user decided.
---@field announced boolean? Whether "DrawbridgeDiffOpened" was fired.
---@field settling boolean? Whether it has just been opened and still ignores keys.
---@field reported boolean? Whether edits of the proposed text are reported.

local entries = {} ---@type drawbridge.Entry[] Oldest first.
local waiting_notice
local watching ---@type integer? Autocommands while there are entries.
local lapsed

local function say(words)
  require('drawbridge.message').answer('drawbridge: ' .. words, 'warn')
end

local function find(id)
  for index, entry in ipairs(entries) do
    if entry.id == id then
      return entry, index
    end
  end
end

--- The proposal whose view contains the current window.
local function under_cursor()
  local window = vim.api.nvim_get_current_win()
  for _, entry in ipairs(entries) do
    if entry.windows and (entry.windows.proposed == window or entry.windows.old == window) then
      return entry
    end
  end
end

local function shown_or_newest()
  local newest
  for _, entry in ipairs(entries) do
    if entry.windows or not (newest and newest.windows) then
      newest = entry
    end
  end
  return under_cursor() or newest
end

local function size(entry)
  return ('(+%d −%d)'):format(entry.added, entry.removed)
end

--- Updates the small window that shows what is waiting.
local function update_notice()
  notice.hide(waiting_notice)
  waiting_notice = nil
  local waiting = vim.tbl_filter(function(entry)
    return entry.filled and not entry.windows and not entry.decided
  end, entries)
  local first = waiting[1]
  if not first then
    return
  end
  local what = first.kind == 'code' and 'wants to run code'
    or ('proposes %s %s %s'):format(first.is_new and 'the new file' or 'a change to', first.name, size(first))
  local more = #waiting > 1 and (' · %d more waiting'):format(#waiting - 1) or ''
  local how = vim.api.nvim_get_mode().mode == 't' and 'Ctrl-\\ Ctrl-N opens it' or ':DrawbridgeReview opens it'
  waiting_notice = notice.show({ ('%s %s%s'):format(first.agent, what, more), how })
end

local function event_data(entry, decision)
  return { id = entry.id, agent = entry.agent, title = entry.title, path = entry.path, decision = decision }
end

local function watch()
  if not watching then
    watching = vim.api.nvim_create_augroup('drawbridge_review', {})
    -- A floating window stays on its tab page, so the notice has to be shown on the new one.
    vim.api.nvim_create_autocmd({ 'TabEnter', 'TermEnter', 'TermLeave' }, {
      group = watching,
      callback = vim.schedule_wrap(update_notice),
    })
    consent.watch(lapsed)
  end
end

local function unwatch_if_idle()
  if #entries == 0 and watching then
    vim.api.nvim_del_augroup_by_id(watching)
    watching = nil
    consent.unwatch()
  end
end

--- Removes the proposal with its windows and buffers. If its view has the focus, the focus returns to where it was
--- before.
local function remove(entry, decision)
  local _, index = find(entry.id)
  if not index then
    return
  end
  entry.decided = true
  table.remove(entries, index)
  focus.forget(entry.id)
  written.remember(entry.id, entry.target, entry.accepted)
  local was_shown = entry.windows ~= nil
  view.close(entry)
  update_notice()
  unwatch_if_idle()
  if was_shown then
    link.fire('DrawbridgeDiffClosed', event_data(entry, decision))
  end
end

local function decide(entry, accepted)
  if entry.decided then
    return
  end
  entry.decided = true
  entry.had_focus = entry.windows ~= nil and view.is_inside(entry)
  local answer = { id = entry.id, accepted = accepted }
  if vim.api.nvim_buf_is_valid(entry.proposed) then
    answer = vim.tbl_extend('error', answer, accepted and text.changed(entry) or {})
    entry.accepted = accepted and entry.target and text.content(entry) or nil
    vim.bo[entry.proposed].modified = false
  end
  -- Windows can't be closed while Neovim writes a buffer or closes another window.
  vim.schedule(function()
    remove(entry, accepted and 'accepted' or 'rejected')
    link.send('decided', answer)
  end)
end

local function writing_accepts()
  return require('drawbridge.config').get().allow_w_to_accept
end

local show, wait_for_turn

--- Goes to the first line that has not been on the screen. No notice may cover it, because the user would have to wait.
local function read_on(entry)
  notice.make_way(entry.windows)
  seen.to_first(entry)
end

--- Whether changed lines have not been on the screen yet. If so, the cursor moves to the first of them, and `report`
--- receives a sentence that names the command that accepts the proposal anyway (`how`).
local function sends_back(entry, how, report)
  local count = seen.count(entry)
  if count == 0 then
    return false
  end
  report(('%d changed line%s not shown yet: read on, or use %s'):format(count, count == 1 and '' or 's', how))
  entry.sent_back = true
  vim.schedule(function()
    entry.sent_back = nil
    if view.is_readable(entry) and not entry.decided and seen.count(entry) > 0 then
      read_on(entry)
    end
  end)
  return true
end

--- Keeps the text of a proposal that `:x` is about to close before all of it was on the screen.
local function keep_text(entry)
  if seen.count(entry) == 0 or not (entry.sent_back or consent.writes(entry.proposed)) then
    return
  end
  vim.bo[entry.proposed].bufhidden = 'hide'
  vim.schedule(function()
    if vim.api.nvim_buf_is_valid(entry.proposed) then
      vim.bo[entry.proposed].bufhidden = 'wipe'
    end
  end)
end

--- Shows the proposal again after `:x` has closed its window.
local function show_again(entry)
  -- Windows can't be closed while Neovim closes another one.
  vim.schedule(function()
    if not entry.decided and entry.windows then
      view.hide(entry)
      show(entry)
      if seen.count(entry) > 0 then
        read_on(entry)
      end
    end
  end)
end

--- Decides after a window or the buffer of the view was closed. With `ZZ` the user may have meant to accept.
local function closed(entry, window)
  if entry.decided then
    return
  end
  local is_readable = view.is_readable(entry)
  local wrote, is_forced = consent.wrote(entry.proposed)
  local meant = wrote and writing_accepts()
  local is_kept = vim.api.nvim_buf_is_valid(entry.proposed) and vim.bo[entry.proposed].bufhidden == 'hide'
  local is_unread = entry.sent_back or (meant and is_readable and not is_forced and sends_back(entry, ':w!', say))
  if is_kept and is_unread then
    return show_again(entry)
  end
  local accepted = meant and is_readable and not is_unread
  -- A user who closes another of the view's windows may not have meant to answer.
  local aside = window ~= nil and not (window == entry.windows.proposed and window == vim.api.nvim_get_current_win())
  decide(entry, accepted)
  if not accepted then
    local was_hidden = meant and not is_readable
    local why = aside and '; one of its windows was closed'
      or was_hidden and '; its window was too small to show it'
      or ''
    require('drawbridge.message').report(('rejected: %s%s'):format(entry.name, why), 'info', aside)
  end
end

local function written_by_command(entry)
  local given, is_forced = consent.given(entry.proposed)
  if not given then
    -- An autosave plugin writes after each change, and one message is enough.
    if consent.is_acting() or not entry.told then
      entry.told = true
      local how = writing_accepts() and ":w in the proposal's window, or " or ''
      say(('not accepted: use %s:DrawbridgeAccept'):format(how))
    end
  elseif not view.is_readable(entry) then
    say("not accepted: the proposal's window is too small to show it")
  elseif not writing_accepts() then
    say('allow_w_to_accept is false: use :DrawbridgeAccept')
  elseif is_forced or not sends_back(entry, ':w!', say) then
    decide(entry, true)
  end
end

--- Keys that were typed while the view opened do not decide. Keys for a terminal are passed to it, and others are
--- dropped. Keys for a dialog of the agent are dropped, too, because Enter would accept something that the user has not
--- seen.
local function settle(entry)
  local place = entry.place
  local function is_for_prompt() -- the dialog may appear during the wait for the first keys
    local is_there = place.in_terminal and vim.api.nvim_win_is_valid(place.window)
    return is_there and not draft.is_answering(vim.api.nvim_win_get_buf(place.window))
  end
  local from_terminal = is_for_prompt()
  local keys = settling.wait(function()
    return entry.windows ~= nil and not entry.decided
  end, from_terminal)
  entry.settling = nil
  seen.look(entry)
  if #keys == 0 then
    return
  elseif not from_terminal or not is_for_prompt() then
    return say('keys typed while the proposal was opening were ignored')
  end
  local terminal = entry.place.window
  if entry.windows and not entry.decided then
    view.hide(entry)
    wait_for_turn(entry)
  end
  if vim.api.nvim_get_current_win() == terminal and vim.bo.buftype == 'terminal' then
    settling.type(keys)
  end
end

function show(entry)
  entry.group = vim.api.nvim_create_augroup('drawbridge_view_' .. entry.id, {})
  local problem = view.open(entry, closed)
  if problem then
    local reason = tostring(problem):gsub('^.-Vim', 'Vim')
    say('the proposal could not be shown: ' .. reason) -- the notice names the command that tries again
    return update_notice()
  end
  vim.api.nvim_create_autocmd({ 'BufWriteCmd', 'FileWriteCmd', 'FileAppendCmd' }, {
    group = entry.group,
    pattern = buffers.pattern(vim.api.nvim_buf_get_name(entry.proposed)),
    callback = function(args)
      if args.buf == entry.proposed then
        written_by_command(entry)
      end
    end,
  })
  vim.api.nvim_create_autocmd('QuitPre', {
    group = entry.group,
    buffer = entry.proposed,
    callback = function()
      keep_text(entry)
    end,
  })
  update_notice()
  entry.settling = true
  vim.schedule(function()
    settle(entry)
  end)
  if not entry.announced then
    entry.announced = true
    link.fire('DrawbridgeDiffOpened', event_data(entry))
  end
end

--- Shows the proposal as soon as the user is free, and not in the view of another proposal.
function wait_for_turn(entry)
  focus.when_free(entry.id, function()
    show(entry)
  end, function()
    return not under_cursor()
  end)
  update_notice()
end

--- `:update` writes nothing if nothing was changed, but it is still the user's decision.
function lapsed(given)
  for _, entry in ipairs(entries) do
    if entry.proposed == given.buffer and given.command == 'update' and not vim.bo[entry.proposed].modified then
      consent.renew(given)
      written_by_command(entry)
    end
  end
end

--- Rejects a proposal when one of its buffers is deleted, because it can't be shown again. While it is shown, `closed`
--- does that for the proposed text.
local function watch_buffers(entry)
  for _, buffer in ipairs({ entry.proposed, entry.old }) do
    vim.api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
      group = watching,
      buffer = buffer,
      callback = function()
        if entry.decided or (entry.windows and buffer == entry.proposed) then
          return
        end
        focus.forget(entry.id)
        decide(entry, false)
        local words = ('rejected: %s; its buffer was deleted'):format(entry.name)
        require('drawbridge.message').report(words, 'info', false)
      end,
    })
  end
end

--- Registers a proposal. Returns its buffers. The bridge fills in the text, and then calls `ready`.
---@return {proposed: integer, old: integer?, inline: boolean}
function M.propose(params)
  M.withdraw({ id = params.id })
  bar.define_highlights()
  watch()
  local entry = params
  entry.name = params.kind == 'code' and 'code' or buffers.shown_path(params.path)
  entry.is_new = params.kind ~= 'code' and (vim.uv or vim.loop).fs_stat(params.path) == nil
  entry.changes = params.changes or {}
  entry.inline = not params.diff or params.kind == 'code' or require('drawbridge.config').get().diff.layout == 'inline'
  entry.target = written.target(params.path)
  text.create(entry)
  watch_buffers(entry)
  table.insert(entries, entry)
  return { proposed = entry.proposed, old = entry.old, inline = entry.inline }
end

--- Shows the proposal as soon as the user is free. Called once the text is complete.
function M.ready(params)
  local entry = find(params.id)
  if not entry then
    return
  end
  text.finish(entry)
  seen.start(entry)
  wait_for_turn(entry)
end

--- The proposed text with the user's edits so far. Only the ID if the user has not edited it, and nil if the proposal
--- is not waiting for a decision.
function M.proposed(params)
  local entry = find(params.id)
  if entry and entry.filled and not entry.decided then
    return vim.tbl_extend('error', { id = entry.id }, text.changed(entry) or {})
  end
end

--- Withdraws a proposal without a decision. Unknown IDs are ignored.
function M.withdraw(params)
  local entry = find(params.id)
  if entry then
    remove(entry, 'withdrawn')
  end
end

--- Marks hunks in the inline view. Ignored if the text has changed since the bridge read it.
function M.mark(params)
  local entry = find(params.id)
  if entry and (not params.tick or params.tick == vim.api.nvim_buf_get_changedtick(entry.proposed)) then
    view.mark(entry, params.hunks, params.clear)
  end
end

--- Stores the changed rows and the numbers of added and removed lines after an edit of the proposed text. Ignored if the
--- text has changed again.
function M.count(params)
  local entry = find(params.id)
  if entry and params.tick == vim.api.nvim_buf_get_changedtick(entry.proposed) then
    entry.added, entry.removed = params.added, params.removed
    seen.update(entry, params.rows)
    if entry.windows and entry.added + entry.removed == 0 then
      view.unfold(entry)
    end
    vim.cmd('redrawstatus!')
  end
end

--- Replaces lines of the proposed text if it has not changed since the bridge read it.
function M.put_back(params)
  local entry = find(params.id)
  if entry and params.tick == vim.api.nvim_buf_get_changedtick(entry.proposed) then
    text.replace(entry, params.first, params.last, params.lines)
  end
end

local function answer(words)
  require('drawbridge.message').answer(words, 'warn')
end

--- Accepts the proposal under the cursor, otherwise the newest one that is shown. If none is shown, opens the one that
--- has waited longest.
---@param is_forced? boolean Whether to accept it even if changed lines have not been on the screen.
---@return boolean accepted
function M.accept(is_forced)
  local entry = shown_or_newest()
  if not entry then
    answer(':DrawbridgeAccept: no proposal is waiting')
  elseif not entry.windows then
    M.open(':DrawbridgeAccept')
  elseif not view.is_readable(entry) then
    answer(":DrawbridgeAccept: the proposal's window is too small to show it")
  elseif is_forced or not sends_back(entry, ':DrawbridgeAccept!', answer) then
    decide(entry, true)
    return true
  end
  return false
end

--- Rejects the proposal under the cursor, otherwise the newest one that is shown.
---@return boolean rejected
function M.reject()
  local entry = shown_or_newest()
  if not entry then
    answer(':DrawbridgeReject: no proposal is waiting')
  elseif not entry.windows then
    answer(':DrawbridgeReject: no proposal is shown; open one with :DrawbridgeReview')
  else
    decide(entry, false)
    return true
  end
  return false
end

--- Asks the bridge to revert the hunk under the cursor to the current text.
---@return boolean asked
function M.reject_hunk()
  local entry = under_cursor()
  if not entry or entry.kind == 'code' then
    local why = entry and 'code has no hunks; edit it instead' or 'the cursor is not in a proposal'
    answer(':DrawbridgeRejectHunk: ' .. why)
    return false
  end
  local side = vim.api.nvim_get_current_win() == entry.windows.old and 'old' or 'new'
  link.send('put_back', { id = entry.id, line = vim.api.nvim_win_get_cursor(0)[1] - 1, side = side })
  return true
end

--- Opens the proposal that has waited longest, otherwise goes to one that is shown.
---@param command? string The command that the user has typed (default: `:DrawbridgeReview`).
---@return boolean opened
function M.open(command)
  for _, entry in ipairs(entries) do
    if entry.filled and not entry.windows and not entry.decided then
      focus.forget(entry.id)
      show(entry)
      return true
    end
  end
  local entry = shown_or_newest()
  if not entry or not entry.windows then
    answer((command or ':DrawbridgeReview') .. ': no proposal is waiting')
    return false
  end
  vim.api.nvim_set_current_win(entry.windows.proposed)
  return true
end

--- All undecided proposals, oldest first.
---@return {id: string, title: string, path: string, added: integer, removed: integer, shown: boolean, settling: boolean}[]
function M.pending()
  local list = {}
  for _, entry in ipairs(entries) do
    if not entry.decided then
      table.insert(list, {
        id = entry.id,
        title = entry.title,
        path = entry.path,
        added = entry.added,
        removed = entry.removed,
        shown = entry.windows ~= nil and not entry.settling,
        settling = entry.settling == true,
      })
    end
  end
  return list
end

--- Withdraws all proposals, shown or not, and forgets the buffers of earlier ones.
function M.close_all()
  for index = #entries, 1, -1 do
    remove(entries[index], 'withdrawn')
  end
  written.forget_all()
end

return M
