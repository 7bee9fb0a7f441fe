use tower_lsp::ls_types::DidChangeConfigurationParams;

use crate::lsp::global_state::GlobalState;

/// What the message holds differs from client to client, so it is only a reason to ask; from one that cannot be asked it
/// is all there is.
pub(crate) fn did_change_configuration(state: &mut GlobalState, params: DidChangeConfigurationParams) {
    if state.client.configuration {
        state.pull_settings();
    } else if !params.settings.is_null() {
        state.settings_came(params.settings);
    }
}
