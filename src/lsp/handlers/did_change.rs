use tower_lsp::ls_types::{DidChangeTextDocumentParams, MessageType};

use crate::lsp::convert::changes_from;
use crate::lsp::global_state::GlobalState;
use crate::lsp::outbox::Outgoing;

pub(crate) fn did_change(state: &mut GlobalState, params: DidChangeTextDocumentParams) {
    let uri = params.text_document.uri;
    let Some(file) = state.files.get_mut(&uri) else {
        tracing::warn!(uri = uri.as_str(), "a change of a document that is not open");
        return;
    };
    let version = params.text_document.version;
    if version <= file.document.version() {
        tracing::warn!(uri = uri.as_str(), version, "the version of the document did not grow");
    }
    let was_desynced = file.document.is_desynced();
    file.edit(&changes_from(params.content_changes), version, state.client.encoding);
    if file.document.is_desynced() && !was_desynced {
        tracing::error!(uri = uri.as_str(), version, "an edit does not fit the text");
        let words = "warpsmith lost track of a text: it is judged again after the next save";
        state.context.outbox.send(Outgoing::Message(MessageType::WARNING, words.to_owned()));
    }
    state.loops.edited();
    state.edited(uri);
}
