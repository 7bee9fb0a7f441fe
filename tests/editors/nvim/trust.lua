-- Trust with the real program: the question, its answers, what they change, and what Neovim shows of it.

local harness, session = require('harness'), require('session')
local test, equal, await = harness.test, harness.equal, harness.await
local limit_ms = session.limit_ms

session.asks_for_trust = true
local CLOSED = '– not trusted: nothing is run'

local questions = {} ---@type string[]
local reply = 'Not now'
vim.ui.select = function(items, options, on_choice)
  table.insert(questions, options.prompt)
  on_choice(vim.iter(items):find(function(item) return item.title == reply end))
end

-- A module that leaves a mark wherever it is run.
local mark = vim.fn.tempname()
local function with_mark(lines) return vim.list_extend({ ("open('%s', 'w').close()"):format(mark) }, lines) end
local function has_run() return vim.fn.filereadable(mark) == 1 end

--- Whether Neovim shows only lenses with this title.
local function all_say(title)
  local titles = session.titles()
  return #titles > 0 and vim.iter(titles):all(function(shown) return shown == title end)
end

local path = session.open(with_mark)

test('an untrusted file has lenses that say so, and nobody is asked yet', function()
  session.client()
  await('lenses', limit_ms, function() return all_say(CLOSED) end)
  equal({}, questions)
end)

test('a save asks once, and with "Not now" runs nothing', function()
  vim.cmd('silent write')
  await('the question', limit_ms, function() return #questions == 1 end)
  local folder = vim.uv.fs_realpath(vim.fs.dirname(path))
  equal(
    true,
    questions[1]:find(('Do you trust %s and everything below it?'):format(folder), 1, true) ~= nil,
    questions[1]
  )
  vim.api.nvim_buf_set_lines(0, -1, -1, false, { 'changed = 1' })
  vim.cmd('silent write')
  -- Behind the end of this save's check comes the answer to the command.
  vim.cmd('Warpsmith check')
  await('the second question', limit_ms, function() return #questions == 2 end)
  equal(true, all_say(CLOSED))
  equal(false, has_run())
end)

test(':checkhealth shows it and starts no Python', function()
  vim.cmd('checkhealth warpsmith')
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  for _, wanted in ipairs({ 'not trusted: nothing is run', ':Warpsmith trust', 'doctor is not asked' }) do
    equal(true, text:find(wanted, 1, true) ~= nil, text)
  end
  vim.cmd('bwipeout!')
end)

test(':Warpsmith status says it', function()
  local said = vim.api.nvim_exec2('Warpsmith status', { output = true }).output
  equal(true, said:find('not trusted: nothing is run; :Warpsmith trust', 1, true) ~= nil, said)
  equal(true, vim.startswith(require('warpsmith').status(), CLOSED))
end)

test(':Warpsmith trust asks, and the answer lets a save run', function()
  reply = 'Trust'
  vim.cmd('Warpsmith trust')
  await('a lens that offers the check', limit_ms, function() return all_say('▶ check') end)
  equal(false, has_run(), 'nothing was asked to run')
  session.save()
  session.await_end()
  await('✓', limit_ms, session.is_passed)
  equal(true, has_run())
  equal(3, #questions)
end)

test('the next server remembers', function()
  session.stop()
  vim.cmd('edit!')
  session.client()
  await('a lens that offers the check', limit_ms, function() return all_say('▶ check') end)
  vim.cmd('checkhealth warpsmith')
  local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
  equal(true, text:find('buffers, trusted', 1, true) ~= nil, text)
  vim.cmd('bwipeout!')
  equal(3, #questions)
end)

test('a changed setting counts at once', function()
  vim.api.nvim_buf_set_lines(0, -1, -1, false, {
    '',
    '@triton.jit',
    'def odd(x):',
    '    tl.store(x + tl.arange(0, 96), 0)',
  })
  await('a static finding', limit_ms, function() return #session.findings() == 1 end)
  local client = session.client()
  client.settings = { warpsmith = { lint = { enable = false } } }
  client:notify('workspace/didChangeConfiguration', { settings = client.settings })
  await('none', limit_ms, function() return #session.findings() == 0 end)
end)

test('the text in the buffer is judged, saved or not', function()
  local saved = vim.fn.readfile(path)
  local wrong = session.plant_bug(saved)
  vim.api.nvim_buf_set_lines(0, 0, -1, false, wrong)
  equal(true, vim.bo.modified)
  vim.cmd('Warpsmith check')
  await('✗', limit_ms, function() return session.any_lens('✗ wrong') end)
  equal(saved, vim.fn.readfile(path))
end)

test('the server ends when asked', session.stop)

harness.finish()
