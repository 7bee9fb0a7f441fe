//! The cheat suite (`tests/cheats/`): what cheats is rejected for the reason that `expect.toml` tells, what is honest
//! passes. Here is what needs no GPU; all of it is run by `tests/gpu/cheats.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::harness::{Checked, Sandbox, python_or_skip};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<Row>,
    honest: Vec<Honest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    file: String,
    row: u8,
    needs: Needs,
    verdict: String,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    gpu: Vec<String>,
    #[serde(default = "usual_stages")]
    stages: String,
    #[serde(default = "usual_dtype")]
    dtype: String,
    #[serde(default)]
    not_timed: Vec<String>,
    open: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Honest {
    file: String,
    #[serde(default = "usual_stages")]
    stages: String,
    #[serde(default = "usual_dtype")]
    dtype: String,
    #[serde(default)]
    warnings: Vec<String>,
}

/// Stages and dtype that are asked for.
type Asked<'a> = (&'a str, &'a str);

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Needs {
    Cpu,
    Gpu,
    Timing,
}

fn usual_stages() -> String {
    "smoke,determinism".to_owned()
}

fn usual_dtype() -> String {
    "f32".to_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cheats")
}

fn table() -> Table {
    toml::from_str(&fs::read_to_string(folder().join("expect.toml")).expect("the table")).expect("a table")
}

/// What was said of each of these files, those with the same options in one process.
fn checked<'a, T>(
    sandbox: &Sandbox,
    inside: &str,
    items: impl Iterator<Item = &'a T>,
    of: impl Fn(&'a T) -> (&'a str, Asked<'a>),
) -> Vec<(&'a T, Checked)> {
    let mut groups: BTreeMap<Asked<'a>, Vec<(&T, PathBuf)>> = BTreeMap::new();
    for item in items {
        let (file, asked) = of(item);
        groups.entry(asked).or_default().push((item, folder().join(inside).join(file)));
    }
    let mut all = Vec::new();
    for ((stages, dtype), group) in groups {
        let files: Vec<PathBuf> = group.iter().map(|(_, path)| path.clone()).collect();
        let told = sandbox.check_all(&files, &["--stage", stages, "--dtype", dtype]);
        all.extend(group.into_iter().map(|(item, _)| item).zip(told));
    }
    all
}

/// The rows of a table that a filter takes: every one with its verdict and one of its codes, and with its number in the
/// finding where the code is about rows.
fn assert_rejected(is_asked: impl Fn(&Row) -> bool) {
    let Some(python) = python_or_skip("cheats") else { return };
    let (sandbox, table) = (Sandbox::new(python), table());
    let rows = table.row.iter().filter(|row| row.needs == Needs::Cpu && is_asked(row));
    let all = checked(&sandbox, "rows", rows, |row| (&row.file, (&row.stages, &row.dtype)));
    assert!(!all.is_empty());
    let mut missed = Vec::new();
    for (row, found) in &all {
        let reason = found.findings().into_iter().find(|finding| {
            let code = finding["code"].as_str().unwrap_or_default();
            row.codes.iter().any(|expected| expected == code)
        });
        let names_row = |finding: &serde_json::Value| {
            finding["rows"].as_array().is_none_or(|rows| {
                let is_about_others = row.codes.len() > 1 || rows.iter().all(|other| *other != row.row);
                rows.iter().any(|number| *number == row.row) || is_about_others
            })
        };
        if found.verdict() != row.verdict || !reason.is_some_and(names_row) {
            missed.push(format!("{}: {}", row.file, found.describe()));
        }
    }
    assert!(missed.is_empty(), "{} of {} got through:\n{}", missed.len(), all.len(), missed.join("\n\n"));
}

fn is_stability(row: &Row) -> bool {
    row.stages.contains("stability")
}

#[test]
fn results_that_are_kept_or_found_are_rejected() {
    assert_rejected(|row| row.row <= 12 && !is_stability(row));
}

#[test]
fn work_that_is_left_out_or_left_to_others_is_rejected() {
    assert_rejected(|row| (13..=24).contains(&row.row) && !is_stability(row));
}

