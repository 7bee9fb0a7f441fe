--- Inlay hints: the short time behind the `def` of a judged function. Neovim shows the hints of all servers of a
--- buffer or none, so what others offer decides with us.

local M = {}

local METHOD = 'textDocument/inlayHint'

---@type table<integer, boolean>
--- Buffers in which nobody but us has turned hints on.
local ours = {}

--- What the user said: yes, no, or nothing.
---@return boolean?
local function wanted()
  local options = vim.g.warpsmith --[[@as warpsmith.Options?]]
  local hints = options and options.inlay_hints
  if type(hints) ~= 'boolean' then
    return nil
  end
  return hints
end

---@param buffer integer
---@return boolean
local function others_offer_hints(buffer)
  local clients = vim.lsp.get_clients({ bufnr = buffer, method = METHOD })
  return vim.iter(clients):any(function(client) return client.name ~= 'warpsmith' end)
end

--- Turns hints on in a buffer, once for each server that attaches to it: whoever turns them off there has the last
--- word until the server starts again. Then Neovim has turned them off itself, and nobody knows what was wanted.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach(client, buffer)
  if not client:supports_method(METHOD, buffer) or vim.b[buffer].warpsmith_hints_decided == client.id then
    return
  end
  local said = wanted()
  vim.b[buffer].warpsmith_hints_decided = client.id
  if said == false or vim.lsp.inlay_hint.is_enabled({ bufnr = buffer }) then
    return
  end
  if said or not others_offer_hints(buffer) then
    ours[buffer] = said == nil or nil
    vim.lsp.inlay_hint.enable(true, { bufnr = buffer })
  end
end

--- Takes back what only we turned on: a server that came later would show its hints, which nobody asked for.
---@param client vim.lsp.Client
---@param buffer integer
function M.attach_other(client, buffer)
  if ours[buffer] and client:supports_method(METHOD, buffer) then
    ours[buffer] = nil
    vim.lsp.inlay_hint.enable(false, { bufnr = buffer })
  end
end

--- Asks for the hints of every buffer of a client again. Neovim 0.11's own handler draws the old hints while the
--- answer is on its way and then takes the lines for drawn: the time of an older text would stay on the screen.
---@param client_id integer
function M.refresh_client(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  for buffer in pairs(client and client.attached_buffers or {}) do
    if vim.lsp.inlay_hint.is_enabled({ bufnr = buffer }) then
      vim.lsp.inlay_hint.enable(false, { bufnr = buffer })
      vim.lsp.inlay_hint.enable(true, { bufnr = buffer })
    end
  end
end

--- Numbers of buffers are not used again, but the list need not grow.
---@param buffer integer
function M.forget(buffer) ours[buffer] = nil end

return M
