--- The view of one proposal: opens its windows, and closes them without side effects on the layout.
local bar = require('drawbridge.view.bar')
local diff = require('drawbridge.view.diff')
local drawn = require('drawbridge.view.drawn')
local inline = require('drawbridge.view.inline')
local place = require('drawbridge.view.place')
local room = require('drawbridge.view.room')
local seen = require('drawbridge.view.seen')
local text = require('drawbridge.view.text')

local M = { unfold = diff.unfold }

local EDITED_AFTER = 150 -- ms from an edit to new marks
local READABLE = 30 -- columns of a side; narrower sides are stacked

local function is_normal(window)
  return vim.api.nvim_win_get_config(window).relative == '' and vim.bo[vim.api.nvim_win_get_buf(window)].buftype == ''
end

--- Goes to a window of the tab page that shows a file. Returns whether there is one.
local function to_normal_window()
  if is_normal(0) then
    return true
  end
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if is_normal(window) then
      vim.api.nvim_set_current_win(window)
      return true
    end
  end
  return false
end

local function has_diff_window()
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.wo[window].diff then
      return true
    end
  end
  return false
end

local function unfix()
  if vim.fn.exists('+winfixbuf') == 1 then
    vim.wo.winfixbuf = false
  end
end

local function close_window(window)
  if not vim.api.nvim_win_is_valid(window) then
    return
  end
  if not pcall(vim.api.nvim_win_close, window, true) then
    -- Neovim can't close its only window, so it gets an empty buffer instead.
    vim.w[window].drawbridge_opened_from = nil
    vim.api.nvim_win_call(window, function()
      vim.cmd('enew')
    end)
  end
end

--- Whether the user is in the view.
function M.is_inside(entry)
  local here = vim.api.nvim_get_current_win()
  return here == entry.windows.proposed or here == entry.windows.old or vim.api.nvim_get_current_tabpage() == entry.tab
end

--- Closes the view's windows, and only those. If the focus is in them, it returns to where it was.
local function close_windows(entry)
  drawn.unwatch(entry.id)
  place.quietly(function()
    local with_focus = entry.had_focus or M.is_inside(entry)
    diff.leave(entry)
    room.preserve_terminals(function()
      for name, window in pairs(entry.windows) do
        if name == 'proposed' or not entry.borrowed then
          close_window(window)
        end
      end
    end)
    bar.clean()
    place.restore(entry.place, with_focus, entry.borrowed and entry.windows.old)
    room.release_tab_line(entry.id)
    entry.windows, entry.tab, entry.borrowed, entry.stacked = nil, nil, nil, nil
  end)
end

local function open_windows(entry)
  local options = require('drawbridge.config').get().diff
  -- All windows of a tab page that are in diff mode show one diff together, so a view must not join another diff.
  local in_tab = options.open_in == 'tab' or (not entry.inline and has_diff_window())
  -- A terminal is never split, because that would change its size.
  in_tab = not to_normal_window() or in_tab
  local split = options.layout == 'horizontal' and 'rightbelow split' or 'rightbelow vsplit'
  if in_tab then
    room.hold_tab_line(entry.id)
    room.open_tab()
    entry.tab = vim.api.nvim_get_current_tabpage()
    entry.windows.proposed = vim.api.nvim_get_current_win()
  end
  local borrowed = not in_tab and not entry.inline and diff.can_borrow(entry)
  if not in_tab and not borrowed then
    vim.cmd(split)
  end
  unfix()
  if entry.inline then
    inline.open(entry)
  else
    diff.open(entry, options.layout, borrowed)
  end
end

--- Puts the proposed side beside or below the other one. Both are in the current tab page.
local function move_beside(entry, vertical)
  vim.fn.win_splitmove(
    vim.fn.win_id2win(entry.windows.proposed),
    vim.fn.win_id2win(entry.windows.old),
    { vertical = vertical, rightbelow = true }
  )
  entry.stacked = not vertical
end

--- Gives both sides the same space, because Neovim shrinks only one of them when the screen shrinks. Sides that would
--- be too narrow are stacked.
local function share_room(entry)
  local windows, here = entry.windows or {}, vim.api.nvim_get_current_tabpage()
  local proposed, old = windows.proposed, windows.old
  if not old or not vim.api.nvim_win_is_valid(proposed) or not vim.api.nvim_win_is_valid(old) then
    return -- the user is closing the windows
  end
  if vim.api.nvim_win_get_tabpage(old) ~= here or vim.api.nvim_win_get_tabpage(proposed) ~= here then
    return
  end
  entry.screen = { vim.o.columns, vim.o.lines }
  local is_beside = vim.api.nvim_win_get_position(proposed)[1] == vim.api.nvim_win_get_position(old)[1]
  local width = vim.api.nvim_win_get_width(proposed) + (is_beside and vim.api.nvim_win_get_width(old) or -1)
  place.quietly(function()
    room.preserve_terminals(function()
      if is_beside and width < 2 * READABLE then
        move_beside(entry, false)
      elseif entry.stacked and width >= 2 * READABLE then
        move_beside(entry, true)
      end
      if vim.api.nvim_win_get_position(proposed)[1] == vim.api.nvim_win_get_position(old)[1] then
        vim.api.nvim_win_set_width(proposed, math.floor(width / 2))
      else
        local height = vim.api.nvim_win_get_height(proposed) + vim.api.nvim_win_get_height(old)
        vim.api.nvim_win_set_height(proposed, math.floor(height / 2))
      end
    end)
  end)
