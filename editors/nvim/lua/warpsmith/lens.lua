--- Code lenses: kept fresh, and read for what they say. The server alone decides what a lens says; nothing here
--- turns the absence of a finding into a pass.

local M = {}

--- While one types, a lens is asked for again after this pause.
local TYPING_PAUSE_MS = 150

---@type table<integer, integer>
--- buffer → number of the newest request; an older answer is dropped
local newest_request = {}

---@type table<integer, uv.uv_timer_t>
local timers = {}

---@return boolean
local function enabled()
  local options = vim.g.warpsmith --[[@as warpsmith.Options?]]
  return not (options and options.codelens == false)
end

--- Asks for the lenses of one buffer. Neovim 0.11's own `refresh` drops a request while another is on its way, and
--- would leave the verdict of an older text on the screen.
---@param client vim.lsp.Client
---@param buffer integer
function M.refresh(client, buffer)
  if not enabled() or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local number = (newest_request[buffer] or 0) + 1
  newest_request[buffer] = number
  local params = { textDocument = vim.lsp.util.make_text_document_params(buffer) }
  client:request('textDocument/codeLens', params, function(err, result, context)
    if newest_request[buffer] ~= number then
      return
    end
    vim.lsp.codelens.on_codelens(err, result, context)
    vim.cmd.redrawstatus({ bang = true })
  end, buffer)
end

--- Asks for the lenses of every buffer of a client.
---@param client_id integer
function M.refresh_client(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client then
    return
  end
  for buffer in pairs(client.attached_buffers) do
    M.refresh(client, buffer)
  end
end

---@param client vim.lsp.Client
---@param buffer integer
local function refresh_after_pause(client, buffer)
  local timer = timers[buffer] or assert(vim.uv.new_timer())
  timers[buffer] = timer
  timer:start(
    TYPING_PAUSE_MS,
    0,
    vim.schedule_wrap(function()
      if vim.lsp.buf_is_attached(buffer, client.id) then
        M.refresh(client, buffer)
      end
    end)
  )
end

---@param buffer integer
local function forget(buffer)
  newest_request[buffer] = nil
  local timer = timers[buffer]
  timers[buffer] = nil
  if timer then
    timer:stop()
    timer:close()
  end
end

--- Shows the lenses of a buffer and keeps them fresh until the client detaches.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  if not client:supports_method('textDocument/codeLens', buffer) or not enabled() then
    return
  end
  if vim.lsp.codelens.enable then
    vim.lsp.codelens.enable(true, { bufnr = buffer })
    return
  end
  local group = vim.api.nvim_create_augroup(('warpsmith.lens.%d'):format(buffer), {})
  vim.api.nvim_create_autocmd({ 'BufEnter', 'InsertLeave', 'BufWritePost' }, {
    group = group,
    buffer = buffer,
    callback = function() M.refresh(client, buffer) end,
  })
  vim.api.nvim_create_autocmd({ 'TextChanged', 'TextChangedI' }, {
    group = group,
    buffer = buffer,
    callback = function() refresh_after_pause(client, buffer) end,
  })
  vim.api.nvim_create_autocmd({ 'LspDetach', 'BufUnload' }, {
    group = group,
    buffer = buffer,
    callback = function(event)
      if event.event == 'LspDetach' and event.data.client_id ~= client.id then
        return
      end
      forget(buffer)
      vim.api.nvim_del_augroup_by_id(group)
    end,
  })
  M.refresh(client, buffer)
end

--- The lenses of warpsmith in a buffer, in order of their lines.
---@param buffer integer
---@return lsp.CodeLens[]
local function lenses_of(buffer)
  local argument = vim.fn.has('nvim-0.12') == 1 and { bufnr = buffer } or buffer
  local ours = {}
  for _, item in ipairs(vim.lsp.codelens.get(argument)) do
    local lens = item.lens or item
    if lens.command and vim.startswith(lens.command.command or '', 'warpsmith.') then
      table.insert(ours, lens)
    end
  end
  table.sort(ours, function(a, b)
    local first, second = a.range.start, b.range.start
    if first.line ~= second.line then
      return first.line < second.line
    end
    return first.character < second.character
  end)
  return ours
end

--- What a lens title says, by its first sign. A pass of an older text is no pass of this one.
---@param title string
---@return 'wrong'|'other'|'unchecked'|'passed'
function M.state_of(title)
  if vim.startswith(title, '✗') then
    return 'wrong'
  end
  if vim.startswith(title, '▶') then
    return 'unchecked'
  end
  if vim.startswith(title, '✓') then
    return title:find('(stale', 1, true) and 'unchecked' or 'passed'
  end
  return 'other'
end

--- One entry for each line with lenses. A verdict says more than the `▶ check` beside it.
---@param lenses lsp.CodeLens[] in order of their lines
---@return warpsmith.KernelState[]
function M.states_of(lenses)
  local states = {} ---@type warpsmith.KernelState[]
  local weight = { unchecked = 0, passed = 1, other = 2, wrong = 3 }
  for _, lens in ipairs(lenses) do
    local found = {
      line = lens.range.start.line,
      kernel = vim.tbl_get(lens, 'command', 'arguments', 1, 'kernel'),
      title = lens.command.title,
      state = M.state_of(lens.command.title),
    }
    if type(found.kernel) ~= 'string' then
      found.kernel = nil
    end
    local last = states[#states]
    if not last or last.line ~= found.line then
      table.insert(states, found)
    else
      found.kernel = found.kernel or last.kernel
      if weight[found.state] > weight[last.state] then
        states[#states] = found
      end
    end
  end
  return states
end

--- What is known of every kernel of a buffer.
---@param buffer integer
---@return warpsmith.KernelState[]
function M.states(buffer) return M.states_of(lenses_of(buffer)) end

--- The kernels of a buffer in one phrase: the worst state, and passed only if every kernel passed.
---@param states warpsmith.KernelState[]
---@return string
function M.summary(states)
  for _, state in ipairs({ 'wrong', 'other', 'unchecked' }) do
    local found = vim.tbl_filter(function(kernel) return kernel.state == state end, states)
    if #found > 0 then
      return found[1].title .. (#found > 1 and (' (+%d)'):format(#found - 1) or '')
    end
  end
  if #states == 0 then
    return ''
  end
  return #states == 1 and states[1].title or ('✓ %d kernels'):format(#states)
end

return M
