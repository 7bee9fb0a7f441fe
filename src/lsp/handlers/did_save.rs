use tower_lsp::ls_types::{DidSaveTextDocumentParams, Uri};

use crate::judge::real_path;
use crate::lsp::dependents::{Saved, may_rest_on};
use crate::lsp::file_state::FileState;
use crate::lsp::global_state::GlobalState;
use crate::lsp::runs::Cause;

/// The saved text is judged, and so are open files whose verdicts may rest on it. Where the client's text and ours
/// differ, the client is right.
pub(crate) fn did_save(state: &mut GlobalState, params: DidSaveTextDocumentParams) {
    let uri = params.text_document.uri;
    let Some(file) = state.files.get_mut(&uri) else {
        tracing::warn!(uri = uri.as_str(), "a save of a document that is not open");
        return;
    };
    if let Some(saved) = &params.text {
        let healed = file.document.is_desynced();
        if file.resync(saved) {
            if !healed {
                tracing::error!(uri = uri.as_str(), "the saved text is not the edited one; taken over");
            }
            state.touched.insert(uri.clone());
        }
    }
    // Before the settings are known a check waits for them.
    if !state.settings.on_save.checks() && !state.layers.is_awaited {
        return;
    }
    if let Err(refusal) = state.request_check(&uri, Cause::Save) {
        tracing::debug!(uri = uri.as_str(), %refusal, "no check on this save");
    }
    let Some(saved) = state.files.get(&uri).and_then(|file| file.path.clone()) else { return };
    let saved = Saved { real: real_path(&saved), path: saved };
    let rests_on_it = |(other, file): (&Uri, &FileState)| may_rest_on(file, &saved).then(|| other.clone());
    let dependents: Vec<Uri> = state.files.iter().filter_map(rests_on_it).collect();
    for other in dependents {
        if let Err(refusal) = state.request_check(&other, Cause::Save) {
            tracing::debug!(uri = other.as_str(), %refusal, "no check although a file that it may use was saved");
        }
    }
}
