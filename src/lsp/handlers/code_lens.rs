use tower_lsp::ls_types::{CodeLens, CodeLensParams};

use super::execute_command::{CANCEL, CHECK, command};
use crate::lsp::convert::range_to;
use crate::lsp::global_state::Snapshot;
use crate::lsp::lens::{LensAction, lens};

/// One lens for each kernel that is launched here or by nobody here, on the first line of its decorators.
pub(crate) fn code_lens(snapshot: &Snapshot, params: &CodeLensParams) -> Option<Vec<CodeLens>> {
    let file = snapshot.file.as_ref().filter(|file| file.path.is_some())?;
    let lenses = file.kernels.shown().map(|kernel| {
        let (title, action) = lens(file, kernel);
        let name = match action {
            LensAction::Check => CHECK,
            LensAction::Cancel => CANCEL,
        };
        let line = file.document.trimmed_line(file.document.line_of(kernel.range.start));
        CodeLens {
            range: range_to(&file.document, &line, snapshot.client.encoding),
            command: Some(command(name, title, &params.text_document.uri, Some(&kernel.name))),
            data: None,
        }
    });
    Some(lenses.collect())
}
