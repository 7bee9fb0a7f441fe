use std::path::PathBuf;
use std::sync::Arc;

use tower_lsp::ls_types::{InitializeParams, InitializeResult, ServerInfo};

use crate::lsp::capabilities::{self, ClientProfile};
use crate::lsp::convert::path_from;
use crate::lsp::gate::Authority;
use crate::lsp::global_state::GlobalState;
use crate::lsp::parent;
use crate::trust::resolve;

pub(crate) fn initialize(state: &mut GlobalState, params: &InitializeParams) -> InitializeResult {
    let profile = ClientProfile::new(&params.capabilities);
    let client = params.client_info.as_ref();
    tracing::info!(client = client.map(|client| &*client.name), ?profile, "initialize");
    if let Some(pid) = params.process_id {
        let gone = state.context.parent_gone.clone();
        state.context.workers.spawn(parent::watch(pid, state.context.timing.parent_poll, gone));
    }
    let options = params.initialization_options.as_ref();
    state.take_initial_settings(options);
    let (authority, complaint) = Authority::of(options, profile.has_trust);
    let unreadable = state.context.gate.set(authority, workspace_of(params));
    complaint.into_iter().chain(unreadable).for_each(|words| state.say_once(words));
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

/// The folders that are open in the editor.
fn workspace_of(params: &InitializeParams) -> Vec<PathBuf> {
    let folders = params.workspace_folders.iter().flatten().map(|folder| &folder.uri);
    let mut paths: Vec<PathBuf> = folders.filter_map(path_from).collect();
    if paths.is_empty() {
        #[expect(deprecated, reason = "clients without workspace folders name their folder here")]
        paths.extend(params.root_uri.as_ref().and_then(path_from));
    }
    paths.iter().map(|path| resolve(path)).collect()
}