end

--- Whether the proposed text has a window in which it can be read.
---@param entry drawbridge.Entry
---@return boolean
function M.is_readable(entry)
  return seen.is_readable(entry.windows and entry.windows.proposed)
end

--- Stores for the guard what the user was working on before, because that stays protected while they read the proposal.
local function mark_windows(entry)
  for name, window in pairs(entry.windows) do
    if name == 'proposed' or not entry.borrowed then
      vim.w[window].drawbridge_opened_from = entry.place.in_use
    end
  end
end

local function watch(entry, closed)
  entry.screen = { vim.o.columns, vim.o.lines }
  vim.api.nvim_create_autocmd({ 'VimResized', 'TabEnter' }, {
    group = entry.group,
    callback = function(args)
      -- While another tab page is in front, the sides can't be resized. Widths that the user set stay.
      local has_changed = not vim.deep_equal(entry.screen, { vim.o.columns, vim.o.lines })
      if args.event == 'VimResized' or has_changed or not M.is_readable(entry) then
        share_room(entry)
      end
    end,
  })
  drawn.watch(entry.id, function()
    seen.look(entry)
  end)
  -- Neovim may draw no lines when a window that covered them is closed, or after the command line.
  vim.api.nvim_create_autocmd({ 'WinClosed', 'CmdlineLeave', 'CmdwinLeave', 'TabEnter' }, {
    group = entry.group,
    callback = drawn.soon,
  })
  for _, window in pairs(entry.windows) do
    vim.api.nvim_create_autocmd('WinClosed', {
      group = entry.group,
      pattern = tostring(window),
      callback = function()
        closed(entry, window)
      end,
    })
  end
  vim.api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
    group = entry.group,
    buffer = entry.proposed,
    callback = function()
      closed(entry)
    end,
  })
end

--- Reports to the bridge that counts and marks are out of date, a moment after the last edit.
local function report_edits(entry)
  local loop = vim.uv or vim.loop
  local timer = loop.new_timer()
  vim.api.nvim_buf_attach(entry.proposed, false, {
    on_lines = function()
      timer:start(
        EDITED_AFTER,
        0,
        vim.schedule_wrap(function()
          require('drawbridge.link').send('edited', { id = entry.id })
        end)
      )
    end,
    on_detach = function()
      timer:stop()
      if not timer:is_closing() then
        timer:close()
      end
    end,
  })
end

local function to_first_change(entry)
  local last = vim.api.nvim_buf_line_count(entry.proposed)
  vim.api.nvim_win_set_cursor(entry.windows.proposed, { math.min(entry.first + 1, last), 0 })
  vim.api.nvim_win_call(entry.windows.proposed, function()
    vim.cmd('normal! zvzz')
  end)
  inline.make_room_at_top(entry.proposed)
  diff.make_room_at_top(entry)
end

--- Opens the view in front of the user. `closed` is called when anything closes a part of it.
---@param entry drawbridge.Entry
---@param closed fun(entry: drawbridge.Entry, window?: integer) Called with the window that is closing, if there is one.
---@return string? problem Why it could not be opened; nothing stays open in that case.
function M.open(entry, closed)
  entry.place = place.remember()
  entry.windows = {}
  local ok, problem = pcall(place.quietly, function()
    room.preserve_terminals(function()
      open_windows(entry)
    end)
    to_first_change(entry)
  end)
  if not ok then
    close_windows(entry)
    return problem
  end
  mark_windows(entry)
  text.color(entry)
  if entry.kind == 'change' and not entry.reported then
    entry.reported = true
    report_edits(entry)
  end
  watch(entry, closed)
  if entry.note and not bar.shows_note(entry) then
    require('drawbridge.message').report(entry.note, 'info', false)
  end
end

---@param entry drawbridge.Entry
---@param hunks table[]
---@param clear boolean
function M.mark(entry, hunks, clear)
  if entry.kind == 'change' then
    inline.mark(entry.proposed, hunks, clear)
  end
end

--- Closes the windows for now. The proposed text stays, with the user's edits.
---@param entry drawbridge.Entry
function M.hide(entry)
  pcall(vim.api.nvim_del_augroup_by_id, entry.group)
  entry.group, entry.had_focus = nil, nil
  vim.bo[entry.proposed].bufhidden = 'hide'
  close_windows(entry)
  vim.bo[entry.proposed].bufhidden = 'wipe'
end

--- Removes the windows and buffers, and restores the focus if it is in them.
---@param entry drawbridge.Entry
function M.close(entry)
  if entry.group then
    pcall(vim.api.nvim_del_augroup_by_id, entry.group)
  end
  if entry.windows then
    close_windows(entry)
  end
  place.quietly(function()
    for _, buffer in ipairs({ entry.proposed, entry.old }) do
      if vim.api.nvim_buf_is_valid(buffer) then
        vim.api.nvim_buf_delete(buffer, { force = true })
      end
    end
  end)
end

return M
