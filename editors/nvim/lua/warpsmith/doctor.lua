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

--- Runs the program and waits.
---@param arguments string[]
---@param limit_ms integer
---@return { code: integer, stdout: string, stderr: string }
local function run(arguments, limit_ms)
  local started, process = pcall(vim.system, arguments, { text = true, timeout = limit_ms })
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

---@param entry table
---@return warpsmith.DoctorCheck?
local function to_check(entry)
  local name = entry.name or entry.what or entry.check
  if type(name) ~= 'string' then
    return nil
  end
  local known = { ok = 'ok', found = 'ok', warning = 'warning', warn = 'warning', info = 'info' }
  known.error, known.missing, known['not-found'], known.failed = 'error', 'error', 'error', 'error'
  local status = entry.status
  if status == nil then
    status = entry.found
  end
  if status == nil then
    status = entry.ok
  end
  if type(status) == 'boolean' then
    status = status and 'ok' or 'missing'
  end
  local detail = entry.detail or entry.value or entry.message
  return {
    name = name,
    -- A word that this plugin does not know is shown, never taken for good news.
    status = known[status] or 'warning',
    detail = type(detail) == 'string' and detail or '',
    remedy = type(entry.remedy) == 'string' and entry.remedy or nil,
  }
end

--- Reads `warpsmith doctor --json`: an object with `checks`, or one object a line.
---@param text string
---@return warpsmith.DoctorCheck[]? checks nil when the text is neither
function M.parse(text)
  local entries = {}
  local whole, decoded = pcall(vim.json.decode, text, { luanil = { object = true, array = true } })
  if whole and type(decoded) == 'table' and decoded.checks then
    entries = decoded.checks
  else
    for line in vim.gsplit(text, '\n', { trimempty = true }) do
      local is_json, entry = pcall(vim.json.decode, line, { luanil = { object = true, array = true } })
      if not is_json or type(entry) ~= 'table' then
        return nil
      end
      vim.list_extend(entries, entry.checks or { entry })
    end
  end
  local checks = {}
  for _, entry in ipairs(entries) do
    local check = type(entry) == 'table' and to_check(entry)
    if check then
      table.insert(checks, check)
    end
  end
  return #checks > 0 and checks or nil
end

--- Runs `warpsmith doctor --json`.
---@param program string
---@return warpsmith.DoctorCheck[]? checks
---@return string? problem
function M.checks(program)
  local ended = run({ program, 'doctor', '--json' }, DOCTOR_LIMIT_MS)
  local checks = M.parse(ended.stdout)
  if checks then
    return checks
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
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { 'warpsmith doctor …' })
  vim.cmd.split()
  vim.api.nvim_win_set_buf(0, buffer)
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, desc = 'Close' })
  vim.system(
    { program, 'doctor' },
    { text = true, timeout = DOCTOR_LIMIT_MS, env = { NO_COLOR = '1' } },
    function(ended)
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
    end
  )
end

return M
