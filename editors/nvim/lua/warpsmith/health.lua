--- `:checkhealth warpsmith`

local M = {}

local function check_neovim()
  if vim.fn.has('nvim-0.11') == 1 then
    vim.health.ok('Neovim ' .. tostring(vim.version()))
  else
    vim.health.error('Neovim is too old', { 'install Neovim 0.11 or newer' })
  end
end

---@return string? program that answers
local function check_program()
  local doctor = require('warpsmith.doctor')
  local program = doctor.program()
  if not program then
    vim.health.info('the server is started by a function; its program cannot be checked')
    return nil
  end
  local path = vim.fn.exepath(program)
  if path == '' then
    vim.health.error(program .. ' cannot be run', {
      'install it with `cargo install --path .` in a checkout of warpsmith, or',
      "name it: vim.lsp.config('warpsmith', { cmd = { '/path/to/warpsmith', 'lsp' } })",
    })
    return nil
  end
  local version, problem = doctor.version(program)
  if not version then
    vim.health.error(('%s --version: %s'):format(path, problem))
    return nil
  end
  vim.health.ok(('%s (%s)'):format(version, path))
  return program
end

---@return boolean is_trusted no server says that its folder is not
local function check_server()
  local clients = vim.lsp.get_clients({ name = 'warpsmith' })
  local are_trusted = true
  for _, client in ipairs(clients) do
    local buffers = vim.tbl_count(client.attached_buffers)
    local problem = require('warpsmith.version').problem(client)
    if problem then
      vim.health.error(problem)
    end
    local text = ('server %d: root %s, %d buffers'):format(client.id, client.root_dir or 'none', buffers)
    local is_trusted = require('warpsmith.server_status').is_trusted(client.id)
    if is_trusted == false then
      are_trusted = false
      vim.health.warn(
        text .. ', not trusted: nothing is run',
        { 'say `:Warpsmith trust` in a kernel of that folder' }
      )
    else
      vim.health.ok(text .. (is_trusted and ', trusted' or ''))
    end
  end
  if #clients > 0 then
    return are_trusted
  end
  if vim.lsp.is_enabled and vim.lsp.is_enabled('warpsmith') then
    vim.health.info('no server runs: none of the open buffers is Python or CUDA')
  else
    vim.health.warn('the server is not enabled', { "add vim.lsp.enable('warpsmith') to your init.lua" })
  end
  return true
end

---@param check warpsmith.DoctorCheck
local function show(check)
  local text = check.detail ~= '' and ('%s: %s'):format(check.name, check.detail) or check.name
  if check.state == 'found' then
    vim.health.ok(text)
  elseif check.state == 'not-applicable' then
    vim.health.info(text)
  else
    vim.health.warn(
      check.state == 'missing' and text .. ' (missing)' or text,
      check.remedy and { check.remedy } or nil
    )
  end
end

---@param program string
local function check_environment(program)
  vim.health.start('warpsmith: warpsmith doctor')
  local report, problem = require('warpsmith.doctor').report(program)
  if not report then
    vim.health.error('warpsmith doctor --json: ' .. problem)
    return
  end
  if report.can_check then
    vim.health.ok('kernels can be checked here')
  else
    vim.health.error('kernels cannot be checked yet')
  end
  vim.iter(report.checks):each(show)
end

function M.check()
  vim.health.start('warpsmith')
  check_neovim()
  local program = check_program()
  local is_trusted = check_server()
  vim.health.info('log: ' .. (require('warpsmith').log_path() or 'none yet'))
  if program and is_trusted then
    check_environment(program)
  elseif program then
    -- The doctor starts the Python that it finds, which may be one of that folder.
    vim.health.info('warpsmith doctor is not asked before the folder is trusted')
  end
end

return M
