//! What stands in the comments of a planted bug: where it is found, and the line that mends it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::Checked;

pub(crate) fn bug_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/bugs").join(name)
}

pub(crate) fn bug_text(name: &str) -> String {
    fs::read_to_string(bug_file(name)).expect("a file of this repository")
}

/// The text in which the line after each `# RIGHT: …` is replaced by what stands there.
#[track_caller]
pub(crate) fn mended(text: &str) -> String {
    let mut lines = Vec::new();
    let mut right = None;
    let mut mends = 0;
    for line in text.lines() {
        if let Some((indent, better)) = line.split_once("# RIGHT: ") {
            right = Some(format!("{indent}{better}"));
            mends += 1;
        } else {
            lines.push(right.take().unwrap_or_else(|| line.to_owned()));
        }
    }
    assert!(mends > 0, "no line says how the bug is mended");
    lines.join("\n") + "\n"
}

/// Fails unless a finding of the check is the one that a marker in the text tells: `# BUG: code words` behind
/// the very line, or `# CASE: code key=value` for one without a line (an axis, `dtype`, `layout`, `profile` or
/// `stage` of the case).
#[track_caller]
pub(crate) fn assert_found(checked: &Checked, file: &Path, text: &str) {
    let of_line = text.lines().zip(1_u64..).find_map(|(line, number)| {
        line.split_once("# BUG: ").map(|(_, marker)| (marker.trim().to_owned(), number))
    });
    match of_line {
        Some((marker, line)) => assert_found_at(checked, file, &marker, line),
        None => {
            let marker = text.lines().find_map(|line| line.strip_prefix("# CASE: "));
            assert_found_on_case(checked, marker.expect("a marker in the file"));
        }
    }
}

#[track_caller]
fn assert_found_at(checked: &Checked, file: &Path, marker: &str, line: u64) {
    let (code, words) = marker.split_once(' ').unwrap_or((marker, ""));
    let found = checked.findings().into_iter().any(|finding| {
        finding["code"] == code
            && finding["place"]["line"] == line
            && finding["place"]["file"].as_str() == file.to_str()
            && finding["message"].as_str().is_some_and(|message| message.contains(words))
    });
    assert!(found, "no {marker} at line {line}: {}", checked.describe());
}

#[track_caller]
fn assert_found_on_case(checked: &Checked, marker: &str) {
    let (code, words) = marker.split_once(' ').unwrap_or((marker, ""));
    let on_case = |record: &&Value| {
        let case = &record["case"];
        let is_wanted = words.split_once('=').is_none_or(|(key, value)| match key {
            "dtype" | "layout" | "profile" | "stage" => case[key] == value,
            axis => case["axes"][axis].as_u64().map(|length| length.to_string()).as_deref() == Some(value),
        });
        is_wanted && record["code"] == code
    };
    assert!(checked.cases.iter().any(|record| on_case(&record)), "no {marker}: {}", checked.describe());
}
