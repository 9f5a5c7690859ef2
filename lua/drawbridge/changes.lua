--- Shows the undecided changes of runs as a quickfix list and in the files' buffers, and sends the user's decisions.
---
--- The server stores the review. The bridge sends it here whenever it changes, and passes decisions to the server.
--- If no server has a review, the bridge sends the changes of the proposals that were accepted here.
local buffers = require('drawbridge.buffers')
local link = require('drawbridge.link')
local marks = require('drawbridge.changes.marks')
local seen = require('drawbridge.changes.seen')
local written = require('drawbridge.buffers.written')

local M = {}

local LIST_LINES = 10 -- the maximum height of the quickfix window

---@class drawbridge.ReviewedFile See `ReviewedFile` in the bridge.
---@field path string
---@field name string
---@field shown string
---@field hunks drawbridge.Hunk[]
---@field has_lines boolean
---@field was_deleted boolean
---@field text string

---@class drawbridge.Comment See `ReviewedComment` in the bridge.
---@field id string
---@field path string
---@field shown string
---@field first integer
---@field last integer
---@field has_place boolean
---@field text string
---@field is_draft boolean
---@field is_waiting boolean
---@field is_resolved boolean

---@class drawbridge.Review
---@field version string
---@field title string
---@field files drawbridge.ReviewedFile[]
---@field comments drawbridge.Comment[]
---@field drafts string
---@field only_new boolean
---@field more integer

local review ---@type drawbridge.Review?
local by_path = {} ---@type table<string, drawbridge.ReviewedFile>
local list ---@type integer? The id of the quickfix list.
---@type {file?: drawbridge.ReviewedFile, hunk?: drawbridge.Hunk, comment?: drawbridge.Comment}[] By line of that list.
local listed = {}
local group ---@type integer?

local function say(command, text, level)
  require('drawbridge.message').answer(('%s: %s'):format(command, text), level or 'warn')
end

--- Reports that a command needs the bridge.
local function say_missing(command)
  say(command, require('drawbridge.server').missing())
end

local function file_of(buffer)
  return buffers.is_file(buffer) and by_path[buffers.canonical(vim.api.nvim_buf_get_name(buffer))] or nil
end

--- Whether a change is shown. Changes that are not new may be hidden, but never a file without hunks, because nothing
--- shows which of its changes are new.
---@param hunk? drawbridge.Hunk
local function is_shown(hunk)
  return not (review and review.only_new) or hunk == nil or hunk.is_new
end

local function is_current()
  return list ~= nil and vim.fn.getqflist({ id = 0 }).id == list
end

--- The ids of the changes in some lines of the list in the current window that can't be seen in a buffer.
local function only_listed(first, last)
  local is_list = is_current() and vim.fn.getwininfo(vim.api.nvim_get_current_win())[1].loclist == 0
  local found = {}
  for line = first, is_list and last or 0 do
    local one = listed[line] or {}
    if one.hunk and not (one.file.has_lines and marks.has_lines(one.hunk)) then
      found[#found + 1] = one.hunk.id
    end
  end
  return found
end

local function look()
  seen.soon(only_listed)
end

local function draw(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local file = file_of(buffer)
  if file then
    marks.draw(
      buffer,
      { hunks = vim.tbl_filter(is_shown, file.hunks) },
      vim.tbl_filter(function(comment)
        return comment.path == file.path and comment.has_place
      end, review and review.comments or {})
    )
  else
    marks.clear(buffer)
  end
end

local function watch()
  if group then
    return
  end
  group = vim.api.nvim_create_augroup('drawbridge_changes', {})
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufWinEnter', 'FileChangedShellPost' }, {
    group = group,
    callback = function(args)
      -- A file that is read again loses its marks before the event is over.
      vim.schedule(function()
        draw(args.buf)
      end)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufWinEnter', 'WinScrolled', 'CursorMoved', 'TabEnter' }, {
    group = group,
    callback = look,
  })
  vim.api.nvim_create_autocmd('BufWritePost', {
    group = group,
    callback = function(args)
      if file_of(args.buf) then
        link.send('review_outdated', { path = vim.api.nvim_buf_get_name(args.buf) })
      end
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    group = group,
    callback = function(args)
      marks.clear(args.buf)
    end,
  })
end

--- Reloads the open files of the previous and of the current review (`before` and `now`, by their paths) from disk,
--- except files with unsaved changes.
local function reload(before, now)
  for _, one in ipairs(buffers.saved()) do
    if before[one.path] or now[one.path] then
      local was_missing = before[one.path] and before[one.path].was_deleted
      written.read_again(one.buffer, not was_missing)
    end
  end
