//! What holds for every comment, also for one that was cut, doubled or typed by a cat: nothing panics, items and
//! errors stand where they are said to stand, and what is printed is read again.

use proptest::prelude::*;

use super::parse::{Line, Parsed, parse};
use super::tests::{comment, found};
use crate::oracle::MissKind;

/// One change of a text, at a place from 0 (its beginning) to 1 (its end).
#[derive(Clone, Debug)]
enum Edit {
    Delete,
    Double,
    Insert(String),
    Replace(String),
    CutBehind,
    CutBefore,
}

fn edit() -> impl Strategy<Value = (f64, Edit)> {
    let piece = || {
        prop_oneof![
            "[=|\\[\\],:.()*+/<>-]",
            Just("=".repeat(3)),
            Just("99999999999999999999".to_owned()),
            Just("-1e999".to_owned()),
            Just("cdiv(".to_owned()),
            Just(" x=f16[M]".to_owned()),
            Just(" M=0".to_owned()),
            Just("é€\u{1F525}".to_owned()),
            Just("\t\u{a0}\u{2003}".to_owned()),
            Just("\u{0}\u{feff}\u{202e}".to_owned()),
            any::<char>().prop_map(|letter| letter.to_string()),
        ]
    };
    let kind = prop_oneof![
        Just(Edit::Delete),
        Just(Edit::Double),
        piece().prop_map(Edit::Insert),
        piece().prop_map(Edit::Replace),
        Just(Edit::CutBehind),
        Just(Edit::CutBefore),
    ];
    (0.0..1.0_f64, kind)
}

/// Applies an edit at a border between characters.
fn edited(text: &str, at: f64, edit: &Edit) -> String {
    let letters: Vec<char> = text.chars().collect();
    let place = ((letters.len() as f64 * at) as usize).min(letters.len());
    let (before, after) = letters.split_at(place);
    let (before, after) = (String::from_iter(before), String::from_iter(after));
    let rest = after.chars().skip(1).collect::<String>();
    match edit {
        Edit::Delete => before + &rest,
        Edit::Double => format!("{before}{}{after}", after.chars().take(1).collect::<String>()),
        Edit::Insert(piece) => format!("{before}{piece}{after}"),
        Edit::Replace(piece) => format!("{before}{piece}{rest}"),
        Edit::CutBehind => before,
        Edit::CutBefore => after,
    }
}

fn mutated() -> impl Strategy<Value = String> {
    (comment(), prop::collection::vec(edit(), 1..5)).prop_map(|(comment, edits)| {
        edits.iter().fold(comment.to_string(), |text, (at, edit)| edited(&text, *at, edit))
    })
}

/// Any text at all, also what is left of bytes that are none.
fn anything() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

/// Lines as they stand in a file: each behind a prefix, ended as Windows or others do.
fn in_file(text: &str, line_end: &str) -> (String, Vec<std::ops::Range<usize>>) {
    let mut file = "naïve = 'é'\n".to_owned();
    let mut lines = Vec::new();
    for line in text.split('\n') {
        file.push_str("# warpsmith: ");
        lines.push(file.len()..file.len() + line.len());
        file.push_str(line);
        file.push_str(line_end);
    }
    (file, lines)
}

/// Parses such a file; what was read or refused, after the places of it were looked at.
fn read_in_file(text: &str, line_end: &str) -> Result<Result<Parsed, String>, TestCaseError> {
    let (file, ranges) = in_file(text, line_end);
    let lines: Vec<Line<'_>> = ranges.iter().map(|line| (line.start, &file[line.clone()])).collect();
    let whole = ranges[0].start..ranges[ranges.len() - 1].end;
    let is_in_a_line = |range: &std::ops::Range<usize>| {
        ranges.iter().any(|line| line.start <= range.start && range.end <= line.end)
    };
    match parse(&lines, whole) {
        Ok(parsed) => {
            prop_assert_eq!(parsed.ranges.len(), parsed.comment.items.len());
            for (item, range) in parsed.comment.items.iter().zip(&parsed.ranges) {
                let word = file.get(range.clone());
                prop_assert!(word.is_some() && is_in_a_line(range), "{range:?} of {file:?}");
                let alone = parse(&[(0, word.unwrap_or_default())], 0..1).map(|parsed| parsed.comment.items);
                prop_assert_eq!(alone, Ok(vec![item.clone()]));
            }
            Ok(Ok(parsed))
        }
        Err(error) => {
            let word = file.get(error.range.clone());
            prop_assert!(word.is_some_and(|word| !word.is_empty()), "{:?} of {file:?}", error.range);
            prop_assert!(is_in_a_line(&error.range), "{:?} of {file:?}", error.range);
            prop_assert!(!error.message.is_empty());
            Ok(Err(error.message))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The same items, wherever the lines end.
    #[test]
    fn items_stand_where_they_were_written(
        comment in comment(),
        ends in prop::collection::vec(any::<bool>(), 8),
        line_end in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        let words: Vec<String> = comment.to_string().split_whitespace().map(str::to_owned).collect();
        let gap = |at: usize| if ends[at % ends.len()] { "\n" } else { " \t" };
        let mut text = String::new();
        for (at, word) in words.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { gap(at) });
            text.push_str(word);
        }
        let read = read_in_file(&text, line_end)?;
        prop_assert_eq!(read.map(|parsed| parsed.comment), Ok(comment));
    }

    /// A comment that is no longer what it was is read or refused, and what is read can be printed.
    #[test]
    fn a_mutated_comment_is_read_or_refused_at_its_place(text in mutated()) {
        if let Ok(parsed) = read_in_file(&text.replace('\n', " "), "\n")? {
            let printed = parsed.comment.to_string();
            let again = read_in_file(&printed, "\n")?;
            prop_assert_eq!(again.map(|parsed| parsed.comment), Ok(parsed.comment), "{}", printed);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_at_its_place(text in anything()) {
        if let Ok(parsed) = read_in_file(&text, "\n")? {
            let printed = parsed.comment.to_string();
            let again = read_in_file(&printed, "\n")?;
            prop_assert_eq!(again.map(|parsed| parsed.comment), Ok(parsed.comment), "{}", printed);
        }
    }
}

proptest! {
    /// From the file to the Definition: what is refused is refused inside the comment.
    #[test]
    fn a_mutated_comment_in_a_file_is_refused_inside_the_comment(
        text in prop_oneof![mutated(), anything()],
        line_end in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        const KERNEL: &str = "import triton\n\n@triton.jit\ndef kernel(x): pass\n\ndef ref(x): return x\n\n";
        let text = text.replace(['\n', '\r'], " ");
        let (comment, _) = in_file(&text, line_end);
        let before = format!("{KERNEL}{comment}");
        let file = format!("{before}def silu(x, eps=1e-6): kernel[(1,)](x)\n");
        if let Err(miss) = found(&file)
            && matches!(miss.kind, MissKind::Comment(_))
        {
            let range = miss.range.clone().unwrap_or_default();
            prop_assert!(file.get(range.clone()).is_some_and(|word| !word.is_empty()), "{miss}: {file:?}");
            prop_assert!(KERNEL.len() <= range.start && range.end <= before.len(), "{miss}: {file:?}");
        }
    }
}
