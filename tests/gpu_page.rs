//! `docs/gpu.md` says what the program does: its examples are what the program writes, its words are the program's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use warpsmith::device::DeviceChoice;
use warpsmith::judge::timing::{Timing, text};
use warpsmith::judge::{Code, Verdict};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the file")
}

/// The section below a heading, up to the next one of the same depth or above.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, below) = page.split_once(&format!("\n{heading}\n")).expect("the heading");
    let depth = heading.bytes().take_while(|byte| *byte == b'#').count();
    let is_next = |line: &str| (1..=depth).any(|depth| line.starts_with(&format!("{} ", "#".repeat(depth))));
    let mut in_fence = false;
    let mut end = below.len();
    let mut at = 0;
    for line in below.lines() {
        in_fence ^= line.starts_with("```");
        if !in_fence && is_next(line) {
            end = at;
            break;
        }
        at += line.len() + 1;
    }
    &below[..end.min(below.len())]
}

/// What stands in backquotes in a column of the rows of a section's first table.
fn quoted(section: &str, column: usize) -> Vec<String> {
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = rows.skip(2).filter_map(|row| row.split('|').nth(column + 1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The times of the record that both pages rest on.
fn recorded() -> Vec<Timing> {
    let record: serde_json::Value =
        serde_json::from_str(&read("tests/gpu/results/softmax_check.json")).expect("a record");
    assert_eq!(record["verdict"], "passed");
    serde_json::from_value(record["timings"].clone()).expect("times")
}

#[test]
fn recorded_times_are_written_as_the_pages_show_them() {
    let timings = recorded();
    assert!(!timings.is_empty());
    for path in ["docs/gpu.md", "README.md"] {
        let page = read(path);
        for timing in &timings {
            assert!(
                page.lines().any(|line| line == text::line(timing)),
                "{path} lacks {}",
                text::line(timing)
            );
        }
    }
    let hint = format!("`{}`", text::hint(&timings[0]));
    for path in ["docs/gpu.md", "README.md"] {
        assert!(read(path).contains(&hint), "{path} lacks {hint}");
    }
    let help = read("editors/nvim/doc/warpsmith.txt");
    assert!(help.contains(&text::hint(&timings[0])), "the help lacks {hint}");
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(
        words.join(" ").contains(&text::title(&timings[0])),
        "the help lacks {}",
        text::title(&timings[0])
    );
}

/// Rows of a record of `tests/gpu/starters.py` in which another project's starter was timed, by what they are of.
fn starters(path: &str) -> BTreeMap<String, serde_json::Value> {
    let record: serde_json::Value = serde_json::from_str(&read(path)).expect("a record");
    let rows = record["rows"].as_array().expect("rows").iter();
    let beside = rows.filter(|row| row["sides"].get("autokernel").is_some());
    beside
        .map(|row| (format!("{} {} {}", row["definition"], row["size"], row["dtype"]), row.clone()))
        .collect()
}

#[test]
fn the_table_of_the_starters_is_that_of_their_records() {
    let page = read("docs/gpu.md");
    let page = section(&page, "## The starters on an H200");
    let mut rows = starters("tests/gpu/results/starters.json");
    assert!(rows.len() > 20, "{}", rows.len());
    rows.extend(starters("tests/gpu/results/starters_attention.json"));
    let shown = |us: f64| if us >= 100.0 { format!("{us:.0}") } else { format!("{us:.1}") };
    for row in rows.values() {
        let us = |side: &str| row["sides"][side]["us"].as_f64();
        let strongest = us("torch").or(us("eager"));
        let sides = [us("ours"), strongest, us("eager"), us("autokernel"), us("copy")];
        let cells: Vec<String> = sides.map(|us| shown(us.expect("a time"))).to_vec();
        let axes = row["axes"].as_object().expect("axes").iter();
        let axes: Vec<String> = axes.map(|(axis, length)| format!("{axis}={length}")).collect();
        let name = row["definition"].as_str().expect("a name");
        let line = format!("| `{name}` {} | {} |", axes.join(" "), cells.join(" | "));
        assert!(page.lines().any(|known| known == line), "docs/gpu.md lacks {line}");
    }
    let in_page = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(in_page, rows.len(), "and no other row");
}

#[test]
fn codes_of_a_gpu_stand_under_their_verdict() {
    let page = read("docs/gpu.md");
    let codes = section(&page, "### Codes that only a GPU gives");
    let mut told = BTreeSet::new();
    for row in codes.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (name, verdict) = (cells[1].trim_matches('`'), cells[2]);
        let code =
            Code::ALL.iter().find(|code| code.name() == name).unwrap_or_else(|| panic!("no code {name}"));
        assert_eq!(code.verdict().words(), verdict, "{name}");
        told.insert(name.to_owned());
    }
    for code in [Code::IllegalAccess, Code::MisalignedAccess, Code::IllegalInstruction, Code::LaunchFailed] {
        assert_eq!(code.verdict(), Verdict::Wrong);
        assert!(told.contains(&code.name()), "{}", code.name());
    }
    let of_devices = Code::ALL.iter().map(|code| code.name()).filter(|name| name.contains("device"));
    // The interpreter checks assertions too.
    for name in of_devices.filter(|name| name != "device-assert") {
        assert!(told.contains(&name), "{name}");
    }
}

#[test]
fn choices_are_those_of_the_command_line() {
    let page = read("docs/gpu.md");
    for choice in quoted(section(&page, "## Which GPU"), 0) {
        let choice = choice.replace("cuda:N", "cuda:3");
        assert!(choice.parse::<DeviceChoice>().is_ok(), "{choice}");
    }
    let baselines = quoted(section(&page, "## What is timed"), 0);
    let known: Vec<String> = <warpsmith::judge::bench::BaselineChoice as clap::ValueEnum>::value_variants()
        .iter()
        .filter_map(|choice| Some(clap::ValueEnum::to_possible_value(choice)?.get_name().to_owned()))
        .collect();
    assert_eq!(baselines, known);
}

/// A variable that a page names is one that the program reads.
#[test]
fn variables_are_read() {
    let sources = [
        "src/device/lease.rs",
        "src/toolchain/places.rs",
        "src/runner/python/warpsmith_worker/device_start.py",
    ];
    let sources: String = sources.into_iter().map(read).collect();
    let page = read("docs/gpu.md");
    let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let named: BTreeSet<&str> =
        page.split(|c| !is_name(c)).filter(|name| name.starts_with("WARPSMITH_")).collect();
    assert!(named.len() >= 4, "{named:?}");
    for name in named {
        assert!(sources.contains(&format!("\"{name}\"")), "{name}");
    }
}

/// What is done when the GPU is busy is a setting; its words are those that the settings take.
#[test]
fn words_of_when_busy_are_those_of_the_settings() {
    let page = read("docs/gpu.md");
    let told = section(&page, "## When the GPU is not yours alone");
    for word in ["skip", "correctness"] {
        assert!(word.parse::<warpsmith::device::WhenBusy>().is_ok());
        assert!(told.contains(&format!("`{word}`")), "{word}");
    }
}
