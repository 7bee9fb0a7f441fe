if vim.g.loaded_warpsmith then
  return
end
vim.g.loaded_warpsmith = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify_once('warpsmith needs Neovim 0.11 or newer', vim.log.levels.ERROR)
  return
end

vim.api.nvim_create_user_command(
  'Warpsmith',
  function(options) require('warpsmith').command(options.fargs) end,
  {
    nargs = '*',
    complete = function(lead, line) return require('warpsmith').complete(lead, line) end,
    desc = 'Check GPU kernels: check, cancel, trust, log, doctor, status',
  }
)

-- A plugin manager makes the tags of the help; a folder that was only put on the runtimepath has none.
local doc = vim.fs.joinpath(vim.fs.dirname(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2))), 'doc')
if vim.fn.filereadable(vim.fs.joinpath(doc, 'tags')) == 0 and vim.fn.filewritable(doc) == 2 then
  pcall(vim.cmd.helptags, vim.fn.fnameescape(doc))
end

local group = vim.api.nvim_create_augroup('warpsmith', {})

---@param event string
---@param desc string
---@param act fun(client: vim.lsp.Client, event: table) only called for clients of warpsmith
local function on(event, desc, act)
  vim.api.nvim_create_autocmd(event, {
    group = group,
    desc = desc,
    callback = function(details)
      local client = vim.lsp.get_client_by_id(details.data.client_id)
      if client and client.name == 'warpsmith' then
        act(client, details)
      end
    end,
  })
end

on('LspAttach', 'Say that the server is too old', function(client)
  local problem = require('warpsmith.version').problem(client)
  if problem then
    vim.notify_once('warpsmith: ' .. problem, vim.log.levels.WARN)
  end
end)

on('LspAttach', 'Keep the code lenses of warpsmith up to date, and show its times', function(client, event)
  require('warpsmith.lens').attach(client, event.buf)
  require('warpsmith.hints').attach(client, event.buf)
end)

vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  desc = 'Show no inlay hints of other servers because of warpsmith',
  callback = function(details)
    local client = vim.lsp.get_client_by_id(details.data.client_id)
    if client and client.name ~= 'warpsmith' then
      require('warpsmith.hints').attach_other(client, details.buf)
    end
  end,
})

vim.api.nvim_create_autocmd('BufWipeout', {
  group = group,
  desc = 'Forget the inlay hints of a buffer that is gone',
  callback = function(details) require('warpsmith.hints').forget(details.buf) end,
})

on(
  'LspProgress',
  'Remember what warpsmith is doing, for the status line',
  function(client, event) require('warpsmith.progress').record(client.id, event.data.params) end
)

on('LspDetach', 'Forget the progress and the status of a server that ended', function(client)
  if client:is_stopped() then
    require('warpsmith.progress').forget(client.id)
    require('warpsmith.server_status').forget(client.id)
  end
end)
