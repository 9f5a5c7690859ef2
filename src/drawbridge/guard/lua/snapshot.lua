--- The state of the requested files, and everything else that `want` lists.
local REMEMBERED = 50 -- files

local function first_file(bufs)
  for _, buf in ipairs(bufs) do
    if buf > 0 and api.nvim_buf_is_loaded(buf) and is_file(buf) then
      return buf
    end
  end
end

--- The buffer of the file that the user is working on. While a special buffer is current: the one in the previous
--- window or, if that is special, too, the one used last (several if they were used within the same second). While a
--- proposal is current: the one that the user was working on before, and the one that the proposal is compared with if
--- the cursor is in it.
local function in_front()
  local found, newest = {}, 1
  for _, window in ipairs({ api.nvim_get_current_win(), fn.win_getid(fn.winnr('#')) }) do
    -- The plugin sets the variable in the windows of a proposal.
    for _, bufs in ipairs({ { api.nvim_win_get_buf(window) }, vim.w[window].drawbridge_opened_from or {} }) do
      local file = first_file(bufs)
      if file then
        found[file] = true
      end
    end
    if next(found) then
      return found
    end
  end
  -- getbufinfo() is not called directly, because its result would include everything that plugins store in buffers.
  for _, one in ipairs(fn.eval('map(getbufinfo({"bufloaded": 1}), "[v:val.bufnr, v:val.lastused]")')) do
    if one[2] >= newest and is_file(one[1]) then
      found, newest = one[2] > newest and {} or found, one[2]
      found[one[1]] = true
    end
  end
  return found
end

local front = in_front()

--- The state of one file, which may be in several buffers; null if it is in none.
local function standing(bufs)
  local all
  for _, buf in ipairs(bufs) do
    local modified = vim.bo[buf].modified
    all = all or { modified = false, current = false, visible = false }
    if modified or not all.lines then
      all.name, all.lines = api.nvim_buf_get_name(buf), api.nvim_buf_line_count(buf)
    end
    all.modified = all.modified or modified
    all.current = all.current or front[buf] == true
    all.visible = all.visible or #fn.win_findbuf(buf) > 0
  end
  return all or vim.NIL
end

--- Stores the buffer's current diagnostics for the `diagnostics` method.
local function remember(buf)
  -- Accessing `vim.diagnostic` would load it: if it is not loaded, there are no diagnostics.
  guard.before[buf] = package.loaded['vim.diagnostic'] and vim.diagnostic.get(buf) or {}
  guard.reported[buf] = nil
  table.insert(guard.remembered, buf)
  if #guard.remembered > REMEMBERED then
    local oldest = table.remove(guard.remembered, 1)
    if not vim.tbl_contains(guard.remembered, oldest) then
      guard.before[oldest] = nil
    end
  end
end

guard.editor = guard.editor or 'Neovim ' .. fn.execute('version'):match('NVIM v(%S+)')
local result = { editor = guard.editor, pid = fn.getpid(), files = {} }
for index, bufs in ipairs(find(params.paths)) do
  result.files[index] = standing(bufs)
  for _, buf in ipairs(params.remember and bufs or {}) do
    remember(buf)
  end
end

local want = {}
for _, part in ipairs(params.want or {}) do
  want[part] = true
end
if want.unsaved or want.open then
  result.unsaved, result.open = want.unsaved and {}, want.open and {}
  result.folders = want.open and { fn.getcwd(-1, -1) }
  for _, buf in ipairs(files()) do
    if want.unsaved and vim.bo[buf].modified then
      table.insert(result.unsaved, standing({ buf }))
    end
    if want.open then
      table.insert(result.open, api.nvim_buf_get_name(buf))
    end
  end
end
if want.selection then
  result.selection = selection(params.session or '')
end
if want.selection or want.connected then
  local link = package.loaded['drawbridge.link']
  local bridge = link and link.state()
  result.connected, result.agents = bridge and bridge.pids or {}, bridge and bridge.agents or {}
end

-- The guard gets its answer even if this version of the plugin can't handle the mode.
if params.mode then
  local link = package.loaded['drawbridge.link']
  pcall(link and link.report_mode or type, params.mode, params.process)
end
return answer(result)
