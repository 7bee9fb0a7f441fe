--- What the end-to-end tests share: a workspace with one kernel, and what the server told about it.

local harness = require('harness')

local M = {
  --- Progress values of the server, oldest first.
  ---@type table[]
  progress = {},
  --- Whether the real server must ask before it runs anything.
  asks_for_trust = false,
}

local is_real = vim.env.WARPSMITH_TEST_SERVER == 'real'

--- The real server starts Python and interprets every case; the stand-in answers at once.
M.limit_ms = is_real and 120000 or 10000

vim.api.nvim_create_autocmd('LspProgress', {
  callback = function(event) table.insert(M.progress, event.data.params.value) end,
})

--- The kernel of the test: the starter, or for the stand-in a small one of our own.
---@return string
local function kernel_path()
  local folder = vim.g.warpsmith_tests
  if is_real then
    return vim.fs.normalize(folder .. '/../../../kernels/triton/softmax.py')
  end
  return folder .. '/fixtures/softmax.py'
end

--- Makes a workspace with a copy of the kernel and opens it.
---@param change? fun(lines: string[]): string[]
---@return string path
function M.open(change)
  local folder = vim.fn.resolve(vim.fn.tempname())
  vim.fn.mkdir(folder, 'p')
  vim.fn.writefile({}, folder .. '/warpsmith.toml')
  local path = folder .. '/softmax.py'
  local lines = vim.fn.readfile(kernel_path())
  vim.fn.writefile(change and change(lines) or lines, path)
  if is_real and not M.asks_for_trust then
    local granted = vim.system({ vim.env.WARPSMITH_BIN, 'trust', folder }):wait()
    assert(granted.code == 0, granted.stderr)
  end
  vim.cmd.edit(path)
  return path
end

--- Takes the mask from the store, so that the last row is written past its end.
---@param lines string[]
---@return string[] lines
---@return integer line 1-based line of the store
function M.plant_bug(lines)
  local changed = vim.deepcopy(lines)
  for number, line in ipairs(lines) do
    if line:find('tl%.store%(.*, mask=[%w_]+%)') then
      changed[number] = line:gsub(', mask=[%w_]+%)', ')')
      return changed, number
    end
  end
  error('the kernel has no `tl.store(…, mask=NAME)` on one line to take the mask from')
end

---@return vim.lsp.Client
function M.client()
  harness.await('the server is attached', 10000, function()
    local client = vim.lsp.get_clients({ name = 'warpsmith', bufnr = 0 })[1]
    return client and client.initialized
  end)
  return vim.lsp.get_clients({ name = 'warpsmith', bufnr = 0 })[1]
end

--- Titles of the lenses on the screen of the current buffer, as drawn.
---@return string[]
function M.titles()
  local titles = {}
  for name, namespace in pairs(vim.api.nvim_get_namespaces()) do
    if vim.startswith(name, 'nvim.lsp.codelens:') then
      for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
        local text = vim.iter(mark[4].virt_text):map(function(chunk) return chunk[1] end):join('')
        table.insert(titles, text)
      end
    end
  end
  return titles
end

--- Inlay hints that Neovim has for the current buffer, each behind its 1-based line. Without a window they are not
--- drawn; `screen` looks at that.
---@return string[]
function M.hints()
  return vim.tbl_map(
    function(item) return ('%d: %s'):format(item.inlay_hint.position.line + 1, item.inlay_hint.label) end,
    vim.lsp.inlay_hint.get({ bufnr = 0 })
  )
end

--- Whether the lenses say that the text on the screen passed: a pass of this text, and nothing against it. A kernel
--- that no case launched has a lens without a verdict.
---@return boolean
function M.is_passed()
  local passed = false
  for _, title in ipairs(M.titles()) do
    if vim.startswith(title, '✗') then
      return false
    end
    if vim.startswith(title, '✓') and not title:find('(stale', 1, true) then
      passed = true
    end
  end
  return passed
end

--- Whether any lens begins with a sign.
---@param sign string
---@return boolean
function M.any_lens(sign)
  return vim.iter(M.titles()):any(function(title) return vim.startswith(title, sign) end)
end

--- Errors and warnings of warpsmith in the current buffer.
---@return vim.Diagnostic[]
function M.findings()
  return vim.tbl_filter(
    function(found) return found.source == 'warpsmith' end,
    vim.diagnostic.get(0, { severity = { min = vim.diagnostic.severity.WARN } })
  )
end

--- How many checks have begun and ended so far.
---@param kind 'begin'|'report'|'end'
---@return integer
function M.count(kind)
  return #vim.tbl_filter(function(value) return value.kind == kind end, M.progress)
end

--- Writes the buffer and waits until the check that this starts has begun.
function M.save()
  local before = M.count('begin')
  vim.cmd('silent write')
  harness.await('a check begins after the save', M.limit_ms, function() return M.count('begin') > before end)
end

--- Waits until every check that began has ended.
function M.await_end()
  harness.await('the check ends', M.limit_ms, function() return M.count('end') >= M.count('begin') end)
end

--- Messages that the stand-in got, by method.
---@param method string
---@return table[] params
function M.received(method)
  local params = {}
  if vim.fn.filereadable(vim.env.FAKE_LOG) == 0 then
    return params
  end
  for _, line in ipairs(vim.fn.readfile(vim.env.FAKE_LOG)) do
    local message = vim.json.decode(line)
    if message.method == method then
      table.insert(params, message.params or {})
    end
  end
  return params
end

--- Ends the server and says whether it went by itself.
function M.stop()
  local client = M.client()
  client:stop()
  harness.await('the server ends when asked', 5000, function() return client:is_stopped() end)
end

return M
