-- From a wrong kernel to a right one, as a user sees it. Runs against the stand-in and against the real program
-- (WARPSMITH_TEST_SERVER=real): only what both promise is asked here.

local harness, session = require('harness'), require('session')
local test, equal, await = harness.test, harness.equal, harness.await
local limit_ms = session.limit_ms

local good_lines, bug_line
session.open(function(lines)
  local bad_lines
  good_lines = lines
  bad_lines, bug_line = session.plant_bug(lines)
  return bad_lines
end)

local is_attached = test('the server attaches with the project as its root', function()
  local client = session.client()
  equal(vim.fs.dirname(vim.api.nvim_buf_get_name(0)), vim.fs.normalize(client.root_dir))
end)
if not is_attached then
  harness.finish()
end

test('a lens stands at the kernel before anything is checked', function()
  await('lenses', limit_ms, function() return session.any_lens('▶ check') end)
  equal(false, session.is_passed(), 'nothing was checked yet')
  local kernel = require('warpsmith.lens').states(0)[1]
  local from = math.max(1, kernel.line - 3)
  local around = vim.api.nvim_buf_get_lines(0, from - 1, kernel.line + 5, false)
  equal(
    true,
    vim.iter(around):any(function(line) return line:find('triton.jit', 1, true) ~= nil end),
    'lens at a kernel'
  )
end)

test('a save shows progress, then an Error at the very line', function()
  session.save()
  equal(true, session.progress[1].cancellable, 'the check can be cancelled')
  session.await_end()
  await('a finding', limit_ms, function() return #session.findings() > 0 end)
  local at_line = vim.tbl_filter(
    function(found) return found.lnum == bug_line - 1 and found.code == 'out-of-bounds' end,
    session.findings()
  )
  if #at_line == 0 then
    error('no out-of-bounds at line ' .. bug_line .. ': ' .. vim.inspect(session.findings()))
  end
  equal(vim.diagnostic.severity.ERROR, at_line[1].severity)
  equal(true, #at_line[1].message > 0)
end)

test('the lens and the status line say wrong', function()
  await('✗', limit_ms, function() return session.any_lens('✗ wrong') end)
  equal(false, session.is_passed())
  equal(true, vim.startswith(require('warpsmith').status(), '✗ wrong'), require('warpsmith').status())
end)

test('an edit takes no wrong verdict for right', function()
  vim.api.nvim_buf_set_lines(0, 0, -1, false, good_lines)
  vim.api.nvim_exec_autocmds('TextChanged', { buffer = 0 })
  vim.wait(400)
  equal(false, session.is_passed(), 'the fixed text was not checked yet')
end)

test('fixed and saved, the finding is gone and the lens says passed', function()
  session.save()
  session.await_end()
  await('no finding', limit_ms, function() return #session.findings() == 0 end)
  await('✓', limit_ms, session.is_passed)
  equal(false, vim.startswith(require('warpsmith').status(), '✗'), require('warpsmith').status())
end)

test('an edit after a pass takes the pass away', function()
  local bad_lines = session.plant_bug(good_lines)
  vim.api.nvim_buf_set_lines(0, 0, -1, false, bad_lines)
  vim.api.nvim_exec_autocmds('TextChanged', { buffer = 0 })
  await(
    'new lenses, none with a pass of this text',
    5000,
    function() return #session.titles() > 0 and not session.is_passed() end
  )
end)

test('a cancelled check ends soon and passes nothing', function()
  -- A right kernel, because a wrong one is judged before there is anything to cancel; and a text of its own,
  -- because one that was judged before is answered from memory.
  vim.api.nvim_buf_set_lines(0, 0, -1, false, good_lines)
  vim.api.nvim_buf_set_lines(0, -1, -1, false, { '', 'NOT_JUDGED_BEFORE = True' })
  session.save()
  vim.cmd('Warpsmith cancel')
  await(
    'the end of the cancelled check',
    10000,
    function() return session.count('end') >= session.count('begin') end
  )
  vim.wait(300)
  equal(false, session.is_passed())
end)

test('a check can be asked for', function()
  vim.api.nvim_buf_set_lines(0, 0, -1, false, good_lines)
  -- This text has a verdict already, so the save alone may start nothing.
  vim.cmd('silent write')
  vim.wait(300)
  local before = session.count('begin')
  vim.cmd('Warpsmith check')
  await('a check begins', limit_ms, function() return session.count('begin') > before end)
  session.await_end()
  await('✓', limit_ms, session.is_passed)
  equal({}, session.findings())
end)

test(':checkhealth names the program and what the doctor found', function()
  vim.cmd('checkhealth warpsmith')
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  for _, wanted in ipairs({
    'OK Neovim 0.11',
    'OK warpsmith %d+%.%d+%.%d+',
    'OK server 1',
    'warpsmith doctor',
    '[Pp]ython',
    'kernels can be checked here',
  }) do
    if not text:find(wanted) then
      error(('`%s` is not in:\n%s'):format(wanted, text))
    end
  end
  vim.cmd('bwipeout!')
end)

test('the server ends when asked', session.stop)

harness.finish()
