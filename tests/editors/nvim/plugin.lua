-- What the plug-in itself does, seen by the stand-in server.

local harness, session = require('harness'), require('session')
local test, equal, await = harness.test, harness.equal, harness.await

local notified = {} ---@type string[]
vim.notify = function(message) table.insert(notified, message) end

---@param text string
local function await_notified(text)
  await(('a message with `%s`'):format(text), 5000, function()
    return vim.iter(notified):any(function(message) return message:find(text, 1, true) ~= nil end)
  end)
end

---@param number integer
local function await_lens_requests(number)
  await(
    ('%d requests for lenses'):format(number),
    5000,
    function() return #session.received('textDocument/codeLens') >= number end
  )
end

test('without a server the command says so', function()
  vim.cmd('Warpsmith check')
  await_notified('no server for this buffer')
  equal('', require('warpsmith').status())
end)

test('a server that is missing or too old is told, with what to do', function()
  local version = require('warpsmith.version')
  for said, is_fine in pairs({ ['0.1.0'] = true, ['0.10.2'] = true, ['1.0.0'] = true, ['0.0.9'] = false }) do
    equal(is_fine, version.problem({ server_info = { version = said } }) == nil, said)
  end
  local problem = version.problem({})
  equal(true, problem ~= nil and problem:find('cargo install', 1, true) ~= nil, problem)
  local once = {} ---@type string[]
  local before = vim.notify_once
  vim.notify_once = function(message) table.insert(once, message) end
  local start = {
    name = 'warpsmith',
    cmd = vim.lsp.config.warpsmith.cmd,
    cmd_env = { FAKE_VERSION = '0.0.9', FAKE_LOG = '' },
  }
  local buffer = vim.api.nvim_create_buf(false, true)
  local id = assert(vim.lsp.start(start, { bufnr = buffer }))
  await('its complaint', 5000, function() return #once > 0 end)
  equal(true, once[1]:find('is version 0.0.9, this plug-in needs 0.1.0', 1, true) ~= nil, once[1])
  local client = assert(vim.lsp.get_client_by_id(id))
  client:stop()
  await('its end', 5000, function() return client:is_stopped() end)
  vim.api.nvim_buf_delete(buffer, { force = true })
  vim.notify_once = before
end)

test('health says how to get a program that is not there', function()
  local reported = {} ---@type string[]
  local before = vim.health
  vim.health = setmetatable({}, {
    __index = function()
      return function(message, advice)
        table.insert(reported, message .. ' ' .. table.concat(advice or {}, ' '))
      end
    end,
  })
  local cmd = vim.lsp.config.warpsmith.cmd
  vim.lsp.config('warpsmith', { cmd = { '/nowhere/warpsmith', 'lsp' } })
  require('warpsmith.health').check()
  vim.lsp.config('warpsmith', { cmd = cmd })
  vim.health = before
  local told = table.concat(reported, '\n')
  for _, words in ipairs({ '/nowhere/warpsmith cannot be run', 'cargo install --path .', 'vim.lsp.config' }) do
    equal(true, told:find(words, 1, true) ~= nil, told)
  end
end)

local given = { check = { onSave = 'full' }, gpu = { device = 'cuda:1', whenBusy = 'skip' } }
vim.lsp.config('warpsmith', { settings = { warpsmith = given } })
session.open()

test('settings reach the server in the handshake', function()
  session.client()
  local handshake = session.received('initialize')[1]
  equal(given, handshake.initializationOptions)
  equal(true, handshake.capabilities.workspace.codeLens.refreshSupport)
  equal(true, handshake.capabilities.workspace.inlayHint.refreshSupport)
  equal(true, handshake.capabilities.experimental.serverStatusNotification)
end)

test('an old answer does not replace a newer one', function()
  -- The stand-in holds its first answer (`▶ check`) until after the check.
  session.save()
  session.await_end()
  await('✓', 5000, session.is_passed)
  vim.wait(tonumber(vim.env.FAKE_SLOW_FIRST_LENS_MS) + 200)
  equal(true, session.is_passed(), table.concat(session.titles(), ', '))
end)

test('the time stands behind the def, and goes with the verdict', function()
  local line = vim.fn.search('^def kernel_fn')
  local shown = { ('%d: 1.83× torch · 412 µs'):format(line) }
  await('a hint', 5000, function() return vim.deep_equal(shown, session.hints()) end)
  vim.api.nvim_buf_set_lines(0, line, line, false, { '    # another text' })
  local stale = { shown[1] .. ' (stale)' }
  await('a stale hint', 5000, function() return vim.deep_equal(stale, session.hints()) end)
  session.save()
  session.await_end()
  await('a hint of this text', 5000, function() return vim.deep_equal(shown, session.hints()) end)
end)

test('who turns hints off has the last word', function()
  vim.lsp.inlay_hint.enable(false, { bufnr = 0 })
  require('warpsmith.hints').attach(session.client(), vim.api.nvim_get_current_buf())
  equal(false, vim.lsp.inlay_hint.is_enabled({ bufnr = 0 }))
  equal({}, session.hints())
end)

test('after a restart, hints are on again', function()
  local old = session.client()
  vim.lsp.enable('warpsmith', false)
  await('its end', 5000, function() return vim.lsp.get_client_by_id(old.id) == nil end)
  vim.lsp.enable('warpsmith')
  vim.cmd.doautocmd('nvim.lsp.enable FileType')
  equal(true, session.client().id ~= old.id)
  await('hints', 5000, function() return vim.lsp.inlay_hint.is_enabled({ bufnr = 0 }) end)
  session.save()
  session.await_end()
  await('a hint', 5000, function() return #session.hints() == 1 end)
end)

--- Another server that offers hints.
---@param buffer integer
---@return vim.lsp.Client
local function start_neighbour(buffer)
  local cmd = vim.lsp.config.warpsmith.cmd --[[@as string[] ]]
  local config = { name = 'neighbour', cmd = cmd, cmd_env = { FAKE_LOG = '' } }
  local id = assert(vim.lsp.start(config, { bufnr = buffer }))
  await(
    'the neighbour',
    5000,
    function()
      return #vim.lsp.get_clients({ bufnr = buffer, id = id, method = 'textDocument/inlayHint' }) == 1
    end
  )
  return assert(vim.lsp.get_client_by_id(id))
end

--- Attaches warpsmith to a new buffer, with an option, beside a server that offers hints too.
---@param option boolean?
---@param other? 'before'|'after' when the other server comes
---@return boolean enabled
local function hints_are_on(option, other)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.g.warpsmith = { inlay_hints = option }
  local neighbour = other == 'before' and start_neighbour(buffer)
  require('warpsmith.hints').attach(session.client(), buffer)
  neighbour = other == 'after' and start_neighbour(buffer) or neighbour
  local is_on = vim.lsp.inlay_hint.is_enabled({ bufnr = buffer })
  if neighbour then
    neighbour:stop()
    await('its end', 5000, function() return neighbour:is_stopped() end)
  end
  vim.api.nvim_buf_delete(buffer, { force = true })
  vim.g.warpsmith = nil
  return is_on
end

test('hints are shown where nobody else has any, or where the user says so', function()
  equal(true, hints_are_on(nil))
  equal(true, hints_are_on(true))
  equal(false, hints_are_on(false))
  equal(false, hints_are_on(nil, 'before'))
  equal(false, hints_are_on(nil, 'after'))
  equal(true, hints_are_on(true, 'before'))
  equal(true, hints_are_on(true, 'after'))
  -- What the user turned on everywhere stays on, whoever comes.
  vim.lsp.inlay_hint.enable(true)
  equal(true, hints_are_on(nil, 'after'))
  vim.lsp.inlay_hint.enable(false)
end)

test('lenses are asked for while one types, after a pause', function()
  local before = #session.received('textDocument/codeLens')
  for _ = 1, 5 do
    vim.api.nvim_buf_set_lines(0, -1, -1, false, { '# typed' })
    vim.api.nvim_exec_autocmds('TextChangedI', { buffer = 0 })
  end
  await_lens_requests(before + 1)
  vim.wait(300)
  equal(before + 1, #session.received('textDocument/codeLens'), 'one request for five changes')
  equal({ '✓ torch ref · 3 shapes · f32 (stale)' }, session.titles())
end)

test('lenses are asked for when a buffer is entered and left in insert mode', function()
  for _, event in ipairs({ 'BufEnter', 'InsertLeave' }) do
    local before = #session.received('textDocument/codeLens')
    vim.api.nvim_exec_autocmds(event, { buffer = 0 })
    await_lens_requests(before + 1)
  end
end)

test('check and cancel send the file and the kernel', function()
  session.save()
  vim.cmd('Warpsmith check softmax_kernel')
  vim.cmd('Warpsmith cancel')
  local uri = vim.uri_from_bufnr(0)
  await('both commands', 5000, function() return #session.received('workspace/executeCommand') == 2 end)
  local check, cancel = unpack(session.received('workspace/executeCommand'))
  equal(
    { 'warpsmith.check', { { uri = uri, kernel = 'softmax_kernel' } } },
    { check.command, check.arguments }
  )
  equal({ 'warpsmith.cancel', { { uri = uri } } }, { cancel.command, cancel.arguments })
  session.await_end()
end)

test('an error of the server is told', function()
  vim.cmd('Warpsmith check no_such_kernel')
  await_notified('check: no kernel no_such_kernel')
end)

test('the lens under the cursor runs', function()
  session.save()
  session.await_end()
  local before = session.count('begin')
  vim.api.nvim_win_set_cursor(0, { require('warpsmith.lens').states(0)[1].line + 1, 0 })
  vim.lsp.codelens.run()
  await('a check begins', 5000, function() return session.count('begin') > before end)
  session.await_end()
end)

test('the status line tells the running case', function()
  session.save()
  await(
    'a running case',
    5000,
    function()
      return require('warpsmith').status():find('^checking softmax.py: %d/3 M=%d N=127 · f32$') ~= nil
    end
  )
  session.await_end()
  await(
    'the verdict',
    5000,
    function() return require('warpsmith').status() == '✓ torch ref · 3 shapes · f32' end
  )
end)

test('the command completes', function()
  equal(
    { 'cancel', 'check', 'doctor', 'log', 'status', 'trust' },
    vim.fn.getcompletion('Warpsmith ', 'cmdline')
  )
  equal({ 'cancel', 'check' }, vim.fn.getcompletion('Warpsmith c', 'cmdline'))
  equal({ 'softmax_kernel' }, vim.fn.getcompletion('Warpsmith check ', 'cmdline'))
  equal({}, vim.fn.getcompletion('Warpsmith cancel ', 'cmdline'))
end)

test('an unknown subcommand is refused', function()
  vim.cmd('Warpsmith polish')
  await_notified('no subcommand polish; there are cancel, check, doctor, log, status, trust')
  vim.cmd('Warpsmith')
  await_notified('say what to do: cancel, check, doctor, log, status, trust')
end)

test(
  'the help is found without a plugin manager',
  function() equal(true, #vim.fn.getcompletion('warpsmith-trouble', 'help') == 1) end
)

test(':Warpsmith status tells server and kernels', function()
  local said = vim.api.nvim_exec2('Warpsmith status', { output = true }).output
  equal(true, said:find('warpsmith 0.1.0, root /', 1, true) ~= nil, said)
  equal(true, said:find('line %d+: softmax_kernel  ✓ torch ref') ~= nil, said)
end)

test(':Warpsmith doctor shows what the program says of this file and of the Python of the server', function()
  vim.lsp.config('warpsmith', {
    cmd_env = { WARPSMITH_PYTHON = '/mine/python' },
    settings = { warpsmith = { python = { path = '/named/python' } } },
  })
  local arguments = { '--python', '/named/python', vim.api.nvim_buf_get_name(0) }
  local said = vim.list_extend({ 'python: 3.11', 'gpu: no NVIDIA driver' }, arguments)
  table.insert(said, '/mine/python')
  vim.cmd('Warpsmith doctor')
  await(
    'its output',
    5000,
    function() return vim.deep_equal(said, vim.api.nvim_buf_get_lines(0, 0, -1, false)) end
  )
  equal(false, vim.bo.modifiable)
  vim.cmd.close()
end)

test(':Warpsmith log opens the newest log', function()
  local before = vim.env.XDG_STATE_HOME
  vim.env.XDG_STATE_HOME = vim.fn.tempname()
  vim.cmd('Warpsmith log')
  await_notified('no log yet')
  local folder = vim.fs.joinpath(vim.env.XDG_STATE_HOME, 'warpsmith', 'log')
  vim.fn.mkdir(folder, 'p')
  vim.fn.writefile({ 'one', 'two' }, folder .. '/a#%.log')
  vim.cmd('Warpsmith log')
  equal({ 'one', 'two' }, vim.api.nvim_buf_get_lines(0, 0, -1, false))
  equal(true, vim.bo.readonly)
  vim.cmd('bwipeout!')
  vim.env.XDG_STATE_HOME = before
end)

test('a progress that the user cancels ends', function()
  session.save()
  vim.cmd('Warpsmith cancel')
  session.await_end()
  equal('cancelled', session.progress[#session.progress].message)
end)

test('nothing is left after the server ended', function()
  local buffer = vim.api.nvim_get_current_buf()
  session.stop()
  await('the lenses are gone', 5000, function() return #session.titles() == 0 end)
  local groups = vim.tbl_filter(
    function(command) return (command.group_name or ''):find('^warpsmith.lens') ~= nil end,
    vim.api.nvim_get_autocmds({ buffer = buffer })
  )
  equal({}, groups)
  equal('', require('warpsmith').status())
end)

harness.finish()
