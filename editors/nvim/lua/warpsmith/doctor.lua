--- The warpsmith program outside the protocol: its path, its version, `warpsmith doctor`.

local M = {}

local VERSION_LIMIT_MS = 5000
--- The doctor starts Python to ask for versions, which takes seconds on a cold disk.
local DOCTOR_LIMIT_MS = 60000

--- The program that `vim.lsp.enable('warpsmith')` starts; nil when the user starts the server by a function.
---@return string?
function M.program()
  local config = vim.lsp.config.warpsmith
  local cmd = config and config.cmd
  return type(cmd) == 'table' and cmd[1] or nil
end

--- What the server gets in its environment, so that the doctor sees the Python that the server sees.
---@return table<string, string>
local function environment()
  local config = vim.lsp.config.warpsmith
  return vim.tbl_extend('force', config and config.cmd_env or {}, { NO_COLOR = '1' })
end

--- Runs the program and waits.
---@param arguments string[]
---@param limit_ms integer
---@return { code: integer, stdout: string, stderr: string }
local function run(arguments, limit_ms)
  local options = { text = true, timeout = limit_ms, env = environment() }
  local started, process = pcall(vim.system, arguments, options)
  if not started then
    return { code = -1, stdout = '', stderr = tostring(process) }
  end
  local ended = process:wait()
  return { code = ended.code, stdout = ended.stdout or '', stderr = ended.stderr or '' }
end

--- `warpsmith 0.1.0`, or nil and why not.
---@param program string
---@return string? version
---@return string? problem
function M.version(program)
  local ended = run({ program, '--version' }, VERSION_LIMIT_MS)
  local version = vim.trim(ended.stdout)
  if ended.code == 0 and version ~= '' then
    return version
  end
  return nil, vim.trim(ended.stderr) ~= '' and vim.trim(ended.stderr) or ('exit status %d'):format(ended.code)
end

--- Reads what `warpsmith doctor --json` prints.
---@param text string
---@return warpsmith.DoctorReport? report nil when the text is none
function M.parse(text)
  local is_json, decoded = pcall(vim.json.decode, text, { luanil = { object = true, array = true } })
  if not is_json or type(decoded) ~= 'table' or type(decoded.checks) ~= 'table' then
    return nil
  end
  local report = { can_check = decoded.can_check == true, checks = {} }
  for _, entry in ipairs(decoded.checks) do
    if type(entry) ~= 'table' or type(entry.name) ~= 'string' then
      return nil
    end
    table.insert(report.checks, {
      name = entry.name,
      state = type(entry.state) == 'string' and entry.state or 'unknown',
      detail = type(entry.detail) == 'string' and entry.detail or '',
      remedy = type(entry.remedy) == 'string' and entry.remedy or nil,
    })
  end
  return report
end

--- The interpreter that the user named in the settings of the server, as an option of the doctor.
---@return string[]
local function python_option()
  local path = vim.tbl_get(vim.lsp.config.warpsmith or {}, 'settings', 'warpsmith', 'python', 'path')
  return type(path) == 'string' and { '--python', path } or {}
end

--- Runs `warpsmith doctor --json`.
---@param program string
---@return warpsmith.DoctorReport? report
---@return string? problem
function M.report(program)
  local ended = run(vim.list_extend({ program, 'doctor', '--json' }, python_option()), DOCTOR_LIMIT_MS)
  local report = M.parse(ended.stdout)
  if report then
    return report
  end
  local said = vim.trim(ended.stderr)
  return nil, said ~= '' and said or ('no answer (exit status %d)'):format(ended.code)
end

--- Shows `warpsmith doctor` in a window of its own, without waiting.
function M.show()
  local program = M.program()
  if not program or vim.fn.executable(program) == 0 then
    vim.notify(
      ('warpsmith: cannot run %s; see :checkhealth warpsmith'):format(program or 'it'),
      vim.log.levels.ERROR
    )
    return
  end
  local arguments = vim.list_extend({ program, 'doctor' }, python_option())
  if vim.bo.buftype == '' and vim.api.nvim_buf_get_name(0) ~= '' then
    table.insert(arguments, vim.api.nvim_buf_get_name(0))
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { 'warpsmith doctor …' })
  vim.cmd.split()
  vim.api.nvim_win_set_buf(0, buffer)
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, desc = 'Close' })
  vim.system(arguments, { text = true, timeout = DOCTOR_LIMIT_MS, env = environment() }, function(ended)
    vim.schedule(function()
      if not vim.api.nvim_buf_is_valid(buffer) then
        return
      end
      local text = vim.trim((ended.stdout or '') .. '\n' .. (ended.stderr or ''))
      if text == '' then
        text = ('warpsmith doctor said nothing (exit status %d)'):format(ended.code)
      end
      vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(text, '\n'))
      vim.bo[buffer].modifiable = false
    end)
  end)
end

return M
