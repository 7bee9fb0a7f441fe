use std::collections::HashMap;
use std::ops;

use tower_lsp::ls_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, CodeActionResponse, DocumentChanges,
    NumberOrString, OneOf, OptionalVersionedTextDocumentIdentifier, TextDocumentEdit, TextEdit, Uri,
    WorkspaceEdit,
};

use super::execute_command::{CANCEL, CHECK, TRUST, command};
use crate::judge::{Code, draft_comment};
use crate::lint::Edit;
use crate::lsp::actions::ieee_dot::{self, ieee_dot};
use crate::lsp::actions::{describe, repro};
use crate::lsp::convert::{bytes_from, range_to};
use crate::lsp::diagnostics::SOURCE;
use crate::lsp::file_state::FileState;
use crate::lsp::global_state::Snapshot;

/// What the lenses offer, and the quick fixes of the findings in the range.
pub(crate) fn code_action(snapshot: &Snapshot, params: &CodeActionParams) -> Option<CodeActionResponse> {
    let file = snapshot.file.as_ref().filter(|file| file.path.is_some())?;
    let asked = bytes_from(&file.document, params.range, snapshot.client.encoding);
    let mut actions: CodeActionResponse = Vec::new();
    if snapshot.client.code_action_literals && wanted(params, &CodeActionKind::QUICKFIX) {
        actions.extend(ieee_fix(snapshot, file, params, &asked).map(CodeActionOrCommand::CodeAction));
        let of_lints = lint_fixes(snapshot, file, params, &asked).into_iter();
        actions.extend(of_lints.map(CodeActionOrCommand::CodeAction));
    }
    if snapshot.client.code_action_literals && wanted(params, &CodeActionKind::REFACTOR_REWRITE) {
        actions.extend(describe(snapshot, file, params, &asked).map(CodeActionOrCommand::CodeAction));
    }
    if snapshot.client.create_files
        && wanted(params, &CodeActionKind::REFACTOR)
        && concerns(file, params, &asked)
    {
        actions.extend(repro::action(file).map(CodeActionOrCommand::CodeAction));
    }
    if wanted(params, &CodeActionKind::EMPTY) && concerns(file, params, &asked) {
        let uri = &params.text_document.uri;
        let offer = match file.run {
            Some(_) => command(CANCEL, "Cancel the running check".to_owned(), uri, None),
            None if file.is_trusted => command(CHECK, "Check now".to_owned(), uri, None),
            None => command(TRUST, "Trust this folder, so that its kernels can be run".to_owned(), uri, None),
        };
        actions.push(if snapshot.client.code_action_literals {
            CodeActionOrCommand::CodeAction(CodeAction {
                title: offer.title.clone(),
                kind: Some(CodeActionKind::EMPTY),
                command: Some(offer),
                ..CodeAction::default()
            })
        } else {
            CodeActionOrCommand::Command(offer)
        });
    }
    Some(actions)
}

/// Whether the client asked for this kind, by itself or by one above it.
fn wanted(params: &CodeActionParams, kind: &CodeActionKind) -> bool {
    params.context.only.as_ref().is_none_or(|only| {
        only.iter().any(|asked| asked == kind || kind.as_str().starts_with(&format!("{}.", asked.as_str())))
    })
}

/// The range touches a launched kernel or one of our diagnostics.
fn concerns(file: &FileState, params: &CodeActionParams, asked: &ops::Range<usize>) -> bool {
    let ours = |source: &Option<String>| source.as_deref() == Some(SOURCE);
    params.context.diagnostics.iter().any(|diagnostic| ours(&diagnostic.source))
        || file.kernels.launched().any(|kernel| touches(&kernel.range, asked))
}

