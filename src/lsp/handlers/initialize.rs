use std::sync::Arc;

use tower_lsp::ls_types::{InitializeParams, InitializeResult, ServerInfo};

use crate::lsp::capabilities::{self, ClientProfile};
use crate::lsp::global_state::GlobalState;
use crate::lsp::parent;
use crate::lsp::settings::Settings;

pub(crate) fn initialize(state: &mut GlobalState, params: &InitializeParams) -> InitializeResult {
    let profile = ClientProfile::new(&params.capabilities);
    let client = params.client_info.as_ref();
    tracing::info!(client = client.map(|client| &*client.name), ?profile, "initialize");
    if let Some(pid) = params.process_id {
        let gone = state.context.parent_gone.clone();
        state.context.workers.spawn(parent::watch(pid, state.context.timing.parent_poll, gone));
    }
    (state.settings, state.setting_mistakes) = Settings::read(params.initialization_options.as_ref());
    let capabilities = capabilities::server(&profile);
    state.client = Arc::new(profile);
    InitializeResult {
        capabilities,
        server_info: Some(ServerInfo {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        ..InitializeResult::default()
    }
}
