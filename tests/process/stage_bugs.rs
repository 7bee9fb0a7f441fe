//! Bugs of which one stage knows: every other stage passes, the stage does not. In each file stands
//! `# STAGE: stage code words` (the words stand in the message), and above the faulty line `# RIGHT: …`, the line
//! that mends it; the mended twin passes that stage.

use crate::harness::{Checked, Sandbox, python_or_skip};
use crate::markers::{bug_file, bug_text, mended};

const STAGES: [&str; 5] = ["smoke", "sweep", "stability", "determinism", "edge"];

/// What `# STAGE: …` says: the stage, the code, and the rest.
struct Marker {
    stage: String,
    code: String,
    words: Vec<String>,
}

fn marker_of(text: &str) -> Marker {
    let marker = text.lines().find_map(|line| line.strip_prefix("# STAGE: ")).expect("a marker in the file");
    let mut words = marker.split(' ').map(str::to_owned);
    let (stage, code) = (words.next().expect("a stage"), words.next().expect("a code"));
    Marker { stage, code, words: words.collect() }
}

#[track_caller]
fn assert_told(found: &Checked, marker: &Marker) {
    let told = found.findings().into_iter().any(|finding| {
        let message = finding["message"].as_str().unwrap_or_default();
        finding["code"] == marker.code.as_str() && marker.words.iter().all(|word| message.contains(word))
    });
    assert!(told, "no {} of {}: {}", marker.code, marker.stage, found.describe());
}

/// How many cases of a stage ended with this verdict.
fn count(checked: &Checked, stage: &str, verdict: &str) -> usize {
    let is_one = |case: &&serde_json::Value| case["case"]["stage"] == stage && case["verdict"] == verdict;
    checked.cases.iter().filter(is_one).count()
}

fn check_twin(sandbox: &Sandbox, text: &str, options: &[&str]) {
    let right = sandbox.check(&sandbox.write("twin.py", &mended(text)), options);
    assert_eq!((right.verdict(), right.codes()), ("passed", Vec::new()), "{}", right.describe());
}

/// The other four stages run and pass; the stage of the marker finds the bug.
fn check_stage_bug(name: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let (sandbox, text) = (Sandbox::new(python), bug_text(name));
    let marker = marker_of(&text);
    let others: Vec<&str> = STAGES.into_iter().filter(|stage| *stage != marker.stage).collect();

    let elsewhere = sandbox.check(&bug_file(name), &["--stage", &others.join(","), "--dtype", "f32"]);
    assert_eq!((elsewhere.verdict(), elsewhere.exit), ("passed", Some(0)), "{}", elsewhere.describe());
    for stage in others {
        assert!(count(&elsewhere, stage, "passed") > 0, "{stage} did not run: {}", elsewhere.describe());
    }

    let options = ["--stage", &format!("smoke,{}", marker.stage), "--dtype", "f32"];
    let found = sandbox.check(&bug_file(name), &options);
    assert_eq!((found.verdict(), found.exit), ("wrong", Some(1)), "{}", found.describe());
    assert!(count(&found, &marker.stage, "wrong") > 0, "{}", found.describe());
    assert_told(&found, &marker);
    check_twin(&sandbox, &text, &options);
}

/// Smoke is the quick part of the others: its shape comes again in the sweep, with other values. So in a whole
/// check nobody but smoke finds these, because nothing else runs on a kernel that does not pass it.
fn check_smoke_bug(name: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let (sandbox, text) = (Sandbox::new(python), bug_text(name));
    let marker = marker_of(&text);
    let options = ["--dtype", "f32"];
    let found = sandbox.check(&bug_file(name), &options);
    assert_eq!((found.verdict(), found.exit), ("wrong", Some(1)), "{}", found.describe());
    assert_eq!(count(&found, "smoke", "wrong"), found.cases.len(), "{}", found.describe());
    let not_run = found.summary["not_run"].as_array().cloned().unwrap_or_default();
    for stage in &STAGES[1..] {
        let is_told = |line: &serde_json::Value| {
            line["what"].as_str().is_some_and(|what| what.starts_with(stage))
                && line["why"] == "its smoke case did not pass"
        };
        assert!(not_run.iter().any(is_told), "{stage}: {}", found.describe());
    }
    assert_told(&found, &marker);
    check_twin(&sandbox, &text, &options);
}

macro_rules! planted {
    ($check:ident; $($test:ident: $file:literal;)*) => {
        $(#[test]
        fn $test() {
            $check($file);
        })*
    };
}

planted! {
    check_smoke_bug;
    smoke_small_batch_with_a_short_block: "stage_small_batch.py";
    smoke_tail_of_a_short_sum: "stage_decode_tile.py";
}

planted! {
    check_stage_bug;
    sweep_row_longer_than_the_longest_block: "stage_longest_row.py";
    sweep_sum_without_terms: "stage_no_terms.py";
    stability_exponential_of_large_values: "stage_naive_exp.py";
    stability_variance_far_from_zero: "stage_variance.py";
    determinism_result_kept_by_address: "stage_memo.py";
    determinism_sum_that_program_0_sets: "stage_first_program.py";
    edge_indexing_as_if_contiguous: "stage_flat_indexing.py";
    edge_output_with_strides_of_the_input: "d09_flat_output.py";
}

/// Bugs that the determinism stage finds for certain, and an earlier one may: other calls of the same process
/// show a reused output, and each tuning draws a configuration.
fn check_found_by_then(name: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let (sandbox, text) = (Sandbox::new(python), bug_text(name));
    let options = ["--stage", "smoke,determinism", "--dtype", "f32"];
    let found = sandbox.check(&bug_file(name), &options);
    assert_eq!((found.verdict(), found.exit), ("wrong", Some(1)), "{}", found.describe());
    check_twin(&sandbox, &text, &options);
}

planted! {
    check_found_by_then;
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
