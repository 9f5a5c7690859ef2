--- Merges a change to the file on disk into the unsaved text, which stays unsaved.
local function refuse(reason)
  return answer({ merged = false, reason = reason })
end

local buf = find({ params.file_path })[1][1]
if not buf then
  return refuse('the file is not open')
elseif api.nvim_buf_get_changedtick(buf) ~= params.version then
  return refuse('the unsaved text has changed in the meantime')
elseif is_taken_over(buf) then
  return refuse('a plugin, not Neovim, reads or writes the file')
elseif not is_utf8(vim.bo[buf].fileencoding) then
  return refuse(('the file is in %s, not in UTF-8'):format(vim.bo[buf].fileencoding))
end

local count, edits = api.nvim_buf_line_count(buf), {}
local empty = text_of(buf) == ''
for index, edit in ipairs(params.edits) do
  -- In Neovim, an empty buffer has one line, not zero.
  local finish = empty and 1 or edit['end']
  if
    edit.start < 0
    or edit.start > finish
    or finish > count
    or (edits[index - 1] and edit.start < edits[index - 1]['end'])
  then
    return refuse('the change does not fit the text')
  end
  local lines = vim.tbl_map(function(line)
    return vim.bo[buf].fileformat == 'dos' and line:gsub('\r$', '') or line
  end, edit.lines)
  edits[index] = { start = edit.start, ['end'] = finish, lines = lines }
end
local modified = vim.bo[buf].modified
local problem = change(buf, edits, {})
vim.bo[buf].modified = not problem or modified
return problem and refuse(problem) or answer({ merged = true })