end

--- The line of the list that now has the change from line `index` of the list `before`. If that line had no change that
--- is still there: `index`, but at most the last line.
local function same_line(before, index)
  local was = before[index]
  for line, one in ipairs(was and was.hunk and listed or {}) do
    if one.hunk and one.hunk.id == was.hunk.id then
      return line
    end
  end
  return math.max(1, math.min(index, #listed))
end

--- Whether a comment is in the list. A resolved one is shown only at its lines.
---@param comment drawbridge.Comment
local function is_listed(comment)
  return not comment.is_resolved
end

--- Fills the quickfix list. `is_new`: whether to create a new list, unless the current one is already the list
--- of changes.
local function fill(is_new)
  local before, items = listed, {}
  listed = {}
  for _, file in ipairs(review and review.files or {}) do
    local hunks = #file.hunks > 0 and file.hunks or { false }
    for _, hunk in
      ipairs(vim.tbl_filter(function(one)
        return is_shown(one or nil)
      end, hunks))
    do
      items[#items + 1] = {
        filename = file.path,
        module = file.shown,
        lnum = (hunk and hunk.row or 0) + 1,
        col = 1,
        text = hunk and hunk.text or file.text,
      }
      listed[#items] = { file = file, hunk = hunk or nil }
    end
  end
  for _, comment in ipairs(review and review.comments or {}) do
    if is_listed(comment) then
      items[#items + 1] =
        { filename = comment.path, module = comment.shown, lnum = comment.first + 1, col = 1, text = comment.text }
      listed[#items] = { comment = comment }
    end
  end
  local what = { items = items, title = 'Drawbridge: ' .. (review and review.title or 'no review') }
  if is_new and not is_current() then
    vim.fn.setqflist({}, ' ', what)
    list = vim.fn.getqflist({ id = 0 }).id
  elseif list and vim.fn.getqflist({ id = list }).id == list then
    what.id = list
    what.idx = same_line(before, vim.fn.getqflist({ id = list, idx = 0 }).idx)
    vim.fn.setqflist({}, 'r', what)
  end
end

--- Opens the quickfix window if the user is in Normal mode and not in the command-line window. The focus does not
--- change.
local function open_list()
  if vim.api.nvim_get_mode().mode ~= 'n' or vim.fn.getcmdwintype() ~= '' then
    return
  end
  local window = vim.api.nvim_get_current_win()
  vim.cmd(('botright copen %d'):format(math.min(#listed, LIST_LINES)))
  vim.api.nvim_set_current_win(window)
end

--- Shows a review. Called by the bridge.
---@param params {review?: drawbridge.Review, wanted: boolean} Without `review`, the review is closed.
function M.show_review(params)
  local before = by_path
  review, by_path = params.review, {}
  for _, file in ipairs(review and review.files or {}) do
    if file.has_lines then
      by_path[file.path] = file
    end
  end
  if review then
    require('drawbridge.view.bar').define_highlights()
    watch()
    reload(before, by_path)
  elseif group then
    vim.api.nvim_del_augroup_by_id(group)
    group = nil
    seen.stop()
  end
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    draw(buffer)
  end
  local has_items = review and (#review.files > 0 or #vim.tbl_filter(is_listed, review.comments) > 0)
  fill(params.wanted and has_items)
  if params.wanted and #listed > 0 then
    open_list()
  end
  if review then
    look()
  end
end

--- Closes the review after the bridge has disconnected, because decisions can no longer be sent.
function M.stop()
  if review then
    M.show_review({ wanted = false })
  end
end

--- `:DrawbridgeChanges`: asks the server, through the bridge, for the review of a directory that contains the current
--- file or, if no such review is found, of the current directory.
---@param only_new boolean Whether to show only the changes since the last visit.
function M.open(only_new)
  if not link.attached() then
    return say_missing(':DrawbridgeChanges')
  end
  local buffer = vim.api.nvim_get_current_buf()
  local path = buffers.is_file(buffer) and vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ':p') or ''
  link.send('review_wanted', { folder = vim.fn.getcwd(), path = path, only_new = only_new })
end

--- Why a command has nothing to act on in a buffer that the review does not show.
local function nothing_in(buffer)
  return buffers.is_file(buffer) and 'this file has nothing to review' or 'this buffer is not a file'
end

--- The file and the hunk that a command is about or, if none is found, only the reason.
---@param whole boolean Whether the command applies to the whole file.
---@return drawbridge.ReviewedFile?
---@return drawbridge.Hunk?
---@return string?
local function chosen(whole)
  local line = vim.api.nvim_win_get_cursor(0)[1]
  if vim.bo.buftype == 'quickfix' and is_current() and listed[line] then
    local one = listed[line]
    if not one.file then
      return nil, nil, 'this line is a comment, not a change'
    elseif whole then
      return one.file
    elseif not one.hunk then
      return nil, nil, 'too large to show; keep or undo the whole file'
    elseif one.file.has_lines and marks.has_lines(one.hunk) then
      return nil, nil, 'go to the change first (Enter)'
    end
    return one.file, one.hunk
  end
  local buffer = vim.api.nvim_get_current_buf()
  local file = file_of(buffer)
  if not file then
    return nil, nil, nothing_in(buffer)
  end
  local hunk = not whole and marks.at(buffer, line - 1) or nil
  if not whole and not hunk then
    local hidden = 'no new change at the cursor (:DrawbridgeChanges shows all)'
    return nil, nil, review and review.only_new and hidden or 'no change at the cursor (]c and [c go to changes)'
  end
  return file, hunk
end

--- Sends a decision. The answer is a new review and a message from the bridge.
---@param command string
---@param decision 'keep'|'undo'
---@param whole boolean Whether the decision applies to all changes to the file.
function M.decide(command, decision, whole)
  if not link.attached() then
    return say_missing(command)
  elseif not review then
    return say(command, 'no changes are shown (:DrawbridgeChanges)')
  end
  local file, hunk, problem = chosen(whole)
  if not file then
    return say(command, problem)
  end
  local buffer = decision == 'undo' and buffers.find(file.path)
  if buffer and vim.bo[buffer].modified then
    return say(command, 'save or discard your unsaved changes first')
  end
  link.send('review_decided', {
    decision = decision,
    version = review.version,
    hunk = hunk and hunk.id,
    file = not hunk and file.name or nil,
  })
end

local function counted(count, word)
  return ('%d %s%s'):format(count, word, count == 1 and '' or 's')
end

--- Why not all changes can be decided on together, because some are not shown; nil if they can.
local function why_not_all()
  if review.only_new then
    return 'first show all changes (:DrawbridgeChanges)'
  elseif review.more > 0 then
    return ('first decide on the files shown (%d more)'):format(review.more)
  end
  for _, file in ipairs(review.files) do
    if #file.hunks == 0 then
      return 'first decide on files too large to show'
    end
  end
end

--- `:DrawbridgeKeepAll`: asks, then keeps all changes of the review, unless some of them are not shown.
function M.keep_all()
  local command = ':DrawbridgeKeepAll'
  if not link.attached() then
    return say_missing(command)
  elseif not review then
    return say(command, 'no changes are shown (:DrawbridgeChanges)')
  elseif #review.files == 0 then
    return say(command, 'nothing is left to review')
  end
  local problem = why_not_all()
  if problem then
    return say(command, problem)
  end
  -- A change that arrives while the question is open has not been shown, and is not in this version.
  local version, count, unseen = review.version, 0, 0
  for _, file in ipairs(review.files) do
    for _, hunk in ipairs(file.hunks) do
      count, unseen = count + 1, unseen + (seen.has_seen(hunk.id) and 0 or 1)
    end
  end
  local question = ('Keep %s in %s?'):format(counted(count, 'change'), counted(#review.files, 'file'))
  if unseen == count then
    question = question .. (count == 1 and ' You have not seen all of it.' or ' You have not fully seen any of them.')
  elseif unseen > 0 then
    question = question .. (' You have not fully seen %d of them.'):format(unseen)
  end
  if vim.fn.confirm(question, '&Yes\n&No', 2) == 1 then
    link.send('review_decided', { decision = 'keep', version = version, all = true })
  end
end

--- Lines as they are in a file, each with its line ending, even if the file's last line has none.
---@param options {fileformat: string, bomb: boolean} The options of the file's buffer.
---@param lines string[]
---@param first integer The number of the first line, from 1.
local function text_of(options, lines, first)
  local ending = options.fileformat == 'dos' and '\r\n' or '\n'
  return (first == 1 and options.bomb and '\239\187\191' or '') .. table.concat(lines, ending) .. ending
end

--- Why the lines of a buffer can't be commented on, or nil if they can.
local function why_no_comment(buffer)
  if not link.attached() then
    return require('drawbridge.server').missing()
  elseif not review then
    return 'no changes are shown (:DrawbridgeChanges)'
  elseif not file_of(buffer) then
    return nothing_in(buffer)
  elseif vim.bo[buffer].modified then
    return 'save or discard your unsaved changes first'
  end
end

--- `:DrawbridgeComment`: adds a draft comment on these lines.
---@param text string
---@param first integer 1-based.
---@param last integer 1-based, inclusive.
function M.comment(text, first, last)
  local buffer = vim.api.nvim_get_current_buf()
  local problem = why_no_comment(buffer) or (vim.trim(text) == '' and 'write the comment after the command')
  if problem then
    return say(':DrawbridgeComment', problem)
  end
  link.send('review_commented', {
    file = file_of(buffer).name,
    line = first,
    end_line = last,
    quote = text_of(vim.bo[buffer], vim.api.nvim_buf_get_lines(buffer, first - 1, last, true), first),
    text = text,
  })
end

--- `:DrawbridgeSuggest`: opens a window with these lines. Once the user has edited and written them there, adds them as
--- a draft comment.
---@param text string The text of the comment; it may be empty.
---@param first integer 1-based.
---@param last integer 1-based, inclusive.
function M.suggest(text, first, last)
  local buffer = vim.api.nvim_get_current_buf()
  local problem = why_no_comment(buffer)
  if problem then
    return say(':DrawbridgeSuggest', problem)
  end
  local file, lines = file_of(buffer), vim.api.nvim_buf_get_lines(buffer, first - 1, last, true)
  local form = { fileformat = vim.bo[buffer].fileformat, bomb = vim.bo[buffer].bomb }
  local comment = { file = file.name, line = first, end_line = last, quote = text_of(form, lines, first), text = text }
  local about = { name = ('%s:%d'):format(file.shown, first), lines = lines, language = vim.bo[buffer].filetype }
  require('drawbridge.changes.suggest').open(about, function(edited, id, window)
    if not link.attached() then
      return require('drawbridge.server').missing()
    elseif not by_path[file.path] then -- the review was closed or replaced
      return 'this file has nothing to review'
    end
    local suggestion = #edited == 0 and '' or text_of(form, edited, first)
    local more = { suggestion = suggestion, id = id, window = window }
    link.send('review_commented', vim.tbl_extend('force', comment, more))
  end)
end

--- `:DrawbridgeComment!`: removes the draft at the cursor.
function M.remove_comment()
  local command = ':DrawbridgeComment!'
  if not link.attached() then
    return say_missing(command)
  end
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local in_list = vim.bo.buftype == 'quickfix' and is_current() and (listed[row + 1] or {}).comment
  if in_list and in_list.is_draft then
    return say(
      command,
      in_list.has_place and 'go to the draft first (Enter)' or 'this draft can be removed only in the web UI'
    )
  end
  for _, comment in ipairs(marks.comments_at(vim.api.nvim_get_current_buf(), row)) do
    if comment.is_draft then
      return link.send('review_comment_removed', { comment = comment.id })
    end
  end
  say(command, 'no draft at the cursor')
end

--- `:DrawbridgeResolve`: resolves the comment at the cursor, or on the current line of the quickfix list. If all comments
--- there are resolved, reopens the one that was written last.
function M.resolve()
  local command = ':DrawbridgeResolve'
  if not link.attached() then
    return say_missing(command)
  end
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local in_list = vim.bo.buftype == 'quickfix' and is_current() and (listed[line] or {}).comment
  local here = in_list and { in_list } or marks.comments_at(vim.api.nvim_get_current_buf(), line - 1)
  local sent = vim.tbl_filter(function(comment)
    return not comment.is_draft and not comment.is_waiting
  end, here)
  if #sent == 0 then
    return say(command, here[1] and 'the agent has not received this comment yet' or 'no comment at the cursor')
  end
  local chosen_one = vim.tbl_filter(is_listed, sent)[1] or sent[1]
  link.send('review_comment_resolved', { comment = chosen_one.id, resolved = not chosen_one.is_resolved })
end

--- `:DrawbridgeSendComments`: sends all drafts to the agent.
---@param text string The beginning of the prompt.
function M.send_comments(text)
  local command = ':DrawbridgeSendComments'
  if not link.attached() then
    return say_missing(command)
  elseif not review then
    return say(command, 'no changes are shown (:DrawbridgeChanges)')
  end
  for _, comment in ipairs(review.comments) do
    if comment.is_draft then
      return link.send('review_submitted', { drafts = review.drafts, text = text })
    end
  end
  say(command, 'there are no drafts to send')
end

return M
