--- The line above a view that shows what is proposed and how to answer. In Neovim 0.7, the status line shows this.
local seen = require('drawbridge.view.seen')

local M = {}

local OPTION = vim.fn.exists('+winbar') == 1 and 'winbar' or 'statusline'
local LINE = "%{%v:lua.require'drawbridge.view.bar'.line()%}"

-- These replace the default colors of older Neovims (magenta and red for a change): terminal, then GUI.
local OLD_DEFAULTS = {
  dark = {
    Added = { 22, '#1e3a26' },
    Removed = { 52, '#4a2226' },
    ChangedLine = { 236, '#2f3036' },
    Changed = { 24, '#1f4a63' },
  },
  light = {
    Added = { 194, '#d7f0da' },
    Removed = { 224, '#f9dada' },
    ChangedLine = { 255, '#eeeef0' },
    Changed = { 153, '#bcdcf5' },
  },
}

-- The default colors of newer Neovims give removed lines no background.
local REMOVED = {
  dark = 'ctermfg=0 ctermbg=9 guifg=NvimLightGrey1 guibg=NvimDarkRed',
  light = 'ctermfg=15 ctermbg=1 guifg=NvimDarkGrey1 guibg=NvimLightRed',
}

local lines = {} ---@type table<integer, fun(width: integer): string> By window.

local function escaped(text)
  return (text:gsub('%c', '?'):gsub('%%', '%%%%'))
end

--- Text in a highlight group.
local function as(group, text)
  return ('%%#Drawbridge%s#%s'):format(group, text)
end

local function width_of(line)
  return vim.fn.strdisplaywidth((line:gsub('%%#%w+#', ''):gsub('%%<', ''):gsub('%%=', ''):gsub('%%%%', '%%')))
end

