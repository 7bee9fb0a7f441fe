//! `warpsmith explain [RULE]`: the pages of the static findings, and lines for `warpsmith check` about them.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::EXIT_USAGE;
use crate::lint::{self, Lint, book};
use crate::source::{self, line_of};

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The rule, as a finding names it; without one, all rules are listed.
    #[arg(value_name = "RULE")]
    rule: Option<String>,
}

pub(super) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let Some(name) = &args.rule else {
        super::say(book::list().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some(rule) = lint::rule(name) else {
        let message = format!("there is no rule `{name}`; `warpsmith explain` lists them");
        super::complain(&anyhow::Error::msg(message));
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    super::say(book::page(rule).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The static findings of a judged file, a line each. They change no verdict. Files that are not Python have none.
pub(super) fn lines(path: &Path, shown: &Path, text: &str, json: bool) -> Vec<String> {
    if path.extension().is_none_or(|extension| extension != "py") {
        return Vec::new();
    }
    let lints = lint::run(&source::parse(text), text);
    lints.iter().map(|lint| if json { record(path, text, lint) } else { note(shown, text, lint) }).collect()
}

fn note(shown: &Path, text: &str, lint: &Lint) -> String {
    let (line, column) = place(text, lint.range.start);
    let file = shown.display();
    format!("{file}:{line}:{column}: {}: {} [{}]", lint.rule.severity.word(), lint.message, lint.rule.name)
}

fn record(path: &Path, text: &str, lint: &Lint) -> String {
    let (line, column) = place(text, lint.range.start);
    let (end_line, end_column) = place(text, lint.range.end);
    let fixes: Vec<_> = lint.fixes.iter().map(|fix| fix.title.as_str()).collect();
    json!({
        "schema": "warpsmith.lint/1",
        "file": path.to_string_lossy(),
        "rule": lint.rule.name,
        "severity": lint.rule.severity.word(),
        "where": { "line": line, "column": column, "end_line": end_line, "end_column": end_column },
        "message": lint.message,
        "fixes": fixes,
        "warpsmith": env!("CARGO_PKG_VERSION"),
    })
    .to_string()
}

/// 1-based line and column, the column in characters.
fn place(text: &str, byte: usize) -> (u32, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let last_line = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    (line_of(text, byte), last_line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x):\n    é = 1; tl.store(x + tl.arange(0, 3), é)\n";

    #[test]
    fn a_finding_is_one_line() {
        let lines = lines(Path::new("/k.py"), Path::new("k.py"), TEXT, false);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("k.py:7:25: warning: a range of 3 is no power of two"), "{line}");
        assert!(line.ends_with("[arange-power-of-two]"), "{line}");
    }

    #[test]
    fn a_record_has_its_place() {
        let lines = lines(Path::new("/k.py"), Path::new("k.py"), TEXT, true);
        let record: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!(record["schema"], "warpsmith.lint/1");
        assert_eq!(record["where"], json!({ "line": 7, "column": 25, "end_line": 7, "end_column": 40 }));
    }

    #[test]
    fn only_python_files_have_findings() {
        assert!(lines(Path::new("/solution.json"), Path::new("solution.json"), TEXT, false).is_empty());
    }
}
