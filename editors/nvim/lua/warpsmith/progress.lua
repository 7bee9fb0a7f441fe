--- What the server is doing, from its `$/progress` messages.

local M = {}

---@type table<integer, table<string|integer, warpsmith.Progress>>
local running = {}

--- Takes one progress message.
---@param client_id integer
---@param params { token: string|integer, value: table }
function M.record(client_id, params)
  local value = params.value
  if type(value) ~= 'table' then
    return
  end
  local of_client = running[client_id] or {}
  running[client_id] = of_client
  if value.kind == 'end' then
    of_client[params.token] = nil
  elseif value.kind == 'begin' or value.kind == 'report' then
    local known = of_client[params.token] or { title = '' }
    of_client[params.token] = {
      title = value.title or known.title,
      message = value.message or known.message,
      percentage = value.percentage or known.percentage,
    }
  end
  vim.schedule(function() vim.cmd.redrawstatus({ bang = true }) end)
end

--- Everything that runs now, in a fixed order.
---@param client_id integer
---@return warpsmith.Progress[]
function M.running(client_id)
  local of_client = running[client_id] or {}
  local tokens = vim.tbl_keys(of_client)
  table.sort(tokens, function(a, b) return tostring(a) < tostring(b) end)
  return vim.tbl_map(function(token) return of_client[token] end, tokens)
end

--- Forgets a client that has ended.
---@param client_id integer
function M.forget(client_id) running[client_id] = nil end

--- `checking softmax.py: M=127 N=1000 · f16 40%`
---@param progress warpsmith.Progress
---@return string
function M.text(progress)
  local text = progress.title
  if progress.message and progress.message ~= '' then
    text = text == '' and progress.message or ('%s: %s'):format(text, progress.message)
  end
  -- A message that already counts (`3/14`) says more than the same number as a percentage.
  if progress.percentage and not text:find('%d/%d') then
    text = ('%s %d%%'):format(text, progress.percentage)
  end
  return text
end

return M
