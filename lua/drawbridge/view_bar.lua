--- The line above a view that says what it is and how to answer; Neovim 0.7 has only the line below.
local M = {}

local OPTION = vim.fn.exists('+winbar') == 1 and 'winbar' or 'statusline'

local function escaped(text)
  return (text:gsub('%c', '?'):gsub('%%', '%%%%'))
end

local function count(entry)
  return ('%%#DrawbridgePlus#+%d %%#DrawbridgeMinus#−%d%%#DrawbridgeBar#'):format(entry.added, entry.removed)
end

local function answers()
  local accept = require('drawbridge.config').get().allow_w_to_accept and ':w' or ':DrawbridgeAccept'
  return ('%%#DrawbridgeHint#%s accepts · :q rejects '):format(accept)
end

local function title(entry)
  if entry.kind == 'code' then
    return escaped(entry.agent) .. ': Run this code?'
  end
  return escaped(entry.agent) .. ' proposes'
end

--- Puts the line on the window of the proposed text.
function M.on_proposed(entry, window, with_name)
  local name = with_name and entry.kind ~= 'code' and (escaped(entry.name) .. '  ') or ''
  local changes = entry.kind == 'code' and '' or count(entry)
  local beside = #entry.changes > 0 and ('  ' .. escaped(table.concat(entry.changes, ', '))) or ''
  vim.wo[window][OPTION] = '%#DrawbridgeTitle# '
    .. title(entry)
    .. '%#DrawbridgeBar#  '
    .. name
    .. changes
    .. beside
    .. ' %<%='
    .. answers()
end

--- Puts the line on the window of the present text.
function M.on_old(entry, window)
  vim.wo[window][OPTION] = '%#DrawbridgeBar# %<' .. escaped(entry.name) .. '%#DrawbridgeHint#  now'
end

--- The text of `option` before `on_old`, for a window that is not ours.
function M.get(window)
  return vim.wo[window][OPTION]
end

function M.put_back(window, value)
  vim.wo[window][OPTION] = value
end

--- The highlight groups of all views, as defaults that a colour scheme or the person may replace.
function M.define_highlights()
  local links = {
    DrawbridgeTitle = 'Title',
    DrawbridgeBar = OPTION == 'winbar' and 'WinBar' or 'StatusLine',
    DrawbridgeHint = 'Comment',
    DrawbridgePlus = vim.fn.hlexists('Added') == 1 and 'Added' or 'DiffAdd',
    DrawbridgeMinus = vim.fn.hlexists('Removed') == 1 and 'Removed' or 'DiffDelete',
    DrawbridgeAdded = 'DiffAdd',
    DrawbridgeRemoved = 'DiffDelete',
    DrawbridgeNotice = 'NormalFloat',
    DrawbridgeNoticeBorder = 'FloatBorder',
  }
  for group, target in pairs(links) do
    vim.cmd(('highlight default link %s %s'):format(group, target))
  end
end

return M
