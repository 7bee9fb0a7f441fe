use tower_lsp::ls_types::{CodeLens, CodeLensParams};

use super::execute_command::{CANCEL, CHECK, command};
use crate::lsp::convert::range_to;
use crate::lsp::global_state::Snapshot;
use crate::lsp::lens::{LensAction, lens};
use crate::lsp::lens_summary::{MOST_ROWS, summary};

/// One lens for each kernel that is launched here or by nobody here, on the first line of its decorators; for many
/// kernels one on the first line of the file.
pub(crate) fn code_lens(snapshot: &Snapshot, params: &CodeLensParams) -> Option<Vec<CodeLens>> {
    let file = snapshot.file.as_ref().filter(|file| file.path.is_some())?;
    let uri = &params.text_document.uri;
    let row = |line: usize, (title, action): (String, LensAction), kernel: Option<&str>| {
        let name = match action {
            LensAction::Check => CHECK,
            LensAction::Cancel => CANCEL,
        };
        CodeLens {
            range: range_to(&file.document, &file.document.trimmed_line(line), snapshot.client.encoding),
            command: Some(command(name, title, uri, kernel)),
            data: None,
        }
    };
    let shown: Vec<_> = file.kernels.shown().collect();
    if shown.len() > MOST_ROWS {
        return Some(vec![row(0, summary(file, &shown), None)]);
    }
    let rows = shown
        .into_iter()
        .map(|kernel| row(file.document.line_of(kernel.range.start), lens(file, kernel), Some(&kernel.name)));
    Some(rows.collect())
}