fn touches(one: &ops::Range<usize>, other: &ops::Range<usize>) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// The fix of the first `tf32` finding in the range whose line holds a product.
fn ieee_fix(
    snapshot: &Snapshot,
    file: &FileState,
    params: &CodeActionParams,
    asked: &ops::Range<usize>,
) -> Option<CodeAction> {
    let text = file.document.text();
    let groups = file.outcome.iter().flat_map(|outcome| &outcome.groups);
    let insertion = groups.filter(|group| group.code == Code::Tf32).find_map(|group| {
        let line = group.anchor.resolve(&file.kernels, &file.document).filter(|line| touches(line, asked))?;
        ieee_dot(&text, line)
    })?;
    let edit = vec![TextEdit {
        range: range_to(&file.document, &(insertion.at..insertion.at), snapshot.client.encoding),
        new_text: insertion.text.to_owned(),
    }];
    let code = Some(NumberOrString::String(Code::Tf32.name()));
    let fixed: Vec<_> =
        params.context.diagnostics.iter().filter(|shown| shown.code == code).cloned().collect();
    Some(CodeAction {
        title: ieee_dot::TITLE.to_owned(),
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: (!fixed.is_empty()).then_some(fixed),
        edit: Some(workspace_edit(snapshot, file, &params.text_document.uri, edit)),
        is_preferred: Some(true),
        ..CodeAction::default()
    })
}

/// The fixes of the static findings in the range.
fn lint_fixes(
    snapshot: &Snapshot,
    file: &FileState,
    params: &CodeActionParams,
    asked: &ops::Range<usize>,
) -> Vec<CodeAction> {
    let mut actions = Vec::new();
    for lint in file.lints.iter().filter(|lint| touches(&lint.range, asked)) {
        let code = Some(NumberOrString::String(lint.rule.name.to_owned()));
        let range = range_to(&file.document, &lint.range, snapshot.client.encoding);
        let shown = params.context.diagnostics.iter();
        let fixed: Vec<_> =
            shown.filter(|shown| shown.code == code && shown.range == range).cloned().collect();
        for fix in &lint.fixes {
            let edit = |edit: &Edit| TextEdit {
                range: range_to(&file.document, &edit.range, snapshot.client.encoding),
                new_text: edit.text.clone(),
            };
            let edits = fix.edits.iter().map(edit).collect();
            actions.push(CodeAction {
                title: fix.title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: (!fixed.is_empty()).then(|| fixed.clone()),
                edit: Some(workspace_edit(snapshot, file, &params.text_document.uri, edits)),
                is_preferred: Some(lint.fixes.len() == 1),
                ..CodeAction::default()
            });
        }
    }
    actions
}

/// A drafted comment above the function that launches the kernel in the range.
fn describe(
    snapshot: &Snapshot,
    file: &FileState,
    params: &CodeActionParams,
    asked: &ops::Range<usize>,
) -> Option<CodeAction> {
    let kernel = file.model.kernels.iter().find(|kernel| touches(&kernel.range, asked))?;
    let draft = draft_comment(file.path.as_deref()?, &file.document.text(), &file.model, kernel)?;
    let range = range_to(&file.document, &(draft.at..draft.at), snapshot.client.encoding);
    let edit = vec![TextEdit { range, new_text: draft.text }];
    Some(CodeAction {
        title: describe::TITLE.to_owned(),
        kind: Some(CodeActionKind::REFACTOR_REWRITE),
        edit: Some(workspace_edit(snapshot, file, &params.text_document.uri, edit)),
        ..CodeAction::default()
    })
}

/// With the version it was made for, where the client understands that.
fn workspace_edit(snapshot: &Snapshot, file: &FileState, uri: &Uri, edits: Vec<TextEdit>) -> WorkspaceEdit {
    if !snapshot.client.document_changes {
        return WorkspaceEdit {
            changes: Some(HashMap::from([(uri.clone(), edits)])),
            ..WorkspaceEdit::default()
        };
    }
    let version = Some(file.document.version());
    WorkspaceEdit {
        document_changes: Some(DocumentChanges::Edits(vec![TextDocumentEdit {
            text_document: OptionalVersionedTextDocumentIdentifier { uri: uri.clone(), version },
            edits: edits.into_iter().map(OneOf::Left).collect(),
        }])),
        ..WorkspaceEdit::default()
    }
}
