//! Ask for IEEE float32 products.
//!
//! Offered on a `tf32` finding: the result is what a product with TF32 inputs gives (10 bits of fraction),
//! and the reference computes in float32.
//!
//! Before:
//! ```python
//! acc += tl.dot(a, b)
//! ```
//! After:
//! ```python
//! acc += tl.dot(a, b, input_precision="ieee")
//! ```
//! Not offered when the line holds no `tl.dot(`, or when its calls already name a precision.

use std::ops::Range;

pub(crate) const TITLE: &str = "Compute this product in IEEE float32 (input_precision=\"ieee\")";

/// Text to insert at a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Insertion {
    pub(crate) at: usize,
    pub(crate) text: &'static str,
}

const CALL: &str = "tl.dot(";

/// The edit for the first `tl.dot(` that begins on `line` (bytes of `text`) and names no precision.
pub(crate) fn ieee_dot(text: &str, line: Range<usize>) -> Option<Insertion> {
    let mut begin = line.start;
    loop {
        begin += text.get(begin..line.end)?.find(CALL)?;
        let after_name = begin + CALL.len();
        // `my_tl.dot(` is somebody else's.
        let own_name =
            text[..begin].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '.');
        if own_name && let Some(insertion) = insertion(text, after_name) {
            return Some(insertion);
        }
        begin = after_name;
    }
}

/// Where the keyword goes in the call whose arguments begin at `open`.
fn insertion(text: &str, open: usize) -> Option<Insertion> {
    let mut depth = 1usize;
    let mut last_code: Option<(usize, char)> = None;
    let mut rest = Scanner { text, at: open };
    while let Some((at, token)) = rest.next() {
        match token {
            Token::Code('(' | '[' | '{') => depth += 1,
            Token::Code(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let arguments = &text[open..at];
            let named = ["input_precision", "allow_tf32"].iter().any(|name| arguments.contains(name));
            let (end, last) = last_code.filter(|_| !named)?;
            let text = if last == ',' { " input_precision=\"ieee\"" } else { ", input_precision=\"ieee\"" };
            return Some(Insertion { at: end, text });
        }
        match token {
            Token::Code(character) if !character.is_whitespace() => last_code = Some((rest.at, character)),
            Token::String => last_code = Some((rest.at, '"')),
            _ => {}
        }
    }
    None
}

/// Characters of Python code; strings and comments are one token each.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

enum Token {
    Code(char),
    String,
    Comment,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<(usize, Token)> {
        let start = self.at;
        let rest = self.text.get(start..)?;
        let first = rest.chars().next()?;
        let (token, length) = match first {
            '#' => (Token::Comment, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => (Token::String, string_length(rest, first)),
            _ => (Token::Code(first), first.len_utf8()),
        };
        self.at += length;
        Some((start, token))
    }
}

/// Bytes of the string at the start of `rest`, with both quotes; all of `rest` when it does not end.
fn string_length(rest: &str, quote: char) -> usize {
    let triple = quote.to_string().repeat(3);
    let close = if rest.starts_with(&triple) { triple } else { quote.to_string() };
    let mut at = close.len();
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with(&close) {
            return at + close.len();
        }
        let mut characters = tail.chars();
        let first = characters.next().map_or(0, char::len_utf8);
        let escaped = if tail.starts_with('\\') { characters.next().map_or(0, char::len_utf8) } else { 0 };
        at += first + escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the action to the line that holds `tl.dot`, or says that it does not apply.
    fn apply(before: &str) -> Option<String> {
        let start = before.find("dot").map_or(0, |at| before[..at].rfind('\n').map_or(0, |at| at + 1));
        let end = before[start..].find('\n').map_or(before.len(), |length| start + length);
        let insertion = ieee_dot(before, start..end)?;
        let mut after = before.to_owned();
        after.insert_str(insertion.at, insertion.text);
        Some(after)
    }

    #[track_caller]
    fn check(before: &str, after: &str) {
        assert_eq!(apply(before).as_deref(), Some(after));
    }

    #[test]
    fn a_plain_call() {
        check("acc += tl.dot(a, b)\n", "acc += tl.dot(a, b, input_precision=\"ieee\")\n");
    }

    #[test]
    fn nested_brackets_and_strings() {
        check(
            "x = tl.dot(f(a[0], \")\"), g({1: ')'})) + 1",
            "x = tl.dot(f(a[0], \")\"), g({1: ')'}), input_precision=\"ieee\") + 1",
        );
    }

    #[test]
    fn a_call_over_several_lines_with_a_trailing_comma() {
        check(
            "acc = tl.dot(\n    a,  # (left\n    b,  # right)\n)\n",
            "acc = tl.dot(\n    a,  # (left\n    b, input_precision=\"ieee\"  # right)\n)\n",
        );
    }

    #[test]
    fn the_second_call_when_the_first_has_a_precision() {
        check(
            "x = tl.dot(a, b, input_precision=\"tf32\") + tl.dot(c, d)",
            "x = tl.dot(a, b, input_precision=\"tf32\") + tl.dot(c, d, input_precision=\"ieee\")",
        );
    }

    #[test]
    fn not_applicable() {
        for text in [
            "acc += tl.dot_scaled(a, b)",
            "acc += my_tl.dot(a, b)",
            "x = tl.dot(a, b, input_precision=\"ieee\")",
            "x = tl.dot(a, b, allow_tf32=False)",
            "x = tl.dot(a, b",
            "x = tl.dot()",
            "x = tl.dot(a, 'unfinished",
            "",
        ] {
            assert_eq!(apply(text), None, "{text}");
        }
    }
}
