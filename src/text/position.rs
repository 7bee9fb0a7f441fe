//! Line and column of a client ⇄ UTF-8 byte offset.

use ropey::{Rope, RopeSlice};

/// The unit in which a client counts columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PositionEncoding {
    Utf8,
    /// What every client speaks, and what is spoken when nothing was agreed on.
    #[default]
    Utf16,
    Utf32,
}

impl PositionEncoding {
    /// Columns that one character occupies.
    pub fn units(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// A place as the client writes it: zero-based line, column in units of the agreed encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// Byte offset of `position`. A line past the end means the end of the text, a column past the end of its
/// line the end of that line (before the line break), a column inside a character its start.
pub fn byte_of(text: &Rope, position: Position, encoding: PositionEncoding) -> usize {
    let line = position.line as usize;
    if line >= text.len_lines() {
        return text.len_bytes();
    }
    text.line_to_byte(line) + column_bytes(content(text.line(line)), position.column as usize, encoding)
}

/// Line and column of byte `offset`. Clamped to the text; an offset inside a character or a line break
/// means its start.
pub fn position_of(text: &Rope, offset: usize, encoding: PositionEncoding) -> Position {
    let character = text.byte_to_char(offset.min(text.len_bytes()));
    let line = text.char_to_line(character);
    let line_content = content(text.line(line));
    let before = (character - text.line_to_char(line)).min(line_content.len_chars());
    let column = line_content.chars().take(before).map(|c| encoding.units(c)).sum::<usize>();
    Position { line: saturate(line), column: saturate(column) }
}

/// The line without its line break.
pub(super) fn content(line: RopeSlice<'_>) -> RopeSlice<'_> {
    let breaks = line.chars_at(line.len_chars()).reversed().take_while(|&c| c == '\n' || c == '\r').count();
    line.slice(..line.len_chars() - breaks)
}

/// Bytes of the characters of `line` that end at or before `column`.
fn column_bytes(line: RopeSlice<'_>, column: usize, encoding: PositionEncoding) -> usize {
    let mut units = 0;
    let mut bytes = 0;
    for character in line.chars() {
        units += encoding.units(character);
        if units > column {
            break;
        }
        bytes += character.len_utf8();
    }
    bytes
}

fn saturate(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "a漢😀b";

    fn position(column: u32) -> Position {
        Position { line: 0, column }
    }

    #[test]
    fn columns_are_counted_in_units_of_the_encoding() {
        let text = Rope::from_str(LINE);
        let after_emoji = "a漢😀".len();
        for (encoding, column) in
            [(PositionEncoding::Utf8, 8), (PositionEncoding::Utf16, 4), (PositionEncoding::Utf32, 3)]
        {
            assert_eq!(byte_of(&text, position(column), encoding), after_emoji, "{encoding:?}");
            assert_eq!(position_of(&text, after_emoji, encoding), position(column), "{encoding:?}");
        }
    }

    #[test]
    fn a_column_inside_a_character_is_its_start() {
        let text = Rope::from_str(LINE);
        assert_eq!(byte_of(&text, position(3), PositionEncoding::Utf16), "a漢".len());
        assert_eq!(byte_of(&text, position(2), PositionEncoding::Utf8), "a".len());
        assert_eq!(position_of(&text, 2, PositionEncoding::Utf8), position(1));
    }

    #[test]
    fn only_the_line_breaks_of_the_protocol_count() {
        let text = Rope::from_str("a\u{2028}b\u{000B}c\rd\r\ne\n");
        assert_eq!(text.len_lines(), 4);
        assert_eq!(
            position_of(&text, text.len_bytes(), PositionEncoding::Utf8),
            Position { line: 3, column: 0 }
        );
    }

    #[test]
    fn places_outside_the_text_are_clamped() {
        let text = Rope::from_str("ab\r\ncd");
        let encoding = PositionEncoding::Utf16;
        assert_eq!(byte_of(&text, position(99), encoding), 2);
        assert_eq!(byte_of(&text, Position { line: 99, column: 0 }, encoding), 6);
        assert_eq!(position_of(&text, 3, encoding), position(2));
        assert_eq!(position_of(&text, 99, encoding), Position { line: 1, column: 2 });
    }
}
