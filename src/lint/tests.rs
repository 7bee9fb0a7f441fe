//! Each rule with what it finds, near misses that it must leave alone, and what its fixes make of the text.

mod autotune;
mod incremental;
mod memory;
mod properties;
mod suppression;

use super::{Fix, Lint, RULES, book, run};
use crate::source::{line_of, parse};

const IMPORTS: &str = "import torch\nimport triton\nimport triton.language as tl\n\n\n";

/// A file with the usual imports.
fn file(code: &str) -> String {
    format!("{IMPORTS}{code}")
}

fn lints(code: &str) -> Vec<Lint> {
    let text = file(code);
    run(&parse(&text), &text)
}

fn rules(code: &str) -> Vec<&'static str> {
    lints(code).iter().map(|lint| lint.rule.name).collect()
}

/// The one finding, which must be of this rule.
#[track_caller]
fn only(code: &str, rule: &str) -> Lint {
    let found = lints(code);
    let [lint] = &found[..] else { panic!("not one finding: {found:#?}") };
    assert_eq!(lint.rule.name, rule, "{lint:?}");
    lint.clone()
}

#[track_caller]
fn clean(code: &str) {
    let found = lints(code);
    assert!(found.is_empty(), "{code}\n{found:#?}");
}

/// The code after a fix, which must mend its finding and break nothing that parsed.
#[track_caller]
fn fixed(code: &str, fix: &Fix) -> String {
    let mut text = file(code);
    let mut edits = fix.edits.clone();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
    for edit in edits {
        text.replace_range(edit.range, &edit.text);
    }
    let model = parse(&text);
    assert_eq!(model.first_error, None, "{text}");
    let left = run(&model, &text);
    assert!(left.is_empty(), "the fix left {left:#?}\n{text}");
    text[IMPORTS.len()..].to_owned()
}

/// Where a finding stands, as code.
fn at<'a>(text: &'a str, lint: &Lint) -> &'a str {
    &text[lint.range.clone()]
}

#[test]
fn names_are_sorted_and_pages_complete() {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
    for rule in RULES {
        assert!(rule.page.contains("\n\nFound: ") && rule.page.contains("\n\nWhat to do: "), "{}", rule.name);
        assert!(super::rule(rule.name) == Some(rule));
        assert!(book::list().contains(rule.summary));
    }
}

#[test]
fn the_manual_is_that_of_the_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/lints.md");
    if std::env::var_os("WARPSMITH_WRITE_DOCS").is_some() {
        std::fs::write(path, book::manual()).expect("docs/ can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == book::manual(),
        "run this test with WARPSMITH_WRITE_DOCS=1 to write docs/lints.md anew"
    );
}

#[test]
fn findings_come_in_order_of_place() {
    let code =
        "SCALE = 2.0\n\n@triton.jit\ndef k(x):\n    y = tl.arange(0, 3) * SCALE\n    z = tl.arange(4, 4)\n";
    assert_eq!(rules(code), ["arange-power-of-two", "global-not-constexpr", "arange-power-of-two"]);
}

#[test]
fn a_kernel_that_does_not_parse_is_left_alone() {
    let good = "@triton.jit\ndef a(x):\n    y = tl.arange(0, 3)\n\n\n";
    assert_eq!(
        rules(&format!("{good}@triton.jit\ndef b(x):\n    y = tl.arange(0, 3)\n    z = (\n")).len(),
        1
    );
}

/// What the user reads, of every rule.
#[test]
fn messages() {
    let text = file(include_str!("tests/every_rule.py"));
    let found = run(&parse(&text), &text);
    let mut seen: Vec<&str> = found.iter().map(|lint| lint.rule.name).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, RULES.iter().map(|rule| rule.name).collect::<Vec<_>>());
    let shown: Vec<String> = found
        .iter()
        .map(|lint| {
            let fixes: String = lint.fixes.iter().map(|fix| format!("\n    fix: {}", fix.title)).collect();
            let (line, code) = (line_of(&text, lint.range.start), at(&text, lint));
            format!("{line} `{code}` {}: {}{fixes}", lint.rule.name, lint.message)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}
