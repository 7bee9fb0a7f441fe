//! Write the first wrong case down as one Python file beside the judged one.
//!
//! Offered when the last check found a wrong case and the text is still the one that was judged. The file needs
//! nothing but torch and Triton, and ends with status 1 while the bug is there.

use tower_lsp::ls_types::{
    CodeAction, CodeActionKind, CreateFile, CreateFileOptions, DocumentChangeOperation, DocumentChanges,
    OneOf, OptionalVersionedTextDocumentIdentifier, Position, Range, ResourceOp, TextDocumentEdit, TextEdit,
    Uri, WorkspaceEdit,
};

use crate::judge::repro;
use crate::lsp::file_state::FileState;

pub(crate) const TITLE: &str = "Write the wrong case down as a Python file";

pub(crate) fn action(file: &FileState) -> Option<CodeAction> {
    let path = file.path.as_deref()?;
    let report = &file.outcome.as_ref()?.report;
    let text = file.document.text();
    if blake3::hash(text.as_bytes()).to_hex().as_str() != report.provenance.source_hash {
        return None;
    }
    let record = repro::choose(report, None).ok()?;
    let script = repro::script(path, &text, record, None).ok()?;
    let name = format!("repro_{}", path.file_name()?.to_string_lossy());
    let uri = Uri::from_file_path(path.with_file_name(name))?;
    let options = CreateFileOptions { overwrite: Some(true), ignore_if_exists: None };
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
