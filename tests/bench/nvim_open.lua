-- How long a user of Neovim waits: from `:edit` to the lens on the screen's text, with a server to start and with one
-- that runs, and from `:write` to the verdict. Prints one line of JSON. `WARPSMITH_BIN` names the program.
--
--   WARPSMITH_TEST_SERVER=real nvim --clean -u tests/editors/nvim/init.lua -l tests/bench/nvim_open.lua KERNEL REPEATS

local session = require('session')
local kernel, repeats = _G.arg[1], tonumber(_G.arg[2])
local lines = vim.fn.readfile(kernel)

---@param what fun(): any
---@return number milliseconds
local function await(what)
  local began = vim.uv.hrtime()
  assert(vim.wait(120000, what, 1), 'it never came')
  return (vim.uv.hrtime() - began) / 1e6
end

local folder = vim.fn.resolve(vim.fn.tempname())
vim.fn.mkdir(folder, 'p')
vim.fn.writefile({}, folder .. '/warpsmith.toml')

---@param name string
---@return number milliseconds
local function open(name)
  local path = ('%s/%s.py'):format(folder, name)
  vim.fn.writefile(session.plant_bug(lines), path)
  local began = vim.uv.hrtime()
  vim.cmd.edit(path)
  await(function() return session.titles()[1] == '▶ check' end)
  return (vim.uv.hrtime() - began) / 1e6
end

local first = open('first')
local began = vim.uv.hrtime()
vim.cmd.write()
await(function() return #vim.diagnostic.get(0, { severity = 'ERROR' }) > 0 end)
local verdict = (vim.uv.hrtime() - began) / 1e6
local later = {}
for number = 1, repeats do
  table.insert(later, open('later' .. number))
end
print(vim.json.encode({ first_open_ms = first, first_verdict_ms = verdict, later_open_ms = later }))
session.stop()
