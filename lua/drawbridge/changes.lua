--- Shows the undecided changes of runs as a quickfix list and in the files' buffers, and sends the user's decisions.
---
--- The server stores the review. The bridge sends it here whenever it changes, and passes decisions to the server.
--- If no server has a review, the bridge sends the changes of the proposals that were accepted here.
local buffers = require('drawbridge.buffers')
local link = require('drawbridge.link')
local marks = require('drawbridge.changes_marks')
local seen = require('drawbridge.changes_seen')
local written = require('drawbridge.buffers_written')

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

---@class drawbridge.Review
---@field version string
---@field title string
---@field files drawbridge.ReviewedFile[]
---@field comments drawbridge.Comment[]
---@field drafts string
---@field only_new boolean

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
    items[#items + 1] =
      { filename = comment.path, module = comment.shown, lnum = comment.first + 1, col = 1, text = comment.text }
    listed[#items] = { comment = comment }
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
    require('drawbridge.view_bar').define_highlights()
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
  fill(params.wanted and review and #review.files + #review.comments > 0)
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

--- The lines of a buffer as they are in its file, each with its line ending, even if the file's last line has none.
local function text_of(buffer, first, last)
  local ending = vim.bo[buffer].fileformat == 'dos' and '\r\n' or '\n'
  local text = table.concat(vim.api.nvim_buf_get_lines(buffer, first - 1, last, true), ending) .. ending
  return (first == 1 and vim.bo[buffer].bomb and '\239\187\191' or '') .. text
end

--- `:DrawbridgeComment`: adds a draft comment on these lines.
---@param text string
---@param first integer 1-based.
---@param last integer 1-based, inclusive.
function M.comment(text, first, last)
  local command, buffer = ':DrawbridgeComment', vim.api.nvim_get_current_buf()
  local file = file_of(buffer)
  if not link.attached() then
    return say_missing(command)
  elseif not review then
    return say(command, 'no changes are shown (:DrawbridgeChanges)')
  elseif not file then
    return say(command, nothing_in(buffer))
  elseif vim.trim(text) == '' then
    return say(command, 'write the comment after the command')
  elseif vim.bo[buffer].modified then
    return say(command, 'save or discard your unsaved changes first')
  end
  link.send('review_commented', {
    file = file.name,
    line = first,
    end_line = last,
    quote = text_of(buffer, first, last),
    text = text,
  })
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
  local comment = marks.draft_at(vim.api.nvim_get_current_buf(), row)
  if not comment then
    return say(command, 'no draft at the cursor')
  end
  link.send('review_comment_removed', { comment = comment.id })
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
