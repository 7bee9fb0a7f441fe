use tower_lsp::ls_types::{
    InlayHint, InlayHintLabel, InlayHintParams, InlayHintTooltip, MarkupContent, MarkupKind,
};

use crate::judge::timing::text;
use crate::lsp::convert::{bytes_from, range_to};
use crate::lsp::file_state::FileState;
use crate::lsp::global_state::Snapshot;

/// The time of each judged function that has one, at the end of the line of its `def`.
pub(crate) fn inlay_hint(snapshot: &Snapshot, params: &InlayHintParams) -> Option<Vec<InlayHint>> {
    let file = snapshot.file.as_ref()?;
    let outcome = file.outcome.as_ref()?;
    let encoding = snapshot.client.encoding;
    let asked = bytes_from(&file.document, params.range, encoding);
    let stale = match () {
        () if file.is_stale() => " (stale)",
        () if outcome.is_earlier() => " (earlier check)",
        () => "",
    };
    let hints = outcome.report.judgements().iter().filter_map(|part| {
        let at = line_end(file, part.entry.as_deref()?)?;
        let first = part.published().next()?;
        if !(asked.start..=asked.end).contains(&at) {
            return None;
        }
        let timings: Vec<_> = part.published().cloned().collect();
        let value = text::long(&timings, &part.not_timed);
        let tooltip = if snapshot.client.markdown {
            InlayHintTooltip::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
        } else {
            InlayHintTooltip::String(text::title(first))
        };
        Some(InlayHint {
            position: range_to(&file.document, &(at..at), encoding).start,
            label: InlayHintLabel::String(format!("{}{stale}", text::hint(first))),
            kind: None,
            text_edits: None,
            tooltip: Some(tooltip),
            padding_left: Some(true),
            padding_right: None,
            data: None,
        })
    });
    Some(hints.collect())
}

/// The byte where the line ends on which a function, or a class and its method (`Model.forward`), is defined; `None`
/// where the current text does not show it.
fn line_end(file: &FileState, entry: &str) -> Option<usize> {
    let name = entry.split('.').next()?;
    let function = file.model.function(name).map(|function| function.name_range.start);
    let bound = || file.model.bindings.iter().rfind(|binding| binding.name == name);
    let start = function.or_else(|| Some(bound()?.range.start))?;
    Some(file.document.trimmed_line(file.document.line_of(start)).end)
}
