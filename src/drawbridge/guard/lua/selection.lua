--- For a `snapshot` with a selection: the text that the user has selected, as Neovim 0.10's `getregion` would return it.
local LIVE = 120e9 -- nanoseconds for which a selection counts after visual mode has ended
local LIMIT = 8000 -- characters
local SESSIONS = 50
local END_OF_LINE = 2147483647

--- The part of a line in the screen columns from `left` to `right`.
local function between(line, left, right)
  local column, parts = 0, {}
  for _, character in ipairs(fn.split(line:sub(1, 4 * LIMIT), '\\zs')) do
    local width = fn.strdisplaywidth(character, column)
    if column < right and column + width >= left then
      parts[#parts + 1] = character
    end
    column = column + width
  end
  return table.concat(parts)
end

--- The character that begins at `column` (in bytes, counted from 1), with its combining characters.
local function character_at(line, column)
  return fn.matchstr(line:sub(column, column + 99), '^.')
end

--- The first and the last screen column of the character at `column`.
local function columns(line, column)
  local before = fn.strdisplaywidth(line:sub(1, column - 1))
  return before + 1, before + math.max(fn.strdisplaywidth(character_at(line, column), before), 1)
end

--- Cuts the lines to the selected block; `first` and `last` are the whole lines in which it begins and ends.
local function cut_block(lines, first, last, place)
  local left, right = columns(first, place.from[3])
  local other_left, other_right = columns(last, place.to[3])
  if place.curswant >= END_OF_LINE then
    right = math.huge
  elseif other_right > right then
    right = vim.o.selection == 'exclusive' and other_left > right and other_left - 1 or other_right
  end
  for index, line in ipairs(lines) do
    lines[index] = between(line, math.min(left, other_left), right)
  end
end

--- The selection in `place`, whose buffer must be the current one; nil if it is empty or no longer exists.
local function selected(place)
  local from, to = place.from, place.to
  if to[2] < from[2] or (to[2] == from[2] and to[3] < from[3]) then
    from, to = to, from
  end
  local lines = api.nvim_buf_get_lines(place.buf, from[2] - 1, math.min(to[2], from[2] + LIMIT), false)
  local last = api.nvim_buf_get_lines(place.buf, to[2] - 1, to[2], false)[1]
  if not last then
    return nil
  elseif place.kind == '\22' then
    cut_block(lines, lines[1], last, { from = from, to = to, curswant = place.curswant })
  elseif place.kind == 'v' then
    if from[2] + #lines - 1 == to[2] then
      -- If both ends are the same, that character is still selected.
      local exclusive = vim.o.selection == 'exclusive' and (from[2] ~= to[2] or from[3] ~= to[3])
      lines[#lines] = last:sub(1, to[3] - 1 + (exclusive and 0 or #character_at(last, to[3])))
    end
    lines[1] = lines[1]:sub(from[3])
  end
  local text = table.concat(lines, '\n')
  local content = fn.strcharpart(text, 0, LIMIT)
  local cut = #content < #text or from[2] + #lines - 1 < to[2]
  return content ~= ''
      and {
        file_path = api.nvim_buf_get_name(place.buf),
        start_line = from[2],
        end_line = to[2],
        content = content,
        truncated = cut or nil,
        language = vim.bo[place.buf].filetype,
      }
    or nil
end

--- The selection if it is live: visual mode is on, or it ended a short while ago and the text has not changed since
--- visual mode began.
local function live_selection()
  local kind, left, buf = VISUAL[api.nvim_get_mode().mode:sub(1, 1)], guard.left, api.nvim_get_current_buf()
  if kind then
    local place =
      { buf = buf, kind = kind, from = fn.getpos('v'), to = fn.getpos('.'), curswant = fn.winsaveview().curswant }
    return is_file(buf) and selected(place) or nil
  end
  local counts = left and loop.hrtime() - left.at < LIVE and api.nvim_buf_is_loaded(left.buf) and is_file(left.buf)
  if counts and api.nvim_buf_get_changedtick(left.buf) == left.tick then
    return api.nvim_buf_call(left.buf, function()
      return selected(left)
    end)
  end
end

--- The live selection; null if nothing is selected, or if this agent session has received the same selection last.
local function selection(session)
  local found = live_selection()
  local print = found and fn.sha256(vim.json.encode(found))
  if not found or guard.given[session] == print then
    return vim.NIL
  end
  if not guard.given[session] then
    table.insert(guard.given, session)
    if #guard.given > SESSIONS then
      guard.given[table.remove(guard.given, 1)] = nil
    end
  end
  guard.given[session] = print
  return found
end
