//! `# warpsmith: allow(rule) reason`: a finding that the author has looked at and wants to keep.

use std::ops::Range;

use super::facts::File;
use super::rules::{SUPPRESSION, rule};
use super::{Lint, Rule};
use crate::source::syntax::{Node, Walk, text_of, walk};

/// What every comment for us holds.
pub(super) const PREFIX: &str = "warpsmith:";

/// One rule that a comment allows.
struct Allowed<'a> {
    name: &'a str,
    comment: Range<usize>,
    /// Zero-based line that it speaks of.
    line: usize,
    has_reason: bool,
    used: bool,
}

/// Takes away what comments allow, and adds what is wrong with the comments themselves.
pub(super) fn apply(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    if !file.text.contains(PREFIX) {
        return;
    }
    let lines = Lines::new(file.text);
    let mut allowed = Vec::new();
    for comment in file.root.all_children().flat_map(|statement| ours(statement, file.text)) {
        let written = file.text.get(comment.clone()).unwrap_or_default();
        read(written, comment, &lines, file.text, &mut allowed);
    }
    found.retain(|lint| {
        let line = lines.of(lint.range.start);
        let mut is_allowed = false;
        for one in allowed.iter_mut().filter(|one| one.line == line && one.name == lint.rule.name) {
            one.used = true;
            is_allowed |= one.has_reason;
        }
        !is_allowed
    });
    // Where the text does not parse, what a comment allows may be there and not be seen.
    let is_whole = !file.root.has_error();
    for one in allowed {
        let message = if rule(one.name).is_none_or(|rule: &Rule| rule == &SUPPRESSION) {
            format!("`{}` is no rule that can be allowed; `warpsmith explain` lists them", one.name)
        } else if !one.has_reason {
            format!(
                "say why after the parenthesis: `# warpsmith: allow({}) reason`; without, it allows nothing",
                one.name
            )
        } else if !one.used && is_whole {
            format!("nothing to allow here: no finding `{}` on this line or the one below", one.name)
        } else {
            continue;
        };
        found.push(SUPPRESSION.at(one.comment, message));
    }
}

/// Comments for us within a statement, in bytes from its beginning.
struct Ours(Vec<Range<usize>>);

fn ours(statement: Node<'_>, text: &str) -> Vec<Range<usize>> {
    let start = statement.start_byte();
    let ours = statement.remember(|| {
        let mut ours = Vec::new();
        walk(statement, |node| {
            if node.kind() == "comment" && text_of(node, text).contains(PREFIX) {
                ours.push(node.start_byte() - start..node.end_byte() - start);
            }
            Walk::Into
        });
        Ours(ours)
    });
    ours.0.iter().map(|range| start + range.start..start + range.end).collect()
}

/// Reads one comment.
fn read<'a>(
    comment: &'a str,
    range: Range<usize>,
    lines: &Lines,
    text: &str,
    allowed: &mut Vec<Allowed<'a>>,
) {
    let Some(rest) = comment.trim_start_matches('#').trim_start().strip_prefix(PREFIX) else { return };
    let Some((names, reason)) = rest
        .trim_start()
        .strip_prefix("allow")
        .and_then(|rest| rest.trim_start().strip_prefix('(')?.split_once(')'))
    else {
        return;
    };
    let line = lines.of(range.start);
    let is_alone = text.get(lines.start(line)..range.start).is_none_or(|before| before.trim().is_empty());
    let line = if is_alone { lines.next_code(line, text) } else { line };
    let has_reason = reason.chars().any(char::is_alphanumeric);
    for name in names.split(',').map(str::trim) {
        allowed.push(Allowed { name, comment: range.clone(), line, has_reason, used: false });
    }
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let breaks = bytes.iter().enumerate().filter(|&(at, &byte)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        Self(std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect())
    }

    /// Zero-based.
    fn of(&self, byte: usize) -> usize {
        self.0.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    fn start(&self, line: usize) -> usize {
        self.0.get(line).copied().unwrap_or_default()
    }

    /// The next line that is not only a comment: several may stand above one another.
    fn next_code(&self, line: usize, text: &str) -> usize {
        let is_comment = |line: usize| {
            let end = self.0.get(line + 1).copied().unwrap_or(text.len());
            text.get(self.start(line)..end).is_some_and(|line| line.trim_start().starts_with('#'))
        };
        let mut next = line + 1;
        while next < self.0.len() && is_comment(next) {
            next += 1;
        }
        next
    }
}
