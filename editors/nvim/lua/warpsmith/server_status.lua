--- What the servers say of themselves, from `experimental/serverStatus`.

local M = {}

---@type table<integer, warpsmith.ServerStatus>
local statuses = {}

--- Takes one message; each replaces the one before.
---@param client_id integer
---@param status warpsmith.ServerStatus
function M.record(client_id, status)
  statuses[client_id] = status
  vim.schedule(function() vim.cmd.redrawstatus({ bang = true }) end)
end

--- Whether the code of the open kernels may be run; nil before the server has said so.
---@param client_id integer
---@return boolean?
function M.is_trusted(client_id)
  local status = statuses[client_id]
  return status and status.trusted
end

--- Forgets a client that has ended.
---@param client_id integer
function M.forget(client_id) statuses[client_id] = nil end

return M
