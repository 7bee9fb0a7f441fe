//! Edits against a naive model: a string, split into lines by the protocol's rules at every edit.
//!
//! complaint 13: panic or garbage after edits among CJK, emoji, combining marks or mixed line ends. Random edits of
//! random texts in all three encodings agree with the model, and no position panics. (What is shown in such texts:
//! `tests/lsp/columns.rs`.)

use proptest::prelude::*;

use super::super::position_of;
use super::*;

const ENCODINGS: [PositionEncoding; 3] =
    [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32];

fn position(line: u32, column: u32) -> Position {
    Position { line, column }
}

fn edit(from: (u32, u32), to: (u32, u32), text: &str) -> Change {
    Change { range: Some(position(from.0, from.1)..position(to.0, to.1)), text: text.to_owned() }
}

/// Lines of the protocol with their line breaks (`\n`, `\r\n`, `\r`), the last one possibly empty.
fn naive_lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let current = lines.last_mut().expect("never empty");
        current.push(character);
        if character == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if character == '\n' || character == '\r' {
            lines.push(String::new());
        }
    }
    lines
}

fn naive_line_feeds(text: &str) -> String {
    text.replace("\r\n", "\u{0}").replace('\r', "\n").replace('\u{0}', "\r\n")
}

/// Byte offset of a position in the naive model.
fn naive_byte(text: &str, place: Position, encoding: PositionEncoding) -> usize {
    let lines = naive_lines(text);
    let Some(line) = lines.get(place.line as usize) else { return text.len() };
    let before: usize = lines[..place.line as usize].iter().map(String::len).sum();
    let mut offset = before;
    let mut units = 0;
    for character in line.chars().take_while(|&c| c != '\n' && c != '\r') {
        units += match encoding {
            PositionEncoding::Utf8 => character.to_string().len(),
            PositionEncoding::Utf16 => character.encode_utf16(&mut [0; 2]).len(),
            PositionEncoding::Utf32 => 1,
        };
        if units > place.column as usize {
            break;
        }
        offset += character.len_utf8();
    }
    offset
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a"),
        Just("é"),
        Just("漢字"),
        Just("😀"),
        Just("👩‍🚀"),
        Just("e\u{301}"),
        Just("\u{2028}"),
        Just("\t"),
        Just(" "),
        Just("\n"),
        Just("\r\n"),
        Just("\r"),
        Just("def k():\n"),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Two positions in any order, a text, and whether the whole text is replaced.
type Edit = ((u32, u32), (u32, u32), String, bool);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = || (0u32..8, 0u32..14);
    proptest::collection::vec((place(), place(), texts(), proptest::bool::weighted(0.05)), 1..20)
}

proptest! {
    #[test]
    fn edits_agree_with_the_naive_model(start in texts(), edits in edits(), encoding in 0usize..3) {
        let encoding = ENCODINGS[encoding];
        let mut model = start.clone();
        let mut document = Document::new(&start, 0);
        for (index, (a, b, text, whole)) in edits.into_iter().enumerate() {
            let (from, to) = (a.min(b), a.max(b));
            let outside = from.0 as usize > naive_lines(&model).len();
            let before = model.clone();
            let change = if whole {
                model = text.clone();
                Change { range: None, text }
            } else {
                if !document.is_desynced() && !outside {
                    let from = naive_byte(&model, position(from.0, from.1), encoding);
                    let to = naive_byte(&model, position(to.0, to.1), encoding);
                    model.replace_range(from..to, &text);
                }
                edit(from, to, &text)
            };
            let splices = document.apply(std::slice::from_ref(&change), index as i32 + 1, encoding);
            prop_assert_eq!(document.rope().to_string(), &*model);
            prop_assert_eq!(&*document.text(), naive_line_feeds(&model));
            prop_assert_eq!(document.rope().len_lines(), naive_lines(&model).len());
            for splice in splices {
                prop_assert_eq!(&before[..splice.start], &model[..splice.start]);
                prop_assert_eq!(&before[splice.old_end..], &model[splice.new_end..]);
            }
        }
    }

    #[test]
    fn offsets_round_trip_in_every_encoding(text in texts()) {
        let document = Document::new(&text, 0);
        for encoding in ENCODINGS {
            for (offset, _) in text.char_indices() {
                let place = position_of(document.rope(), offset, encoding);
                let back = byte_of(document.rope(), place, encoding);
                prop_assert_eq!(back, naive_byte(&text, place, encoding));
                // The only places that have no position of their own are inside a line break.
                let in_break = text.as_bytes()[offset] == b'\n' && offset > 0 && text.as_bytes()[offset - 1] == b'\r';
                prop_assert_eq!(back, if in_break { offset - 1 } else { offset });
            }
        }
    }

    #[test]
    fn no_position_or_offset_panics(text in texts(), line in any::<u32>(), column in any::<u32>(), offset in any::<usize>()) {
        let document = Document::new(&text, 0);
        for encoding in ENCODINGS {
            prop_assert!(byte_of(document.rope(), position(line, column), encoding) <= text.len());
            position_of(document.rope(), offset, encoding);
            document.trimmed_line(line as usize);
            document.line_of(offset);
        }
    }
}

