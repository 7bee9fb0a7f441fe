use tower_lsp::ls_types::MessageType;

use crate::lsp::global_state::GlobalState;
use crate::lsp::outbox::ClientRequest;

/// From now on messages that the client did not ask for may be sent.
pub(crate) fn initialized(state: &mut GlobalState) {
    state.initialized = true;
    for words in std::mem::take(&mut state.layers.untold) {
        state.say(MessageType::WARNING, words);
    }
    if state.client.registers_configuration {
        state.context.outbox.request(ClientRequest::RegisterSettings);
    }
    if state.client.configuration {
        state.layers.is_awaited = true;
        state.pull_settings();
    }
}
