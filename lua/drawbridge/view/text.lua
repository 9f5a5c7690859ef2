--- The buffers of a proposal: the current text, the proposed text, and the user's edits to it.
local buffers = require('drawbridge.buffers')
local place = require('drawbridge.view.place')

local M = {}

local COPIED = { 'tabstop', 'shiftwidth', 'softtabstop', 'expandtab', 'textwidth' }
local SYNTAX_LIMIT = 512 * 1024 -- bytes: for a larger text, colors would make Neovim slow

--- Gives a buffer the first free one of the names "name (kind)", "name (kind 2)" and so on or, without `kind`, "name",
--- "name (2)" and so on.
---@param buffer integer
---@param name string
---@param kind string?
function M.name(buffer, name, kind)
  name = name:gsub('%c', '?')
  for number = 1, 100 do
    local words = vim.trim(('%s%s'):format(kind and kind .. ' ' or '', number > 1 and number or ''))
    local full = words == '' and name or ('%s (%s)'):format(name, words)
    -- A restored session may have a buffer of this name.
    if pcall(vim.api.nvim_buf_set_name, buffer, full) then
      return
    end
  end
end

local function new_buffer(name, kind, buftype)
  local buffer = vim.api.nvim_create_buf(false, true)
  M.name(buffer, name, kind)
  local options = vim.bo[buffer]
  options.buftype, options.swapfile, options.undolevels = buftype, false, -1
  vim.b[buffer].drawbridge_view = true -- for the guard: not a file
  return buffer
end

--- Creates the buffers that the text is filled into.
---@param entry drawbridge.Entry
function M.create(entry)
  place.quietly(function()
    entry.proposed = new_buffer(entry.name, entry.kind == 'code' and 'to run' or 'proposal', 'acwrite')
    if not entry.inline then
      entry.old = new_buffer(entry.name, entry.is_new and 'empty' or 'now', 'nofile')
    end
  end)
end

--- Called after the text was filled in, which can't be undone and does not count as a change.
---@param entry drawbridge.Entry
function M.finish(entry)
  place.quietly(function()
    local options = vim.bo[entry.proposed]
    options.fileformat, options.bomb = entry.dos and 'dos' or 'unix', entry.bom
    options.endofline, options.fixendofline = entry.final_newline, false
    for _, name in ipairs(entry.target and COPIED or {}) do
      options[name] = vim.bo[entry.target.buffer][name]
    end
    options.undolevels = vim.api.nvim_get_option_value('undolevels', { scope = 'global' })
    options.bufhidden, options.modified = 'wipe', false
    if entry.old then
      options = vim.bo[entry.old]
      -- The proposal stays open if the user opens another file in this side's window.
      options.bufhidden, options.modified, options.modifiable = 'hide', false, false
    end
  end)
  entry.filled = vim.api.nvim_buf_get_changedtick(entry.proposed)
end

--- The file type that Neovim detects for the proposed text, by its name and first lines.
local function detected(entry)
  local buffer = entry.proposed
  if vim.fn.has('nvim-0.8') == 1 then
    return vim.filetype.match({ filename = entry.path, buf = buffer })
  end
  -- Neovim 0.7 sets the option instead of returning the file type.
  local found
  place.quietly(function()
    vim.filetype.match(entry.path, buffer)
    found = vim.bo[buffer].filetype
    vim.bo[buffer].filetype = ''
  end)
  return found
end

local function language(entry)
  if entry.target then
    return vim.bo[entry.target.buffer].filetype
  end
  local ok, found = pcall(detected, entry)
  return ok and found or ''
end

local function color_buffer(buffer, syntax)
  if syntax ~= '' and vim.api.nvim_buf_get_offset(buffer, vim.api.nvim_buf_line_count(buffer)) < SYNTAX_LIMIT then
    -- This does not set 'filetype', because file type plugins and language servers should not run in a proposal.
    pcall(function()
      vim.bo[buffer].syntax = syntax
    end)
  end
end

--- Colors the texts with the syntax of their language.
---@param entry drawbridge.Entry
function M.color(entry)
  local syntax = language(entry)
  color_buffer(entry.proposed, syntax)
  if entry.old and vim.fn.bufwinid(entry.old) ~= -1 then
    color_buffer(entry.old, syntax)
  end
end

--- Replaces the lines from `first` to `last` (from 0, `last` excluded) of the proposed text.
---@param entry drawbridge.Entry
function M.replace(entry, first, last, lines)
  -- The one line of an empty buffer is not part of the text.
  last = buffers.is_empty(entry.proposed) and 1 or last
  vim.api.nvim_buf_set_lines(entry.proposed, first, last, false, lines)
end

--- The lines of the proposed text as one string, because Neovim would take a long time to pack many small ones.
---@param entry drawbridge.Entry
---@return string
function M.content(entry)
  return table.concat(vim.api.nvim_buf_get_lines(entry.proposed, 0, -1, false), '\n')
end

--- The proposed text with the user's edits, or nil if it was not edited.
---@param entry drawbridge.Entry
---@return {text: string, empty: boolean, dos: boolean, bom: boolean, final_newline: boolean}?
function M.changed(entry)
  local options = vim.bo[entry.proposed]
  local dos, bom, final_newline = options.fileformat == 'dos', options.bomb, options.endofline
  local same_form = dos == entry.dos and bom == entry.bom and final_newline == entry.final_newline
  if same_form and vim.api.nvim_buf_get_changedtick(entry.proposed) == entry.filled then
    return nil
  end
  return {
    text = M.content(entry),
    empty = buffers.is_empty(entry.proposed),
    dos = dos,
    bom = bom,
    final_newline = final_newline,
  }
end

return M
