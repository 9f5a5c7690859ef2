-- What `make check` holds Lua to.
std = "luajit"
max_line_length = false -- the formatter's business
globals = { "vim" }
