--- The text that a save would write; null if the file is not open, or if the text is larger than `LIMIT`.
local LIMIT = 4 * 1024 * 1024 -- bytes

local buf = find({ params.file_path })[1][1]
if not buf or api.nvim_buf_get_offset(buf, api.nvim_buf_line_count(buf)) > LIMIT then
  return answer({ text = vim.NIL })
end
return answer({ text = text_of(buf), version = api.nvim_buf_get_changedtick(buf), encoding = vim.bo[buf].fileencoding })
