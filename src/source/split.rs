//! Where a text may be taken apart: at statements that begin in the first column.
//!
//! A valid text is only ever taken apart between two statements. In a text with an open bracket the next
//! definition at the left edge ends what is open: no valid one has a `def` within brackets.

use std::ops::Range;

/// Words that carry on with the statement before.
const GOES_ON: [&[u8]; 4] = [b"else", b"elif", b"except", b"finally"];
/// Words that no bracket can hold.
const NEVER_IN_BRACKETS: [&[u8]; 4] = [b"def", b"class", b"async", b"import"];

/// The pieces of a text, in order and without a gap. What stands before the first statement belongs to it.
pub(super) fn split(text: &str) -> Vec<Range<usize>> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, depth: 0 };
    let mut starts = vec![0];
    // Whether the piece has a statement, and whether its last one is a decorator.
    let (mut begun, mut decorates) = (false, false);
    // The first decorator within brackets that nothing but decorators follows.
    let mut decorator_inside = None;
    loop {
        let line = scanner.at;
        match scanner.line_start() {
            _ if scanner.depth > 0 => match scanner.line_start() {
                Start::Statement { breaks_out: true, .. } => {
                    starts.push(decorator_inside.take().unwrap_or(line));
                    (scanner.depth, begun, decorates) = (0, true, false);
                }
                Start::Statement { decorator: true, .. } => {
                    decorator_inside = decorator_inside.or(Some(line))
                }
                Start::Statement { .. } => decorator_inside = None,
                Start::Other => {}
            },
            Start::Statement { decorator, .. } => {
                if begun && !decorates {
                    starts.push(line);
                }
                (begun, decorates, decorator_inside) = (true, decorator, None);
            }
            Start::Other => {}
        }
        if !scanner.skip_line() {
            break;
        }
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start..end).collect()
}

/// What a line begins with.
#[derive(Clone, Copy)]
enum Start {
    Statement {
        decorator: bool,
        breaks_out: bool,
    },
    /// A blank, a comment, or the rest of what came before.
    Other,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Open brackets.
    depth: usize,
}

impl Scanner<'_> {
    fn line_start(&self) -> Start {
        let rest = &self.bytes[self.at..];
        match rest.first() {
            Some(b'@') => Start::Statement { decorator: true, breaks_out: false },
            Some(&first) if is_word(first) && !first.is_ascii_digit() => {
                let word = &rest[..rest.iter().take_while(|byte| is_word(**byte)).count()];
                match GOES_ON.contains(&word) {
                    true => Start::Other,
                    false => {
                        Start::Statement { decorator: false, breaks_out: NEVER_IN_BRACKETS.contains(&word) }
                    }
                }
            }
            _ => Start::Other,
        }
    }

    /// Goes to the start of the next line that is not within a string or behind a `\`. Whether there is one.
    fn skip_line(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\n' => return true,
                b'\\' => self.skip_escaped(),
                b'#' => {
                    let rest = self.bytes[self.at..].iter();
                    self.at += rest.take_while(|byte| **byte != b'\n').count();
                }
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b'"' | b'\'' => self.skip_string(byte),
                _ => {}
            }
        }
        false
    }

    /// What a `\` takes with it: one character, or the line break.
    fn skip_escaped(&mut self) {
        let is_break = self.bytes[self.at..].starts_with(b"\r\n");
        self.at = (self.at + 1 + usize::from(is_break)).min(self.bytes.len());
    }

    /// The rest of a string whose first quote was read. One without an end stops at the end of the line, one with
    /// three quotes nowhere.
    fn skip_string(&mut self, quote: u8) {
        let three = [quote; 3];
        let is_long = self.bytes[self.at - 1..].starts_with(&three);
        if is_long {
            self.at += 2;
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' if !is_long => return,
                b'\\' => {
                    self.at += 1;
                    self.skip_escaped();
                    continue;
                }
                _ => {}
            }
            let ends = if is_long { self.bytes[self.at..].starts_with(&three) } else { byte == quote };
            self.at += if ends && is_long { 3 } else { 1 };
            if ends {
                return;
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
