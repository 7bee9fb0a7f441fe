--- Which servers this plug-in can work with.

local M = {}

--- The oldest server that has everything that is asked of it here.
M.MINIMUM = '0.1.0'

---@param client vim.lsp.Client
---@return string? problem what is wrong with the version of a server, and what to do
function M.problem(client)
  local said = vim.tbl_get(client, 'server_info', 'version')
  local version = type(said) == 'string' and vim.version.parse(said, { strict = false }) or nil
  if version and not vim.version.lt(version, M.MINIMUM) then
    return nil
  end
  return ('the server is version %s, this plug-in needs %s or newer: run `cargo install --path .` in a checkout of it'):format(
    type(said) == 'string' and said or 'unknown',
    M.MINIMUM
  )
end

return M
