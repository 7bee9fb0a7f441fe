use tower_lsp::ls_types::DidOpenTextDocumentParams;

use crate::lsp::convert::path_from;
use crate::lsp::file_state::FileState;
use crate::lsp::global_state::GlobalState;

/// The lenses are there from now on, and a verdict of the store soon; nothing is run before the user saves or asks.
pub(crate) fn did_open(state: &mut GlobalState, params: DidOpenTextDocumentParams) {
    let document = params.text_document;
    let mut file = FileState::new(path_from(&document.uri), &document, &state.settings.lints);
    file.is_trusted = file.path.as_ref().is_none_or(|path| state.context.gate.is_open_for(path));
    if let Some(forgotten) = state.files.remove(&document.uri) {
        tracing::warn!(uri = document.uri.as_str(), "opened twice without a close");
        // What the client shows of it must still be cleared.
        file.published = forgotten.published;
        state.cancel_check(&document.uri);
        state.touched.insert(document.uri.clone());
    }
    // Static findings stand before any run.
    if !file.lints.is_empty() {
        state.touched.insert(document.uri.clone());
    }
    state.files.insert(document.uri.clone(), file);
    state.ask_store(&document.uri);
}
