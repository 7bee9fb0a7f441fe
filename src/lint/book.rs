//! The pages of the rules, for `warpsmith explain`, the editor and `docs/lints.md`.

use std::fmt::Write;

use super::{RULES, Rule};

/// What a rule is about, in markdown.
pub fn page(rule: &Rule) -> String {
    format!("**{}** ({}): {}.\n\n{}", rule.name, rule.severity.word(), rule.summary, rule.page)
}

/// Name and summary of every rule, one a line.
pub fn list() -> String {
    let longest = RULES.iter().map(|rule| rule.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for rule in RULES {
        let _ = writeln!(text, "{:longest$}  {:11}  {}", rule.name, rule.severity.word(), rule.summary);
    }
    text
}

/// All of `docs/lints.md`.
pub fn manual() -> String {
    let mut text = include_str!("manual.md").to_owned();
    for rule in RULES {
        let (name, severity, summary) = (rule.name, rule.severity.word(), rule.summary);
        let _ = write!(text, "\n## {name}\n\n*{severity}:* {summary}.\n\n{}", rule.page);
    }
    text
}
