use crate::lsp::global_state::GlobalState;

/// Checks end now, not only at `exit`: a client may take its time in between.
pub(crate) fn shutdown(state: &mut GlobalState) {
    state.cancel_all_checks();
}