#[test]
fn tampering_is_rejected() {
    assert_rejected(|row| (25..=40).contains(&row.row) && !is_stability(row));
}

#[test]
fn what_a_comparison_overlooks_is_rejected() {
    assert_rejected(|row| row.row > 40 && !is_stability(row));
}

#[test]
fn what_only_special_values_show_is_rejected() {
    assert_rejected(is_stability);
}

#[test]
fn what_is_honest_passes() {
    let Some(python) = python_or_skip("what_is_honest_passes") else { return };
    let (sandbox, table) = (Sandbox::new(python), table());
    for (honest, found) in
        checked(&sandbox, "honest", table.honest.iter(), |one| (&one.file, (&one.stages, &one.dtype)))
    {
        assert_eq!(found.verdict(), "passed", "{}: {}", honest.file, found.describe());
        let others: Vec<String> =
            found.codes().into_iter().filter(|code| !honest.warnings.contains(code)).collect();
        assert!(others.is_empty(), "{}: {}", honest.file, found.describe());
    }
}

/// Row 28: what a cheat wrote into the judge's files decides no later check.
#[test]
fn a_later_check_does_not_believe_files_that_were_changed() {
    let Some(python) = python_or_skip("a_later_check_does_not_believe_files_that_were_changed") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let cheat = folder().join("rows/28_edits_judge.py");
    let options = ["--stage", "smoke", "--dtype", "f32"];
    for time in 0..2 {
        let found = sandbox.check(&cheat, &options);
        assert!(found.codes().contains(&"mismatch".to_owned()), "time {time}: {}", found.describe());
    }
    let changed =
        walkdir(&sandbox.path().join("cache")).into_iter().find(|path| path.ends_with("compare.py"));
    let text = fs::read_to_string(changed.expect("the worker's files")).expect("a text");
    assert!(
        text.contains("\"violations\": 0, \"unwritten\": 0"),
        "the cheat does not find the judge's files any more"
    );
}

fn walkdir(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { walkdir(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// Every file stands in the table once, says its row in its first line, and the README tells of every row.
#[test]
fn the_table_is_whole() {
    let table = table();
    let files = |inside: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(folder().join(inside)).expect("a folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".py")).collect()
    };
    let rows: BTreeSet<String> = table.row.iter().map(|row| row.file.clone()).collect();
    let honest: BTreeSet<String> = table.honest.iter().map(|one| one.file.clone()).collect();
    assert_eq!(
        (rows.len(), honest.len()),
        (table.row.len(), table.honest.len()),
        "a file stands there twice"
    );
    assert_eq!((rows, honest), (files("rows"), files("honest")));
    let readme = fs::read_to_string(folder().join("README.md")).expect("a README");
    for row in &table.row {
        let text = fs::read_to_string(folder().join("rows").join(&row.file)).expect("a row");
        let header = text.split("\"\"\"").nth(1).unwrap_or_default();
        assert!(header.starts_with(&format!("Row {}: ", row.row)), "{}: {header}", row.file);
        assert!(row.file.starts_with(&format!("{:02}_", row.row)), "{}", row.file);
        assert!(header.contains("\nSeen: ") && header.contains("\nCaught: "), "{}: {header}", row.file);
        let is_told = row.verdict != "passed" || !row.not_timed.is_empty() || row.open.is_some();
        assert!(is_told, "{} passes, and nothing is refused", row.file);
        assert!(row.needs == Needs::Timing || !row.codes.is_empty(), "{}", row.file);
        assert!(
            row.needs != Needs::Cpu || row.gpu.iter().all(|code| !row.codes.contains(code)),
            "{}",
            row.file
        );
        let name = row.file.trim_end_matches(".py");
        assert!(readme.contains(&format!("`{name}`")), "README.md does not tell of {name}");
    }
    for one in &table.honest {
        let name = one.file.trim_end_matches(".py");
        assert!(readme.contains(&format!("`{name}`")), "README.md does not tell of {name}");
    }
}
