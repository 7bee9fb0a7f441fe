use tower_lsp::ls_types::MessageType;

use crate::lsp::global_state::GlobalState;
use crate::lsp::outbox::Outgoing;

/// From now on messages that the client did not ask for may be sent.
pub(crate) fn initialized(state: &mut GlobalState) {
    state.initialized = true;
    for mistake in std::mem::take(&mut state.setting_mistakes) {
        tracing::warn!("setting {mistake}");
        let words = format!("warpsmith: the setting {mistake}");
        state.context.outbox.send(Outgoing::Message(MessageType::WARNING, words));
    }
}
