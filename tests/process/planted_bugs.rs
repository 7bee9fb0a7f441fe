//! Bugs that users reported in public, planted in small kernels: each is found at its very line
//! (`# BUG: code` stands there) or on its case (`# CASE: code words`, the words stand in the case).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Checked, Sandbox, python_or_skip};

fn bug_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/bugs").join(name)
}

fn check_bug(name: &str, options: &[&str]) {
    let Some(python) = python_or_skip(name) else { return };
    let file = bug_file(name);
    let text = fs::read_to_string(&file).expect("a file of this repository");
    let checked = Sandbox::new(python).check(&file, options);
    assert_eq!((checked.verdict(), checked.exit), ("wrong", Some(1)), "{}", checked.describe());
    let marked = text.lines().zip(1_u64..).find_map(|(line, number)| {
        line.split_once("# BUG: ").map(|(_, code)| (code.trim().to_owned(), number))
    });
    match marked {
        Some((code, line)) => assert_found_at(&checked, &file, &code, line),
        None => {
            let marker = text.lines().find_map(|line| line.strip_prefix("# CASE: "));
            assert_found_on_case(&checked, marker.expect("a marker in the file"));
        }
    }
}

fn assert_found_at(checked: &Checked, file: &Path, code: &str, line: u64) {
    let found = checked.findings().into_iter().any(|finding| {
        finding["code"] == code
            && finding["place"]["line"] == line
            && finding["place"]["file"].as_str() == file.to_str()
    });
    assert!(found, "no {code} at line {line}: {}", checked.describe());
}

fn assert_found_on_case(checked: &Checked, marker: &str) {
    let (code, words) = marker.split_once(' ').unwrap_or((marker, ""));
    let on_case = |case: &&Value| {
        let wanted_case = match words.split_once('=') {
            Some((axis, length)) => case["case"]["axes"][axis].as_u64() == length.parse().ok(),
            None if words == "bf16" => case["case"]["dtype"] == "bfloat16",
            None => true,
        };
        wanted_case && case["code"] == code
    };
    assert!(checked.cases.iter().any(|case| on_case(&case)), "no {marker}: {}", checked.describe());
}

macro_rules! planted {
    ($($test:ident: $file:literal $(, $option:literal)*;)*) => {
        $(#[test]
        fn $test() {
            check_bug($file, &[$($option),*]);
        })*
    };
}

planted! {
    d01_tail_mask_of_the_sum: "d01_no_tail_mask.py";
    d02_store_without_bounds: "d02_no_bounds.py";
    d03_block_that_is_no_power_of_two: "d03_block_shape.py", "--dtype", "f32";
    d04_offset_that_wraps: "d04_int32_offset.py", "--dtype", "f16";
    d08_atomic_sum_into_unset_memory: "d08_split_k.py", "--dtype", "f32";
    d10_empty_tensor: "d10_empty.py", "--dtype", "f32";
    d29_rows_that_nobody_writes: "d29_unwritten.py";
    d30_sum_in_bfloat16: "d30_bf16_sum.py", "--dtype", "bf16";
    race_between_programs: "race.py", "--dtype", "f32";
}

/// A bug in float32 alone, or on one shape alone, never hides behind the cases that pass.
#[test]
fn wrong_on_one_case_is_wrong() {
    let Some(python) = python_or_skip("wrong_on_one_case_is_wrong") else { return };
    let checked = Sandbox::new(python).check(&bug_file("d10_empty.py"), &["--dtype", "f32"]);
    let passed = checked.cases.iter().filter(|case| case["verdict"] == "passed").count();
    assert!(passed > 5, "{}", checked.describe());
    assert_eq!(checked.exit, Some(1));
}

/// What people read: a case counts once, however many findings it has of a kind at a line, and the line to
/// replay it asks for the same cases.
#[test]
fn the_text_counts_cases_and_replays_what_was_asked() {
    let Some(python) = python_or_skip("the_text_counts_cases") else { return };
    let text = fs::read_to_string(bug_file("d04_int32_offset.py")).expect("the bug's file");
    // `other` without `mask` is refused in each program of the launch.
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("without masks.py", &text.replace("mask=offsets < columns, other", "other"));
    let narrow = ["check", "--no-setup", "--dtype", "f32", "--stage", "smoke"];
    let output = sandbox.warpsmith().args(narrow).arg(&file).output().expect("the binary runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("0 of 1 cases passed"), "{stdout}");
    assert!(stdout.contains("case: smoke M=") && !stdout.contains(", and "), "{stdout}");
    let replay = format!("replay: warpsmith check '{}' --dtype f32 --stage smoke --seed ", file.display());
    assert!(stdout.contains(&replay), "{stdout}");
}
