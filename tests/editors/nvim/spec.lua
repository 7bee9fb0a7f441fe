-- The parts of the plug-in that need no server.

local harness = require('harness')
local test, equal = harness.test, harness.equal
local doctor, lens, progress =
  require('warpsmith.doctor'), require('warpsmith.lens'), require('warpsmith.progress')

---@param line integer
---@param title string
---@param kernel? string
local function lens_at(line, title, kernel)
  return {
    range = { start = { line = line, character = 0 }, ['end'] = { line = line, character = 0 } },
    command = {
      title = title,
      command = 'warpsmith.check',
      arguments = { { uri = 'file:///k.py', kernel = kernel } },
    },
  }
end

---@param ... string one title for each kernel
local function summary_of(...)
  local lenses = {}
  for line, title in ipairs({ ... }) do
    table.insert(lenses, lens_at(line, title))
  end
  return lens.summary(lens.states_of(lenses))
end

test('a lens title is read by its sign', function()
  equal('passed', lens.state_of('✓ torch ref · 14 shapes'))
  equal('wrong', lens.state_of('✗ wrong: out-of-bounds · M=1 N=2 · f16'))
  equal('unchecked', lens.state_of('✓ torch ref · 14 cases (stale)'))
  equal('unchecked', lens.state_of('▶ check'))
  equal('other', lens.state_of('– could not run: torch is missing'))
  equal('other', lens.state_of('⟳ checking 3/14'))
  equal('other', lens.state_of('= HEAD (no reference)'))
end)

test('the verdict of a line wins over the action beside it', function()
  local states = lens.states_of({
    lens_at(3, '✓ torch ref', 'a'),
    lens_at(3, '▶ check', 'a'),
    lens_at(9, '▶ check', 'b'),
  })
  equal({ { line = 3, kernel = 'a', title = '✓ torch ref', state = 'passed' } }, { states[1] })
  equal({ line = 9, kernel = 'b', title = '▶ check', state = 'unchecked' }, states[2])
  equal(2, #states)
end)

test('a file passes only if every kernel passed', function()
  equal('', summary_of())
  equal('✓ torch ref', summary_of('✓ torch ref'))
  equal('✓ 2 kernels', summary_of('✓ torch ref', '✓ tests'))
  equal('▶ check', summary_of('✓ torch ref', '▶ check'))
  equal('not importable: pydantic', summary_of('✓ torch ref', 'not importable: pydantic', '▶ check'))
  equal(
    '✗ wrong: race (+1)',
    summary_of('✓ torch ref', '✗ wrong: race', 'compiled only', '✗ wrong: nan')
  )
end)

test('progress is remembered until its end', function()
  progress.record(7, { token = 'a', value = { kind = 'begin', title = 'checking k.py', percentage = 0 } })
  progress.record(7, { token = 'b', value = { kind = 'begin', title = 'starting Python' } })
  progress.record(
    7,
    { token = 'a', value = { kind = 'report', message = 'M=1 N=2 · f16', percentage = 40 } }
  )
  equal({
    { title = 'checking k.py', message = 'M=1 N=2 · f16', percentage = 40 },
    { title = 'starting Python' },
  }, progress.running(7))
  equal({}, progress.running(8))
  progress.record(7, { token = 'a', value = { kind = 'end' } })
  equal({ { title = 'starting Python' } }, progress.running(7))
  progress.forget(7)
  equal({}, progress.running(7))
end)

test('progress messages of other kinds are ignored', function()
  progress.record(7, { token = 'a', value = {} })
  progress.record(7, { token = 'a', value = vim.NIL })
  equal({}, progress.running(7))
end)

test('progress as text', function()
  equal('checking k.py', progress.text({ title = 'checking k.py' }))
  equal(
    'checking k.py: M=1 40%',
    progress.text({ title = 'checking k.py', message = 'M=1', percentage = 40 })
  )
  equal(
    'checking k.py: 3/14 M=1',
    progress.text({ title = 'checking k.py', message = '3/14 M=1', percentage = 21 })
  )
  equal('M=1', progress.text({ title = '', message = 'M=1' }))
end)

test('the doctor is read', function()
  local said = [[{"schema": "warpsmith.doctor/1", "can_check": true, "checks": [
    {"name": "python", "state": "found", "detail": "3.11", "remedy": null},
    {"name": "gpu", "state": "missing", "detail": "none", "remedy": "install a driver"}]}]]
  equal({
    can_check = true,
    checks = {
      { name = 'python', state = 'found', detail = '3.11' },
      { name = 'gpu', state = 'missing', detail = 'none', remedy = 'install a driver' },
    },
  }, doctor.parse(said))
end)

test('what the doctor does not say is never good news', function()
  local silent = { can_check = false, checks = { { name = 'a', state = 'unknown', detail = '' } } }
  equal(silent, doctor.parse('{"checks":[{"name":"a"}]}'))
end)

test('an unreadable doctor is told', function()
  equal(nil, doctor.parse(''))
  equal(nil, doctor.parse('thread main panicked'))
  equal(nil, doctor.parse('[]'))
  equal(nil, doctor.parse('{"checks": [1]}'))
end)

test('the newest log file is found', function()
  local state = vim.fn.tempname()
  local before = vim.env.XDG_STATE_HOME
  vim.env.XDG_STATE_HOME = state
  equal(nil, require('warpsmith').log_path())
  local folder = vim.fs.joinpath(state, 'warpsmith', 'log')
  vim.fn.mkdir(folder, 'p')
  vim.fn.writefile({}, folder .. '/new.log')
  vim.fn.writefile({}, folder .. '/old.log')
  vim.uv.fs_utime(folder .. '/old.log', 1, 1)
  equal(folder .. '/new.log', require('warpsmith').log_path())
  vim.env.XDG_STATE_HOME = before
end)

test('a program that does not answer is a problem, not a version', function()
  local version, problem = doctor.version('/does/not/exist')
  equal(nil, version)
  equal('string', type(problem))
end)

harness.finish()