#[test]
fn changes_of_one_notification_build_on_each_other() {
    let mut document = Document::new("漢字\nabc\n", 1);
    let changes = [edit((0, 1), (0, 1), "\n"), edit((1, 1), (1, 1), "!"), edit((2, 0), (2, 3), "x")];
    document.apply(&changes, 2, PositionEncoding::Utf16);
    assert_eq!(&*document.text(), "漢\n字!\nx\n");
    assert_eq!(document.version(), 2);
}

#[test]
fn an_impossible_range_desyncs_until_the_next_whole_text() {
    let mut document = Document::new("abc\n", 1);
    document.apply(&[edit((0, 2), (0, 1), "x"), edit((0, 0), (0, 0), "y")], 2, PositionEncoding::Utf8);
    assert!(document.is_desynced());
    assert_eq!(&*document.text(), "abc\n");
    document.apply(&[edit((0, 0), (0, 0), "z")], 3, PositionEncoding::Utf8);
    assert_eq!(&*document.text(), "abc\n");
    document.apply(&[Change { range: None, text: "new\n".to_owned() }], 4, PositionEncoding::Utf8);
    assert!(!document.is_desynced());
    assert_eq!(&*document.text(), "new\n");
}

#[test]
fn a_whole_text_that_differs_in_one_place_moves_only_what_is_behind_it() {
    let mut document = Document::new("one\ntwo\nthree\n", 1);
    let splice = document.resync("one\nand a half\ntwo\nthree\n").expect("the text differs");
    assert_eq!(splice.shift(0), Some(0));
    assert_eq!(splice.shift("one\ntwo\n".len()), Some("one\nand a half\ntwo\n".len()));
    assert_eq!(document.resync("one\nand a half\ntwo\nthree\n"), None);
}

#[test]
fn a_splice_moves_what_follows_and_loses_what_it_replaced() {
    let splice = Splice { start: 4, old_end: 8, new_end: 5 };
    assert_eq!(
        [3, 4, 6, 8, 9].map(|offset| splice.shift(offset)),
        [Some(3), Some(4), None, Some(5), Some(6)]
    );
    let insertion = Splice { start: 4, old_end: 4, new_end: 6 };
    assert_eq!(insertion.shift(4), Some(6));
}

#[test]
fn lines_are_trimmed_to_what_is_written() {
    let document = Document::new("x\r\n    漢 = 1  \r\n\n", 1);
    let line = document.trimmed_line(1);
    assert_eq!(&document.text()[line], "漢 = 1");
    assert_eq!(document.trimmed_line(2), document.trimmed_line(2).start..document.trimmed_line(2).start);
    assert_eq!(document.line_of(3), 1);
}
