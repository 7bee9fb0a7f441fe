//! Positions, ranges and paths between the protocol's types and ours.

use std::ops;
use std::path::{Path, PathBuf};

use tower_lsp::ls_types::{Position, Range, TextDocumentContentChangeEvent, Uri};

use crate::text::{self, Change, Document, PositionEncoding};

pub(crate) fn position_from(position: Position) -> text::Position {
    text::Position { line: position.line, column: position.character }
}

pub(crate) fn byte_from(document: &Document, position: Position, encoding: PositionEncoding) -> usize {
    text::byte_of(document.rope(), position_from(position), encoding)
}

pub(crate) fn bytes_from(document: &Document, range: Range, encoding: PositionEncoding) -> ops::Range<usize> {
    byte_from(document, range.start, encoding)..byte_from(document, range.end, encoding)
}

pub(crate) fn range_to(document: &Document, bytes: &ops::Range<usize>, encoding: PositionEncoding) -> Range {
    let position = |offset| {
        let place = text::position_of(document.rope(), offset, encoding);
        Position::new(place.line, place.column)
    };
    Range::new(position(bytes.start), position(bytes.end))
}

pub(crate) fn changes_from(changes: Vec<TextDocumentContentChangeEvent>) -> Vec<Change> {
    let convert = |change: TextDocumentContentChangeEvent| Change {
        range: change.range.map(|range| position_from(range.start)..position_from(range.end)),
        text: change.text,
    };
    changes.into_iter().map(convert).collect()
}

/// The path of a `file:` document. Other schemes have none: they cannot be judged, nothing imports them.
pub(crate) fn path_from(uri: &Uri) -> Option<PathBuf> {
    if uri.scheme().as_str() != "file" {
        return None;
    }
    let path = uri.to_file_path()?;
    path.is_absolute().then(|| path.into_owned())
}

pub(crate) fn uri_to(path: &Path) -> Option<Uri> {
    path.is_absolute().then(|| Uri::from_file_path(path)).flatten()
}
