//! Write the first wrong case down as one Python file beside the judged one.
//!
//! Offered when the last check found a wrong case and the text is still the one that was judged. The file needs
//! nothing but torch and Triton, and ends with status 1 while the bug is there.

use std::path::{Path, PathBuf};

use tower_lsp::ls_types::{
    CodeAction, CodeActionKind, CreateFile, CreateFileOptions, DocumentChangeOperation, DocumentChanges,
    OneOf, OptionalVersionedTextDocumentIdentifier, Position, Range, ResourceOp, TextDocumentEdit, TextEdit,
    Uri, WorkspaceEdit,
};

use crate::judge::repro;
use crate::lsp::file_state::FileState;

pub(crate) const TITLE: &str = "Write the wrong case down as a Python file";

/// With so many there, nobody reads another.
const MOST_NAMES: u32 = 99;

pub(crate) fn action(file: &FileState) -> Option<CodeAction> {
    let path = file.path.as_deref()?;
    let report = &file.outcome.as_ref()?.report;
    let text = file.document.text();
    if blake3::hash(text.as_bytes()).to_hex().as_str() != report.provenance.source_hash {
        return None;
    }
    let chosen = repro::choose(report, None).ok()?;
    let script = repro::script(path, &text, chosen, None).ok()?;
    let uri = Uri::from_file_path(free_name(path)?)?;
    let options = CreateFileOptions { overwrite: Some(false), ignore_if_exists: Some(false) };
    let create = CreateFile { uri: uri.clone(), options: Some(options), annotation_id: None };
    let start = Position::new(0, 0);
    let edit = TextEdit { range: Range::new(start, start), new_text: script };
    let fill = TextDocumentEdit {
        text_document: OptionalVersionedTextDocumentIdentifier { uri, version: None },
        edits: vec![OneOf::Left(edit)],
    };
    let operations =
        vec![DocumentChangeOperation::Op(ResourceOp::Create(create)), DocumentChangeOperation::Edit(fill)];
    Some(CodeAction {
        title: TITLE.to_owned(),
        kind: Some(CodeActionKind::REFACTOR),
        edit: Some(WorkspaceEdit {
            document_changes: Some(DocumentChanges::Operations(operations)),
            ..WorkspaceEdit::default()
        }),
        ..CodeAction::default()
    })
}

/// Of `repro_kernel.py`, `repro_2_kernel.py` and so on, beside the judged file, the first that does not exist.
fn free_name(judged: &Path) -> Option<PathBuf> {
    let name = judged.file_name()?.to_string_lossy();
    let numbered = (2..=MOST_NAMES).map(|number| format!("repro_{number}_{name}"));
    let mut names = std::iter::once(format!("repro_{name}")).chain(numbered);
    // A link to nowhere would be followed by whoever writes.
    names.find_map(|name| Some(judged.with_file_name(name)).filter(|path| path.symlink_metadata().is_err()))
}

#[cfg(test)]
mod tests {
    use super::free_name;

    #[test]
    fn what_is_there_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let judged = folder.path().join("k.py");
        for expected in ["repro_k.py", "repro_2_k.py", "repro_3_k.py"] {
            let free = free_name(&judged).unwrap();
            assert_eq!(free, folder.path().join(expected));
            std::fs::write(free, "mine").unwrap();
        }
    }
}
