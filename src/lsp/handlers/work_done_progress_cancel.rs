use tower_lsp::ls_types::WorkDoneProgressCancelParams;

use crate::lsp::global_state::GlobalState;

pub(crate) fn work_done_progress_cancel(state: &mut GlobalState, params: &WorkDoneProgressCancelParams) {
    match state.file_of_progress(&params.token) {
        Some(uri) => state.cancel_check(&uri),
        None => tracing::debug!("a cancel of a progress that has ended"),
    }
}
