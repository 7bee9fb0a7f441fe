--- The smallest test harness: named tests, waiting, and a last line with counts.

local M = { passed = 0, failed = 0, skipped = 0 }

---@param text string
local function print_line(text) io.stdout:write(text, '\n') end

--- Runs one test; an error is a failure.
---@param name string
---@param body fun()
function M.test(name, body)
  local fine, problem = xpcall(body, debug.traceback)
  if fine then
    M.passed = M.passed + 1
    print_line('ok   ' .. name)
  else
    M.failed = M.failed + 1
    print_line('FAIL ' .. name .. '\n' .. problem)
  end
  return fine
end

---@param name string
---@param reason string
function M.skip(name, reason)
  M.skipped = M.skipped + 1
  print_line(('skip %s: %s'):format(name, reason))
end

---@param expected any
---@param got any
---@param what? string
function M.equal(expected, got, what)
  if not vim.deep_equal(expected, got) then
    error(
      ('%s\nexpected: %s\ngot:      %s'):format(what or 'not equal', vim.inspect(expected), vim.inspect(got)),
      2
    )
  end
end

--- Waits until a condition holds.
---@param what string
---@param limit_ms integer
---@param condition fun(): any
function M.await(what, limit_ms, condition)
  if not vim.wait(limit_ms, function() return condition() and true or false end, 10) then
    error(('not within %d ms: %s'):format(limit_ms, what), 2)
  end
end

--- Prints the counts and ends Neovim.
function M.finish()
  print_line(('%d passed, %d failed, %d skipped'):format(M.passed, M.failed, M.skipped))
  io.stdout:flush()
  vim.cmd(M.failed == 0 and 'qall!' or 'cquit! 1')
end

return M
