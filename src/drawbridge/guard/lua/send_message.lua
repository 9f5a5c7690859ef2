--- Shows a notice on one line; with `file_path`, only if that file is open. A notice that does not fit is cut, since
--- Neovim would otherwise wait at "Press ENTER".
local function fitted(text)
  local room = math.max(vim.v.echospace, 10)
  return fn.strdisplaywidth(text) <= room and text or fn.printf('%.' .. room - 3 .. 'S...', text)
end

local function show()
  vim.notify(fitted((params.message:gsub('%s*[\n\r]%s*', ' '))), vim.log.levels.WARN)
end

if not params.file_path or find({ params.file_path })[1][1] then
  if vim.v.vim_did_enter == 1 then
    vim.schedule(show)
  else
    api.nvim_create_autocmd('VimEnter', { once = true, callback = vim.schedule_wrap(show) })
  end
end
return answer({ success = true })