--- The first of `variants` that fits. If none fits, the last one, which Neovim cuts at its beginning.
local function fitting(variants, width)
  for _, line in ipairs(variants) do
    if width_of(line) <= width then
      return line
    end
  end
  return '%<' .. variants[#variants]
end

local function proposed_line(entry, with_name, width)
  local code = entry.kind == 'code'
  local who = as('Title', ' ' .. escaped(entry.agent) .. (code and ': Run this code?' or ' proposes'))
  local short = as('Title', code and ' Run this code?' or ' Proposed')
  local new = entry.is_new and '  new file' or ''
  local name = with_name and not code and as('Bar', '  ' .. escaped(entry.name) .. new) or ''
  local tail = with_name and not code and as('Bar', '  ' .. escaped(vim.fn.fnamemodify(entry.name, ':t'))) or ''
  local count = code and ''
    or as('Bar', '  ') .. as('Plus', '+' .. entry.added) .. as('Bar', ' ') .. as('Minus', '−' .. entry.removed)
  local beside = #entry.changes > 0 and as('Bar', '  ' .. escaped(table.concat(entry.changes, ', '))) or ''
  local accept = require('drawbridge.config').get().allow_w_to_accept and ':w' or ':DrawbridgeAccept'
  -- Once the text has been edited, Neovim refuses a plain :q.
  local reject = vim.bo[entry.proposed].modified and ':q!' or ':q'
  local unseen = seen.count(entry)
  local left = ('%d more changed line%s'):format(unseen, unseen == 1 and '' or 's')
  local short_answers = ('  %s · %s rejects'):format(unseen > 0 and left or accept .. ' accepts', reject)
  local answers = '%=' .. as('Hint', short_answers .. ' ')
  local more = '%='
    .. as(
      'Hint',
      ('%s · you can edit it%s '):format(short_answers, entry.old and ' · press do to revert a hunk' or '')
    )
  local note = with_name and entry.note and as('Bar', '  ' .. escaped(entry.note)) or ''
  return fitting({
    who .. name .. count .. beside .. note .. more,
    who .. name .. count .. beside .. note .. answers,
    who .. name .. count .. note .. answers,
    short .. name .. count .. note .. answers,
    short .. tail .. count .. note .. answers,
    short .. count .. note .. answers,
    note .. answers,
    short .. answers,
    answers,
  }, width)
end

--- The text of the line in the window that is being drawn. Called at each redraw, so that it always fits.
function M.line()
  local window = vim.api.nvim_get_current_win()
  return lines[window] and lines[window](vim.api.nvim_win_get_width(window)) or ''
end

--- Puts the line on the window of the proposed text.
---@param entry drawbridge.Entry
---@param window integer
---@param with_name boolean Whether to show the file name; if the view has two windows, the other bar shows it.
function M.on_proposed(entry, window, with_name)
  lines[window] = function(width)
    return proposed_line(entry, with_name, width)
  end
  vim.wo[window][OPTION] = LINE
end

--- Puts the line on the window of the current text.
---@param entry drawbridge.Entry
---@param window integer
function M.on_old(entry, window)
  lines[window] = function(width)
    local now = as('Hint', entry.is_new and '  new file' or '  now')
    local note = entry.note and as('Bar', '  ' .. escaped(entry.note)) or ''
    local name, tail = escaped(entry.name), escaped(vim.fn.fnamemodify(entry.name, ':t'))
    if width_of(' ' .. tail .. now .. note) > width then
      note = '' -- without room in the bar, a message shows the note
    end
    return fitting({ as('Bar', ' ' .. name) .. now .. note, as('Bar', ' ' .. tail) .. now .. note }, width)
  end
  vim.wo[window][OPTION] = LINE
end

--- Whether a bar of the view shows the whole note of the proposal.
---@param entry drawbridge.Entry
---@return boolean
function M.shows_note(entry)
  local window = entry.windows.old or entry.windows.proposed
  local width = vim.api.nvim_win_get_width(window)
  local line = lines[window](width)
  return width_of(line) <= width and line:find(escaped(entry.note), 1, true) ~= nil
end

--- The window's value of the option before `on_proposed` or `on_old` replaces it. Pass it to `remove`.
---@param window integer
---@return string
function M.below(window)
  return vim.api.nvim_win_call(window, function()
    return vim.api.nvim_get_option_value(OPTION, { scope = 'local' })
  end)
end

---@param window integer
---@param below string
function M.remove(window, below)
  lines[window] = nil
  vim.wo[window][OPTION] = below
end

--- Drops windows that no longer exist.
function M.clean()
  for window in pairs(lines) do
    if not vim.api.nvim_win_is_valid(window) then
      lines[window] = nil
    end
  end
end

--- Defines the highlight groups of all views, as defaults that a color scheme or the user may replace.
function M.define_highlights()
  local links = {
    Bar = 'WinBar',
    Title = 'Title',
    Hint = 'Comment',
    Plus = 'Added',
    Minus = 'Removed',
    Added = 'DiffAdd',
    Changed = 'DiffText',
    ChangedLine = 'DiffChange',
    Removed = 'DiffDelete',
    Filler = 'NonText',
    Notice = 'NormalFloat',
    NoticeBorder = 'FloatBorder',
  }
  if vim.fn.has('nvim-0.11') == 0 then
    -- A group for text would look like a patch on the line's own background.
    links.Bar = 'Normal'
  end
  if vim.fn.has('nvim-0.10') == 0 then
    links.Plus, links.Minus = 'String', 'WarningMsg'
    links.Notice, links.NoticeBorder = 'Normal', 'Normal'
  end
  if OPTION == 'statusline' then
    for _, name in ipairs({ 'Bar', 'Title', 'Hint', 'Plus', 'Minus' }) do
      links[name] = 'StatusLine'
    end
  end
  if vim.fn.has('nvim-0.10') == 0 and not vim.g.colors_name then
    for name, colors in pairs(OLD_DEFAULTS[vim.o.background] or OLD_DEFAULTS.dark) do
      links[name] = nil
      vim.cmd(('highlight default Drawbridge%s ctermbg=%d guibg=%s'):format(name, unpack(colors)))
    end
  end
  if vim.fn.has('nvim-0.10') == 1 and (vim.g.colors_name or 'default') == 'default' then
    links.Removed = nil
    vim.cmd('highlight default DrawbridgeRemoved ' .. (REMOVED[vim.o.background] or REMOVED.dark))
  end
  for name, target in pairs(links) do
    vim.cmd(('highlight default link Drawbridge%s %s'):format(name, target))
  end
end

return M
