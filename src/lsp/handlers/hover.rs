use tower_lsp::ls_types::{Hover, HoverContents, HoverParams, MarkupContent, MarkupKind};

use crate::lint::book;
use crate::lsp::convert::{byte_from, range_to};
use crate::lsp::global_state::Snapshot;
use crate::lsp::hover_text::hover_text;

/// What the last check found, on the name of a kernel and on the line of its lens; on a static finding, its page.
pub(crate) fn hover(snapshot: &Snapshot, params: &HoverParams) -> Option<Hover> {
    let file = snapshot.file.as_ref()?;
    let encoding = snapshot.client.encoding;
    let at = byte_from(&file.document, params.text_document_position_params.position, encoding);
    let kind = if snapshot.client.markdown { MarkupKind::Markdown } else { MarkupKind::PlainText };
    if let Some(lint) = file.lints.iter().find(|lint| lint.range.start <= at && at <= lint.range.end) {
        return Some(Hover {
            contents: HoverContents::Markup(MarkupContent { kind, value: book::page(lint.rule) }),
            range: Some(range_to(&file.document, &lint.range, encoding)),
        });
    }
    let line = file.document.line_of(at);
    let kernel = file.kernels.shown().find(|kernel| {
        let on_name = kernel.name_range.start <= at && at <= kernel.name_range.end;
        on_name || file.document.line_of(kernel.range.start) == line
    })?;
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind, value: hover_text(file, kernel)? }),
        range: Some(range_to(&file.document, &kernel.name_range, encoding)),
    })
}
