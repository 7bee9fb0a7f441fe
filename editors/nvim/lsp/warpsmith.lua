-- Read by `vim.lsp.enable('warpsmith')`. Merge your own values with `vim.lsp.config('warpsmith', { … })`.

local neovim_handles_lens_refresh = vim.fn.has('nvim-0.12') == 1

---@type vim.lsp.Config
return {
  cmd = { 'warpsmith', 'lsp' },
  filetypes = { 'python', 'cuda' },
  root_markers = { 'warpsmith.toml', 'pyproject.toml', '.git' },
  workspace_required = false,
  -- Empty on purpose: every default is the server's own.
  settings = { warpsmith = vim.empty_dict() },
  -- The server asks for the settings as well; what is here it has from the beginning.
  before_init = function(params, config)
    local given = vim.tbl_get(config, 'settings', 'warpsmith') or {}
    local options = vim.tbl_deep_extend('force', given, config.init_options or {})
    params.initializationOptions = next(options) and options or vim.empty_dict()
  end,
  capabilities = {
    workspace = not neovim_handles_lens_refresh and { codeLens = { refreshSupport = true } } or nil,
    experimental = { serverStatusNotification = true },
  },
  handlers = {
    ['workspace/codeLens/refresh'] = not neovim_handles_lens_refresh and function(_, _, context)
      require('warpsmith.lens').refresh_client(context.client_id)
      return vim.NIL
    end or nil,
    ['workspace/inlayHint/refresh'] = function(_, _, context)
      require('warpsmith.hints').refresh_client(context.client_id)
      return vim.NIL
    end,
    ['experimental/serverStatus'] = function(_, status, context)
      require('warpsmith.server_status').record(context.client_id, status)
    end,
  },
}
