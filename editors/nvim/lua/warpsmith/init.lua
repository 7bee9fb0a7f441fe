--- warpsmith in Neovim: the user command and the text for status lines. There is no setup function; see
--- |warpsmith|.

local M = {}

---@param message string
---@param level? integer
local function say(message, level) vim.notify('warpsmith: ' .. message, level or vim.log.levels.INFO) end

--- The server of a buffer.
---@param buffer? integer
---@return vim.lsp.Client?
local function client_of(buffer) return vim.lsp.get_clients({ name = 'warpsmith', bufnr = buffer or 0 })[1] end

--- Runs a server command on the current file.
---@param command string
---@param title string
---@param kernel? string
local function execute(command, title, kernel)
  local client = client_of()
  if not client then
    say(
      "no server for this buffer; is vim.lsp.enable('warpsmith') called? :checkhealth warpsmith",
      vim.log.levels.WARN
    )
    return
  end
  local buffer = vim.api.nvim_get_current_buf()
  local call = {
    title = title,
    command = command,
    arguments = { { uri = vim.uri_from_bufnr(buffer), kernel = kernel } },
  }
  client:exec_cmd(call, { bufnr = buffer }, function(err)
    if err then
      say(('%s: %s'):format(title, err.message), vim.log.levels.ERROR)
    end
  end)
end

--- Where the server writes its log: the newest file of the folder, or the file itself.
---@return string?
function M.log_path()
  local state = vim.env.XDG_STATE_HOME or vim.fs.joinpath(vim.env.HOME or '~', '.local', 'state')
  local path = vim.fs.joinpath(state, 'warpsmith', 'log')
  local newest, newest_s
  if vim.fn.isdirectory(path) == 0 then
    return vim.fn.filereadable(path) == 1 and path or nil
  end
  for name, kind in vim.fs.dir(path) do
    local file = vim.fs.joinpath(path, name)
    local changed_s = vim.fn.getftime(file)
    if kind == 'file' and (not newest_s or changed_s > newest_s) then
      newest, newest_s = file, changed_s
    end
  end
  return newest
end

--- What `:Warpsmith status` prints.
---@return string[]
local function status_lines()
  local client = client_of()
  if not client then
    return { 'warpsmith: no server for this buffer' }
  end
  local name = vim.tbl_get(client, 'server_info', 'name') or 'warpsmith'
  local version = vim.tbl_get(client, 'server_info', 'version') or ''
  local lines = { vim.trim(('%s %s'):format(name, version)) .. ', root ' .. (client.root_dir or 'none') }
  if require('warpsmith.server_status').is_trusted(client.id) == false then
    table.insert(lines, '  not trusted: nothing is run; :Warpsmith trust')
  end
  for _, progress in ipairs(require('warpsmith.progress').running(client.id)) do
    table.insert(lines, '  running: ' .. require('warpsmith.progress').text(progress))
  end
  for _, kernel in ipairs(require('warpsmith.lens').states(vim.api.nvim_get_current_buf())) do
    table.insert(
      lines,
      ('  line %d: %s%s'):format(kernel.line + 1, kernel.kernel and kernel.kernel .. '  ' or '', kernel.title)
    )
  end
  return lines
end

---@type table<string, fun(arguments: string[])>
local subcommands = {
  -- The text in the buffer is judged, saved or not.
  check = function(arguments) execute('warpsmith.check', 'check', arguments[1]) end,
  cancel = function() execute('warpsmith.cancel', 'cancel') end,
  -- The server asks, and remembers the answer.
  trust = function() execute('warpsmith.trust', 'trust') end,
  log = function()
    local path = M.log_path()
    if not path then
      say(('no log yet; Neovim keeps what the server said in %s'):format(vim.lsp.log.get_filename()))
      return
    end
    vim.cmd.tabedit({ args = { path }, magic = { file = false, bar = false } })
    vim.bo.readonly = true
    vim.cmd.normal({ 'G', bang = true })
  end,
  doctor = function()
    local client = client_of()
    if client and require('warpsmith.server_status').is_trusted(client.id) == false then
      say(
        'the doctor starts the Python that it finds, which may be one of this folder: :Warpsmith trust first',
        vim.log.levels.WARN
      )
      return
    end
    require('warpsmith.doctor').show()
  end,
  status = function() vim.api.nvim_echo({ { table.concat(status_lines(), '\n') } }, true, {}) end,
}

--- `:Warpsmith`
---@param arguments string[]
function M.command(arguments)
  local name = arguments[1]
  local run = subcommands[name]
  if not run then
    local wrong = name and ('no subcommand %s; there are '):format(name) or 'say what to do: '
    say(wrong .. table.concat(M.complete('', 'Warpsmith '), ', '), vim.log.levels.ERROR)
    return
  end
  run(vim.list_slice(arguments, 2))
end

--- Completion of `:Warpsmith`: subcommands, then kernels of the buffer after `check`.
---@param lead string what is typed of the word
---@param line string the whole command line
---@return string[]
function M.complete(lead, line)
  local words = vim.split(line, '%s+', { trimempty = true })
  local position = #words - (lead ~= '' and 1 or 0)
  local candidates = {}
  if position <= 1 then
    candidates = vim.tbl_keys(subcommands)
  elseif position == 2 and words[2] == 'check' then
    for _, kernel in ipairs(require('warpsmith.lens').states(vim.api.nvim_get_current_buf())) do
      table.insert(candidates, kernel.kernel)
    end
  end
  candidates = vim.tbl_filter(function(word) return vim.startswith(word, lead) end, candidates)
  table.sort(candidates)
  return candidates
end

--- For a status line: what runs now, otherwise what the lenses of the buffer say; empty without a server.
---@param buffer? integer
---@return string
function M.status(buffer)
  local client = client_of(buffer)
  if not client then
    return ''
  end
  local running = require('warpsmith.progress').running(client.id)
  if #running > 0 then
    return require('warpsmith.progress').text(running[1])
  end
  local lens = require('warpsmith.lens')
  return lens.summary(lens.states(buffer and buffer ~= 0 and buffer or vim.api.nvim_get_current_buf()))
end

return M
