//! Bugs that one stage finds. Most of them no other can: smoke and sweep pass, the stage does not. In each file stands
//! `# STAGE: stage code words` (the words stand in the message), and above the faulty line `# RIGHT: …`, the line
//! that mends it; the mended twin passes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Sandbox, python_or_skip};

fn bug_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/bugs").join(name)
}

/// The text in which the line after `# RIGHT: …` is replaced by what stands there.
fn mended(text: &str) -> String {
    let mut lines = Vec::new();
    let mut right = None;
    for line in text.lines() {
        if let Some((indent, better)) = line.split_once("# RIGHT: ") {
            right = Some(format!("{indent}{better}"));
        } else {
            lines.push(right.take().unwrap_or_else(|| line.to_owned()));
        }
    }
    lines.join("\n") + "\n"
}

fn check_stage_bug(name: &str, dtype: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let text = fs::read_to_string(bug_file(name)).expect("a file of this repository");
    let marker = text.lines().find_map(|line| line.strip_prefix("# STAGE: ")).expect("a marker in the file");
    let mut words = marker.split(' ');
    let (stage, code) = (words.next().expect("a stage"), words.next().expect("a code"));
    let sandbox = Sandbox::new(python);

    let before = sandbox.check(&bug_file(name), &["--stage", "smoke,sweep", "--dtype", dtype]);
    // Large shapes of kernels that work in place cannot be sampled; that is no finding.
    let count = |verdict| before.cases.iter().filter(|case| case["verdict"] == verdict).count();
    assert!(count("wrong") == 0 && count("passed") > 15, "{}", before.describe());

    let options = ["--stage", &format!("smoke,{stage}"), "--dtype", dtype];
    let found = sandbox.check(&bug_file(name), &options);
    assert_eq!((found.verdict(), found.exit), ("wrong", Some(1)), "{}", found.describe());
    let told = found.findings().into_iter().any(|finding| {
        let message = finding["message"].as_str().unwrap_or_default();
        finding["code"] == code && words.clone().all(|word| message.contains(word))
    });
    assert!(told, "no {marker}: {}", found.describe());
    let elsewhere =
        found.cases.iter().find(|case| case["verdict"] != "passed" && case["case"]["stage"] != stage);
    assert!(elsewhere.is_none(), "{elsewhere:?}");

    let twin = sandbox.write("twin.py", &mended(&text));
    let right = sandbox.check(&twin, &options);
    assert_eq!((right.verdict(), right.codes()), ("passed", Vec::new()), "{}", right.describe());
}

macro_rules! planted {
    ($($test:ident: $file:literal;)*) => {
        $(#[test]
        fn $test() {
            check_stage_bug($file, "f32");
        })*
    };
}

planted! {
    stability_exponential_of_large_values: "stage_naive_exp.py";
    edge_indexing_as_if_contiguous: "stage_flat_indexing.py";
    determinism_result_kept_by_address: "stage_memo.py";
}

/// Bugs that the determinism stage finds for certain, and an earlier one may: other calls of the same process
/// show a reused output, and each tuning draws a configuration.
fn check_found_by_then(name: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let text = fs::read_to_string(bug_file(name)).expect("a file of this repository");
    let sandbox = Sandbox::new(python);
    let options = ["--stage", "smoke,determinism", "--dtype", "f32"];
    let found = sandbox.check(&bug_file(name), &options);
    assert_eq!((found.verdict(), found.exit), ("wrong", Some(1)), "{}", found.describe());
    let twin = sandbox.write("twin.py", &mended(&text));
    let right = sandbox.check(&twin, &options);
    assert_eq!((right.verdict(), right.codes()), ("passed", Vec::new()), "{}", right.describe());
}

macro_rules! found_by_then {
    ($($test:ident: $file:literal;)*) => {
        $(#[test]
        fn $test() {
            check_found_by_then($file);
        })*
    };
}

found_by_then! {
    static_output_buffer: "stage_static_buffer.py";
    configuration_that_leaves_elements: "stage_tuned_half.py";
    configuration_without_mask: "stage_tuned_bounds.py";
    tuning_in_place: "stage_tuned_in_place.py";
}

/// Sums in whatever order programs come are close enough, and said to differ.
#[test]
fn results_that_depend_on_order_pass_with_a_warning() {
    let Some(python) = python_or_skip("results_that_depend_on_order_pass_with_a_warning") else { return };
    let options = ["--stage", "smoke,determinism", "--dtype", "f32"];
    let checked = Sandbox::new(python).check(&bug_file("stage_atomic_order.py"), &options);
    assert_eq!((checked.verdict(), checked.exit), ("passed", Some(0)), "{}", checked.describe());
    let codes = checked.codes();
    assert!(
        !codes.is_empty() && codes.iter().all(|code| code == "nondeterministic"),
        "{}",
        checked.describe()
    );
}
