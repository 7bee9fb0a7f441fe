use tower_lsp::ls_types::{DidCloseTextDocumentParams, PublishDiagnosticsParams};

use crate::lsp::global_state::GlobalState;
use crate::lsp::outbox::Outgoing;

/// Ends the check of the file and takes its diagnostics away: some editors keep showing them otherwise.
pub(crate) fn did_close(state: &mut GlobalState, params: &DidCloseTextDocumentParams) {
    let uri = &params.text_document.uri;
    state.cancel_check(uri);
    state.loops.closed(uri);
    if state.files.remove(uri).is_some_and(|file| !file.published.is_empty()) {
        let nothing = PublishDiagnosticsParams::new(uri.clone(), Vec::new(), None);
        state.context.outbox.send(Outgoing::Diagnostics(nothing));
    }
}
