-- The rules for Lua that `make check` enforces.
std = "luajit"
max_line_length = false -- the formatter's business
globals = { "vim" }
