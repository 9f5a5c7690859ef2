--- The errors and warnings in a file that are new since `snapshot` stored the previous ones, at most `MOST`, and
--- whether a language server may still report some (`pending`).
local MOST = 20
local SEVERITIES = { 'error', 'warning' }

local function code_of(found)
  local code = found.code or vim.tbl_get(found, 'user_data', 'lsp', 'code')
  return code ~= nil and code ~= vim.NIL and tostring(code) or nil
end

local function key(found)
  return table.concat({ found.severity, found.message, found.source or '', code_of(found) or '' }, '\0')
end

--- The diagnostics in `now` without a counterpart in `before`. A counterpart has the same severity, message, source and
--- code; one on the same line is preferred.
local function added(before, now)
  local function unmatched(known, list, name)
    local counts = {}
    for _, found in ipairs(known) do
      counts[name(found)] = (counts[name(found)] or 0) + 1
    end
    return vim.tbl_filter(function(found)
      counts[name(found)] = (counts[name(found)] or 0) - 1
      return counts[name(found)] < 0
    end, list)
  end
  local function placed(found)
    return found.lnum .. '\0' .. key(found)
  end
  local gone = unmatched(now, before, placed)
  return unmatched(gone, unmatched(before, now, placed), key)
end

local function is_served(buf)
  if not package.loaded['vim.lsp'] then
    return false
  elseif vim.lsp.get_clients then
    return next(vim.lsp.get_clients({ bufnr = buf })) ~= nil
  end
  return next(vim.lsp.buf_get_clients(buf)) ~= nil
end

local buf = find({ params.file_path })[1][1]
local before = buf and guard.before[buf]
if not before then
  return answer({ new = {}, pending = false })
end
local now = package.loaded['vim.diagnostic']
  and vim.diagnostic.get(buf, { severity = { min = vim.diagnostic.severity.WARN } })
local new = added(before, now or {})
table.sort(new, function(a, b)
  if a.severity ~= b.severity then
    return a.severity < b.severity
  end
  return a.lnum < b.lnum
end)
local listed = {}
for index = 1, math.min(#new, MOST) do
  local found = new[index]
  listed[index] = {
    line = found.lnum + 1,
    severity = SEVERITIES[found.severity],
    message = found.message,
    source = found.source,
    code = code_of(found),
  }
end
return answer({ new = listed, pending = not guard.reported[buf] and is_served(buf) })
