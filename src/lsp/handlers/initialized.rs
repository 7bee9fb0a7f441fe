use crate::lsp::global_state::GlobalState;

/// From now on messages that the client did not ask for may be sent.
pub(crate) fn initialized(state: &mut GlobalState) {
    state.initialized = true;
}
