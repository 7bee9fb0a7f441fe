use tower_lsp::ls_types::DidOpenTextDocumentParams;

use crate::lsp::convert::path_from;
use crate::lsp::file_state::FileState;
use crate::lsp::global_state::GlobalState;

/// The lenses are there from now on; nothing is run before the user saves or asks.
pub(crate) fn did_open(state: &mut GlobalState, params: DidOpenTextDocumentParams) {
    let document = params.text_document;
    let file = FileState::new(path_from(&document.uri), &document.text, document.version);
    if state.files.insert(document.uri.clone(), file).is_some() {
        tracing::warn!(uri = document.uri.as_str(), "opened twice without a close");
        state.cancel_check(&document.uri);
    }
}
