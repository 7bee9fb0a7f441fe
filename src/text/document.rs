//! One open document: its text, its version, and edits applied strictly in order.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ropey::Rope;

use super::position::{Position, PositionEncoding, byte_of, content};

/// One edit of the client; without a range it is the whole new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub range: Option<Range<Position>>,
    pub text: String,
}

/// Bytes `start..old_end` were replaced, and the replacement ends at `new_end`. Minimal: what both texts
/// share at either end is left out, so an anchor beside the real change keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    pub start: usize,
    pub old_end: usize,
    pub new_end: usize,
}

impl Splice {
    /// Where byte `offset` of the old text stands in the new one; `None` when it was replaced.
    pub fn shift(&self, offset: usize) -> Option<usize> {
        if offset < self.start || (offset == self.start && self.old_end > self.start) {
            Some(offset)
        } else if offset >= self.old_end {
            Some(offset - self.old_end + self.new_end)
        } else {
            None
        }
    }
}

/// The text of an open file as the client has it. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Document {
    rope: Rope,
    version: i32,
    desynced: bool,
    whole: OnceLock<Arc<str>>,
}

impl Document {
    /// A document that was just opened.
    pub fn new(text: &str, version: i32) -> Self {
        Self { rope: Rope::from_str(text), version, desynced: false, whole: OnceLock::new() }
    }

    /// For the conversion of positions.
    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    /// The client's number of this text.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// An edit could not be applied, so the text is not the client's until the next whole text.
    pub fn is_desynced(&self) -> bool {
        self.desynced
    }

    /// Takes the text for one that is not the client's any more, until the next whole text.
    pub fn distrust(&mut self) {
        self.desynced = true;
    }

    /// The whole text with line feeds, see [`with_line_feeds`]; built once per version.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(self.whole.get_or_init(|| Arc::from(with_line_feeds(self.rope.to_string()))))
    }

    /// Applies the edits of one notification in order, each to the result of the one before. From the
    /// first edit that makes no sense the document is desynced, and edits with a range are ignored.
    pub fn apply(&mut self, changes: &[Change], version: i32, encoding: PositionEncoding) -> Vec<Splice> {
        self.version = version;
        changes.iter().filter_map(|change| self.apply_one(change, encoding)).collect()
    }

    /// Takes `text` as the truth and heals a desynced document. `None` when it is what we have.
    pub fn resync(&mut self, text: &str) -> Option<Splice> {
        self.desynced = false;
        let splice = self.replace(0..self.rope.len_bytes(), text);
        (splice.old_end > splice.start || splice.new_end > splice.start).then_some(splice)
    }

    fn apply_one(&mut self, change: &Change, encoding: PositionEncoding) -> Option<Splice> {
        let Some(range) = &change.range else { return self.resync(&change.text) };
        if self.desynced {
            return None;
        }
        if range.start > range.end || range.start.line as usize > self.rope.len_lines() {
            self.desynced = true;
            return None;
        }
        let bytes = byte_of(&self.rope, range.start, encoding)..byte_of(&self.rope, range.end, encoding);
        Some(self.replace(bytes, &change.text))
    }

    /// Replaces `bytes` (on character boundaries) by `text`, touching only what differs.
    fn replace(&mut self, bytes: Range<usize>, text: &str) -> Splice {
        let old = self.rope.byte_slice(bytes.clone()).to_string();
        let prefix = common_prefix(&old, text);
        let suffix = common_suffix(&old[prefix..], &text[prefix..]);
        let start = bytes.start + prefix;
        let old_end = bytes.end - suffix;
        let inserted = &text[prefix..text.len() - suffix];

        let start_char = self.rope.byte_to_char(start);
        self.rope.remove(start_char..self.rope.byte_to_char(old_end));
        self.rope.insert(start_char, inserted);
        self.whole = OnceLock::new();
        Splice { start, old_end, new_end: start + inserted.len() }
    }

    /// Zero-based line of byte `offset`, clamped.
    pub fn line_of(&self, offset: usize) -> usize {
        self.rope.byte_to_line(offset.min(self.rope.len_bytes()))
    }

    /// Bytes of a zero-based line without its line break and the blanks at both ends; a line past the end
    /// is the last one.
    pub fn trimmed_line(&self, line: usize) -> Range<usize> {
        let line = line.min(self.rope.len_lines().saturating_sub(1));
        let text = content(self.rope.line(line)).to_string();
        let start = self.rope.line_to_byte(line) + (text.len() - text.trim_start().len());
        start..start + text.trim().len()
    }
}

/// `text` with a line feed for each lone carriage return, which ends a line for clients and for Python, but not for
/// parsers. Every byte stays where it is.
pub fn with_line_feeds(text: String) -> String {
    let is_lone = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    if !text.match_indices('\r').any(|(at, _)| is_lone(at)) {
        return text;
    }
    text.char_indices()
        .map(|(at, letter)| if letter == '\r' && is_lone(at) { '\n' } else { letter })
        .collect()
}

/// Bytes of the longest common start, on a character boundary of both.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum()
}

fn common_suffix(a: &str, b: &str) -> usize {
    a.chars().rev().zip(b.chars().rev()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum()
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
