-- `nvim --clean -u init.lua -l TEST`: the plug-in as a user has it, and a server named by the environment.

local folder = vim.fs.dirname(vim.fs.normalize(debug.getinfo(1, 'S').source:sub(2)))
local root = vim.fs.normalize(vim.fs.joinpath(folder, '..', '..', '..'))

vim.g.loaded_python3_provider = 0 -- looking for the provider takes seconds on some machines
vim.g.warpsmith_tests = folder
vim.opt.runtimepath:prepend(vim.fs.joinpath(root, 'editors', 'nvim'))
vim.opt.swapfile = false
vim.opt.shadafile = 'NONE'
package.path = folder .. '/?.lua;' .. package.path

local program = vim.env.WARPSMITH_TEST_SERVER == 'real' and vim.env.WARPSMITH_BIN
  or folder .. '/fake_server.py'
vim.lsp.config('warpsmith', { cmd = { assert(program, 'WARPSMITH_BIN is not set'), 'lsp' } })
vim.lsp.enable('warpsmith')
