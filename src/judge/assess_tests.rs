//! Every way a case can end, and what is said of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::judge::Stage;
use crate::judge::trials::{Trial, TrialOutcome};

fn case(coverage: Coverage) -> Case {
    Case {
        stage: Stage::Sweep,
        definition: "softmax".to_owned(),
        axes: BTreeMap::from([("M".to_owned(), 4), ("N".to_owned(), 8)]),
        dtype: Dtype::Float32,
        layout: "contiguous".to_owned(),
        profile: crate::judge::DEFAULT_PROFILE.to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage,
    }
}

fn out() -> OutputSpec {
    OutputSpec { name: "out".to_owned(), dtype: Dtype::Float32, shape: vec![4, 8] }
}

fn judge_on(case: &Case, outputs: &[OutputSpec], ended: Ended) -> CaseRecord {
    judge_with_trials(case, outputs, ended, &[], false)
}

fn judge_with_trials(
    case: &Case,
    outputs: &[OutputSpec],
    ended: Ended,
    trials: &[TrialOutcome],
    must_be_deterministic: bool,
) -> CaseRecord {
    let circumstances = Circumstances {
        case,
        outputs,
        seed: 1,
        elapsed_ms: 2.0,
        wall_s: 20.0,
        on_gpu: false,
        may_use_tf32: false,
        op_type: "softmax",
        trials,
        must_be_deterministic,
    };
    assess(circumstances, ended)
}

fn judge(ended: Ended) -> CaseRecord {
    judge_on(&case(Coverage::Full), &[out()], ended)
}

fn ran(changes: Value) -> Ran {
    let mut ran = json!({
        "outputs": [{"type_name": "torch.Tensor", "dtype": "float32", "shape": [4, 8], "strides": [8, 1],
                     "aliases_input": null, "written_by_single_launch": true, "copied": true}],
        "launches": [{"kernel": "k", "file": "/k.py", "line": 3, "grid": [4, 1, 1], "programs": 4, "programs_run": 4}],
        "findings": [], "unsupported": null, "run_ms": 1.0
    });
    merge(&mut ran, changes);
    serde_json::from_value(ran).unwrap()
}

fn compared(changes: Value) -> Compared {
    let mut errors = json!({
        "name": "out", "elements": 32, "elements_compared": 32, "unwritten": 0, "non_finite_mismatches": 0,
        "violations": 0, "tf32_violations": 0, "max_absolute_error": 1e-7, "max_relative_error": 1e-7,
        "reference_max_absolute_error": 1e-7, "expected_rms": 1.0, "null_candidates": []
    });
    merge(&mut errors, changes);
    serde_json::from_value(json!({"outputs": [errors], "inputs_changed": []})).unwrap()
}

fn merge(into: &mut Value, changes: Value) {
    let (Value::Object(into), Value::Object(changes)) = (into, changes) else { return };
    into.extend(changes);
}

fn ended(ran_changes: Value, compared_changes: Value) -> Ended {
    Ended::Ran { ran: ran(ran_changes), compared: Some(compared(compared_changes)) }
}

fn codes(record: &CaseRecord) -> Vec<Code> {
    record.findings.iter().map(|finding| finding.code).collect()
}

fn sample() -> Value {
    json!({"index": [2, 3], "expected": 0.5, "got": 0.75, "allowed": 1e-6})
}

#[test]
fn a_right_answer_passes() {
    let record = judge(ended(json!({}), json!({})));
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![]));
}

#[test]
fn nothing_passes_without_a_comparison() {
    let record = judge(Ended::Ran { ran: ran(json!({})), compared: None });
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::NotComparable]));
    let none_compared = ended(json!({}), json!({"elements_compared": 0}));
    assert_eq!(judge_on(&case(Coverage::Sampled), &[out()], none_compared).verdict, Verdict::CouldNotRun);
}

#[test]
fn an_answer_without_a_launch_is_no_verdict_on_a_kernel() {
    let empty_grid = json!([{"kernel": "k", "file": "/k.py", "line": 3, "grid": [0, 1, 1], "programs": 0,
                             "programs_run": 0}]);
    let record = judge(ended(json!({"launches": empty_grid}), json!({})));
    assert_eq!(codes(&record), [Code::NotLaunched], "over an empty grid nothing runs");
    let record = judge(ended(json!({"launches": []}), json!({})));
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::NotLaunched]));
    let empty = OutputSpec { shape: vec![0, 8], ..out() };
    let empty_answer = ended(
        json!({"launches": [], "outputs": [{"type_name": "torch.Tensor", "dtype": "float32", "shape": [0, 8], "copied": true}]}),
        json!({"elements": 0, "elements_compared": 0}),
    );
    assert_eq!(judge_on(&case(Coverage::Full), &[empty], empty_answer).verdict, Verdict::Passed);
}

#[test]
fn values_decide() {
    let unwritten = judge(ended(
        json!({}),
        json!({"unwritten": 8, "violations": 8, "first_unwritten": [3, 0], "last_unwritten": [3, 7]}),
    ));
    assert_eq!(codes(&unwritten), [Code::Unwritten]);
    assert_eq!(
        unwritten.findings[0].message,
        "8 of 32 elements of `out` were never written, from [3, 0] to [3, 7]"
    );
    let non_finite =
        judge(ended(json!({}), json!({"non_finite_mismatches": 1, "first_non_finite": sample()})));
    assert_eq!(codes(&non_finite), [Code::NonFinite]);
    let mismatch = judge(ended(json!({}), json!({"violations": 2, "tf32_violations": 2, "first": sample()})));
    assert_eq!((mismatch.verdict, codes(&mismatch)), (Verdict::Wrong, vec![Code::Mismatch]));
    let element = mismatch.findings[0].element.as_ref().unwrap();
    assert_eq!((element.index.as_slice(), element.expected.0, element.got.0), (&[2, 3][..], 0.5, 0.75));
    assert_eq!(mismatch.findings[0].kernel.as_deref(), Some("k"));
}

#[test]
fn tf32_is_named_only_when_a_dot_ran_as_tf32() {
    let values = json!({"violations": 2, "tf32_violations": 0, "first": sample()});
    let with_dot = json!({"launches": [{"kernel": "k", "file": "/k.py", "line": 3, "grid": [1, 1, 1], "programs": 1,
        "programs_run": 1, "tf32_dots": [{"file": "/k.py", "line": 9}]}]});
    let named = judge(ended(with_dot.clone(), values.clone()));
    assert_eq!((named.verdict, codes(&named)), (Verdict::Wrong, vec![Code::Tf32]));
    assert_eq!(named.findings[0].place.as_ref().map(|place| place.line), Some(9));
    assert_eq!(codes(&judge(ended(json!({}), values))), [Code::Mismatch]);
    let beyond = json!({"violations": 2, "tf32_violations": 1, "first": sample()});
    assert_eq!(codes(&judge(ended(with_dot, beyond))), [Code::Mismatch]);
}

#[test]
fn the_form_of_the_answer_decides() {
    let output = |changes: Value| {
        let mut output =
            json!({"type_name": "torch.Tensor", "dtype": "float32", "shape": [4, 8], "copied": false});
        merge(&mut output, changes);
        judge(Ended::Ran { ran: ran(json!({"outputs": [output]})), compared: None })
    };
    assert_eq!(codes(&output(json!({"dtype": "float16"}))), [Code::WrongDtype]);
    assert_eq!(codes(&output(json!({"shape": [8, 4]}))), [Code::WrongShape]);
    assert_eq!(codes(&output(json!({"type_name": "LazyTensor", "dtype": null}))), [Code::WrongOutputs]);
    assert_eq!(codes(&output(json!({"returned_before": true}))), [Code::OutputReused]);
    assert_eq!(codes(&output(json!({"aliases_input": "x"}))), [Code::AliasesInput]);
    let two = judge(Ended::Ran { ran: ran(json!({"outputs": []})), compared: None });
    assert_eq!(codes(&two), [Code::WrongOutputs]);
}

#[test]
fn changed_inputs_are_wrong() {
    let mut changed = compared(json!({}));
    changed.inputs_changed.push("x".to_owned());
    let record = judge(Ended::Ran { ran: ran(json!({})), compared: Some(changed) });
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::InputsChanged]));
}

fn worker_finding(kind: &str) -> Value {
    json!({"kind": kind, "kernel": "k", "place": {"file": "/k.py", "line": 7}, "message": "m", "program": [0, 0, 0]})
}

#[test]
fn a_finding_makes_right_values_wrong() {
    let kinds = [
        ("out-of-bounds-load", Code::OutOfBounds),
        ("out-of-bounds-store", Code::OutOfBounds),
        ("out-of-bounds-atomic", Code::OutOfBounds),
        ("race", Code::Race),
        ("duplicate-store", Code::DuplicateStore),
        ("integer-overflow", Code::IntegerOverflow),
        ("device-assert", Code::DeviceAssert),
        ("uninitialised-read", Code::UninitialisedRead),
        ("compile-error", Code::CompileError),
    ];
    for (kind, code) in kinds {
        let record = judge(ended(json!({"findings": [worker_finding(kind)]}), json!({})));
        assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![code]), "{kind}");
    }
    let benign = judge(ended(json!({"findings": [worker_finding("benign-race")]}), json!({})));
    assert_eq!((benign.verdict, codes(&benign)), (Verdict::Passed, vec![Code::BenignRace]));
}

#[test]
fn the_cause_stands_before_the_consequence() {
    let findings = json!({"findings": [worker_finding("benign-race"), worker_finding("out-of-bounds-load")]});
    let record = judge(ended(findings, json!({"violations": 1, "tf32_violations": 1, "first": sample()})));
    assert_eq!(codes(&record), [Code::OutOfBounds, Code::Mismatch, Code::BenignRace]);
}

#[test]
fn a_sampled_run_says_nothing_of_what_it_did_not_run() {
    let findings = json!({"findings": [worker_finding("uninitialised-read")]});
    let record = judge_on(
        &case(Coverage::Sampled),
        &[out()],
        ended(findings, json!({"unwritten": 16, "elements_compared": 16})),
    );
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![]));
}

#[test]
fn an_offsets_case_compares_nothing_and_passes_on_bounds_alone() {
    let clean = Ended::Ran { ran: ran(json!({"outputs": []})), compared: None };
    assert_eq!(judge_on(&case(Coverage::Offsets), &[out()], clean).verdict, Verdict::Passed);
    let wraps =
        Ended::Ran { ran: ran(json!({"findings": [worker_finding("integer-overflow")]})), compared: None };
    assert_eq!(judge_on(&case(Coverage::Offsets), &[out()], wraps).verdict, Verdict::Wrong);
    let none = Ended::Ran { ran: ran(json!({"launches": []})), compared: None };
    assert_eq!(judge_on(&case(Coverage::Offsets), &[out()], none).verdict, Verdict::CouldNotRun);
}

#[test]
fn what_cannot_be_checked_is_never_passed() {
    let unsupported =
        json!({"unsupported": {"code": "inline-asm", "message": "inline assembly", "place": null}});
    let record = judge(ended(unsupported, json!({})));
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::Unsupported]));
}

#[test]
fn a_tolerance_that_accepts_zeros_is_a_warning() {
    let nulls =
        json!({"null_candidates": [{"name": "zeros", "violations": 0}, {"name": "mean", "violations": 3}]});
    let record = judge(ended(json!({}), nulls));
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![Code::WeakTolerance]));
    assert!(record.findings[0].message.contains("accepts zeros:"), "{}", record.findings[0].message);
}

#[test]
fn exceptions_are_never_skips() {
    let raised = |code: &str, exception: &str| {
        let raised = json!({"exception": exception, "message": "m", "code": code, "missing": null,
            "place": {"file": "/k.py", "line": 9}, "column": null});
        judge(Ended::Raised(serde_json::from_value(raised).unwrap()))
    };
    for exception in ["SkipTest", "SystemExit", "OutOfMemoryError", "KeyboardInterrupt", "ZeroDivisionError"]
    {
        let record = raised("raised", exception);
        assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::Raised]), "{exception}");
    }
    assert_eq!(codes(&raised("compile-error", "CompilationError")), [Code::CompileError]);
    assert_eq!(raised("out-of-memory", "MemoryError").verdict, Verdict::CouldNotRun);
    assert_eq!(raised("unsupported", "X").verdict, Verdict::CouldNotRun);
    assert_eq!(codes(&raised("a code of a later worker", "X")), [Code::Raised]);
}

#[test]
fn a_process_that_ends_without_an_answer_has_not_passed() {
    let died = |reason: &str, signal: Option<i32>, status: Option<i32>| {
        let died = json!({"reason": reason, "signal": signal, "status": status, "output": "a\nb\n\nc\nd\n"});
        judge(Ended::Died(serde_json::from_value(died).unwrap()))
    };
    let exited = died("exit", None, Some(0));
    assert_eq!((exited.verdict, codes(&exited)), (Verdict::Wrong, vec![Code::Exited]));
    assert!(
        exited.findings[0].message.ends_with("its last output:\nb\nc\nd"),
        "{}",
        exited.findings[0].message
    );
    assert_eq!(codes(&died("signal", Some(11), None)), [Code::Crashed]);
    assert_eq!(codes(&died("signal", Some(9), None)), [Code::OutOfMemory]);
    assert_eq!(codes(&died("timeout", None, None)), [Code::Timeout]);
    assert_eq!(codes(&died("memory", None, None)), [Code::OutOfMemory]);
    assert_eq!(codes(&died("killed", None, None)), [Code::Cancelled]);
    let failed = judge(Ended::Failed { code: "no-memory".to_owned(), message: "m".to_owned() });
    assert_eq!((failed.verdict, codes(&failed)), (Verdict::CouldNotRun, vec![Code::JudgeFailed]));
}

#[test]
fn without_terms_there_is_nothing_to_launch() {
    let mut no_terms = case(Coverage::Full);
    no_terms.axes.insert("K".to_owned(), 0);
    let zeros = || ended(json!({"launches": []}), json!({}));
    assert_eq!(judge_on(&no_terms, &[out()], zeros()).verdict, Verdict::Passed);
    let not_zeros = ended(json!({"launches": []}), json!({"violations": 1, "first": sample()}));
    assert_eq!(judge_on(&no_terms, &[out()], not_zeros).verdict, Verdict::Wrong);
    assert_eq!(judge(zeros()).verdict, Verdict::CouldNotRun);
}

#[test]
fn what_only_a_large_shape_cannot_show_was_not_run() {
    let died = |reason| {
        let died = json!({"reason": reason, "signal": null, "status": null, "output": ""});
        Ended::Died(serde_json::from_value(died).unwrap())
    };
    let told =
        |coverage, ended| beyond_a_sample(&judge_on(&case(coverage), &[out()], ended), false).is_some();
    let not_compared = |changes| Ended::Ran { ran: ran(changes), compared: None };
    assert!(told(Coverage::Sampled, not_compared(json!({}))));
    assert!(told(Coverage::Offsets, died("memory")));
    assert!(told(Coverage::Offsets, died("timeout")));
    // What was found in the programs that did run counts, and so does whatever ends another way.
    let race = json!({"kind": "race", "place": {"file": "/k.py", "line": 3}, "message": "m"});
    assert!(!told(Coverage::Sampled, not_compared(json!({"findings": [race]}))));
    assert!(told(Coverage::Sampled, died("timeout")));
    assert!(!told(Coverage::Sampled, died("memory")));
    assert!(!told(Coverage::Offsets, died("killed")));
    assert!(!told(Coverage::Offsets, died("signal")));
    for ended in [not_compared(json!({})), died("memory"), died("timeout")] {
        assert!(!told(Coverage::Full, ended));
    }
    assert!(!told(Coverage::Sampled, ended(json!({}), json!({}))));
}

fn outcome(trial: Trial, ended: Ended, differing: Option<u64>) -> TrialOutcome {
    let repeated = differing.map(|differing| {
        let output = json!({"name": "out", "elements": 32, "differing": differing, "first": [0, 1]});
        serde_json::from_value(json!({"outputs": [output]})).unwrap()
    });
    TrialOutcome { trial, ended, repeated }
}

fn judge_trials(trials: &[TrialOutcome], must_be_deterministic: bool) -> CaseRecord {
    let first = ended(json!({}), json!({}));
    judge_with_trials(&case(Coverage::Full), &[out()], first, trials, must_be_deterministic)
}

#[test]
fn other_bits_are_a_warning_unless_the_definition_forbids_them() {
    let trials = || {
        let right = || ended(json!({}), json!({}));
        [outcome(Trial::Again, right(), Some(3)), outcome(Trial::Back, right(), Some(3))]
    };
    let record = judge_trials(&trials(), false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![Code::Nondeterministic]));
    let record = judge_trials(&trials(), true);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::NotRepeatable]));
    assert!(record.findings[0].message.contains("first at [0, 1]"), "{}", record.findings[0].message);
    let same = judge_trials(&[outcome(Trial::Again, ended(json!({}), json!({})), Some(0))], true);
    assert_eq!((same.verdict, codes(&same)), (Verdict::Passed, vec![]));
}

#[test]
fn other_values_and_other_configurations_may_have_other_bits() {
    let configuration =
        Trial::Configuration { kernel: "k".to_owned(), index: 1, text: "BLOCK=32".to_owned() };
    for trial in [Trial::OtherValues, configuration.clone()] {
        let record = judge_trials(&[outcome(trial, ended(json!({}), json!({})), Some(30))], true);
        assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![]));
    }
    let wrong = ended(json!({}), json!({"violations": 4, "first": sample()}));
    let record = judge_trials(&[outcome(configuration, wrong, Some(4))], false);
    assert_eq!(codes(&record), [Code::Mismatch]);
    assert!(record.findings[0].message.starts_with("autotune configuration BLOCK=32 of `k` alone: 4 of 32"));
}

#[test]
fn a_result_of_earlier_values_is_a_cache() {
    let wrong = || ended(json!({}), json!({"violations": 32, "first": sample()}));
    let record = judge_trials(&[outcome(Trial::OtherValues, wrong(), Some(0))], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::Memoised]));
    let record = judge_trials(&[outcome(Trial::OtherValues, wrong(), Some(7))], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::Mismatch]));
}

#[test]
fn a_result_that_one_element_does_not_change_is_a_cache() {
    let wrong = || ended(json!({}), json!({"violations": 8, "first": sample()}));
    let record = judge_trials(&[outcome(Trial::OneElement, wrong(), Some(0))], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::Memoised]));
    assert!(record.findings[0].message.starts_with("called with one element of each input changed, "));
    let record = judge_trials(&[outcome(Trial::OneElement, wrong(), Some(3))], false);
    assert_eq!(codes(&record), [Code::Mismatch]);
    let right = judge_trials(&[outcome(Trial::OneElement, ended(json!({}), json!({})), Some(3))], true);
    assert_eq!((right.verdict, codes(&right)), (Verdict::Passed, vec![]));
}

/// Only a call that is right all the same comes here, see `trials.rs`.
#[test]
fn a_result_that_needs_no_kernel_is_nobodys() {
    let record = judge_trials(&[outcome(Trial::Idle, ended(json!({}), json!({})), None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::NoEffect]));
    let record = judge_trials(&[outcome(Trial::Idle, Ended::Read, None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![]));
}

#[test]
fn the_whole_operation_is_not_left_to_a_library() {
    let calls = |library: Value| judge(ended(json!({"library": library}), json!({})));
    let record = calls(json!(["logsumexp", "softmax"]));
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::Delegated]));
    assert!(record.findings[0].message.contains("`softmax`"), "{}", record.findings[0].message);
    assert_eq!(calls(json!(["matmul", "logsumexp"])).verdict, Verdict::Passed, "parts may be");
    let without = judge(ended(json!({"library": ["softmax"], "launches": []}), json!({})));
    assert_eq!(codes(&without), [Code::NotLaunched], "one thing is told once");
}

#[test]
fn a_changed_result_of_an_earlier_call_is_a_reused_output() {
    let record = judge_trials(&[outcome(Trial::Held, Ended::Read, Some(32))], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::OutputReused]));
    let record = judge_trials(&[outcome(Trial::Held, Ended::Read, Some(0))], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![]));
}

#[test]
fn a_trial_that_fails_is_told_with_how_it_differed() {
    let died = |reason: &str| {
        let died = json!({"reason": reason, "signal": null, "status": 1, "output": ""});
        Ended::Died(serde_json::from_value(died).unwrap())
    };
    let record = judge_trials(&[outcome(Trial::Reordered, died("timeout"), None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Passed, vec![Code::OrderDependent]));
    let record = judge_trials(&[outcome(Trial::Again, died("timeout"), None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::Timeout]));
    let record = judge_trials(&[outcome(Trial::Again, died("exit"), None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::Wrong, vec![Code::Exited]));
    assert!(record.findings[0].message.starts_with("called again with the same inputs: "));
    let failed = Ended::Failed { code: "judge".to_owned(), message: "no memory".to_owned() };
    let record = judge_trials(&[outcome(Trial::OtherValues, failed, None)], false);
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::JudgeFailed]));
}

#[test]
fn values_that_the_reference_does_not_define_are_not_judged() {
    let stability = Case { stage: Stage::Stability, ..case(Coverage::Full) };
    let undefined = || ended(json!({}), json!({"undefined": 2, "non_finite_mismatches": 2}));
    assert_eq!(judge_on(&stability, &[out()], undefined()).verdict, Verdict::Passed);
    assert_eq!(judge(undefined()).verdict, Verdict::Wrong);
    let defined = ended(json!({}), json!({"non_finite_mismatches": 2}));
    assert_eq!(judge_on(&stability, &[out()], defined).verdict, Verdict::Wrong);
    let unwritten = ended(json!({}), json!({"undefined": 2, "unwritten": 1}));
    assert_eq!(codes(&judge_on(&stability, &[out()], unwritten)), [Code::Unwritten]);
}

#[test]
fn places_that_nobody_can_decide_are_neither_right_nor_wrong() {
    let record = judge(ended(json!({}), json!({"undecided": 2, "elements_compared": 30})));
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::ReferenceFailed]));
    let all = judge(ended(json!({}), json!({"undecided": 32, "elements_compared": 0})));
    assert_eq!((all.verdict, codes(&all)), (Verdict::CouldNotRun, vec![Code::ReferenceFailed]));
    let wrong = judge(ended(json!({}), json!({"undecided": 2, "violations": 1})));
    assert_eq!((wrong.verdict, codes(&wrong)), (Verdict::Wrong, vec![Code::Mismatch]));
}

/// Kernels with one block a row say that they take no longer one; that is no error. Any other exception is.
#[test]
fn a_stated_limit_on_a_very_long_axis_is_not_wrong() {
    let raises = |exception: &str, launches: Value| {
        let raised = json!({"exception": exception, "message": "n > 65536", "code": "raised", "missing": null,
            "place": {"file": "/k.py", "line": 9}, "column": null, "launches": launches});
        Ended::Raised(serde_json::from_value(raised).unwrap())
    };
    let launch = json!([{"kernel": "k", "file": "/k.py", "line": 3, "grid": [1, 1, 1], "programs": 1, "programs_run": 1}]);
    let mut long = case(Coverage::Full);
    long.axes.insert("N".to_owned(), 65_537);
    let record = judge_on(&long, &[out()], raises("RuntimeError", json!([])));
    assert_eq!((record.verdict, codes(&record)), (Verdict::CouldNotRun, vec![Code::Refused]));
    assert!(beyond_a_sample(&record, false).is_some());
    for ended in [raises("ZeroDivisionError", json!([])), raises("RuntimeError", launch)] {
        assert_eq!(judge_on(&long, &[out()], ended).verdict, Verdict::Wrong);
    }
    assert_eq!(judge(raises("RuntimeError", json!([]))).verdict, Verdict::Wrong);
}

fn judge_on_gpu(case: &Case, ended: Ended, may_use_tf32: bool) -> CaseRecord {
    let circumstances = Circumstances {
        case,
        outputs: &[out()],
        seed: 1,
        elapsed_ms: 2.0,
        wall_s: 60.0,
        on_gpu: true,
        may_use_tf32,
        op_type: "softmax",
        trials: &[],
        must_be_deterministic: false,
    };
    assess(circumstances, ended)
}

#[test]
fn what_was_written_beside_a_tensor_is_out_of_bounds() {
    let outside = Compared { written_outside: vec!["x".to_owned()], ..compared(json!({})) };
    let ended = Ended::Ran { ran: ran(json!({})), compared: Some(outside) };
    let record = judge_on_gpu(&case(Coverage::Full), ended, false);
    assert_eq!((record.verdict, record.findings[0].code), (Verdict::Wrong, Code::OutOfBounds));
}

/// A GPU does not tell which products were rounded: only a file that multiplies can have rounded any.
#[test]
fn on_a_gpu_tf32_is_told_of_files_that_multiply() {
    let off = json!({"violations": 3, "tf32_violations": 0});
    for (multiplies, code) in [(true, Code::Tf32), (false, Code::Mismatch)] {
        let ended = Ended::Ran { ran: ran(json!({})), compared: Some(compared(off.clone())) };
        let record = judge_on_gpu(&case(Coverage::Full), ended, multiplies);
        assert_eq!((record.verdict, record.findings[0].code), (Verdict::Wrong, code));
    }
}

/// No memory for a large size says nothing of the kernel; for a small one it could not run.
#[test]
fn too_little_memory_of_a_gpu_leaves_large_sizes_out() {
    let ended =
        || Ended::Failed { code: "out-of-memory".to_owned(), message: "no memory for the case".to_owned() };
    let record = judge_on_gpu(&case(Coverage::Full), ended(), false);
    assert_eq!((record.verdict, record.findings[0].code), (Verdict::CouldNotRun, Code::OutOfMemory));
    assert!(beyond_a_sample(&record, true).is_some());
    assert!(beyond_a_sample(&record, false).is_none());
}

#[test]
fn every_fault_that_a_gpu_tells_of_has_a_code() {
    for (code, expected) in [
        ("out-of-resources", Code::OutOfResources),
        ("illegal-access", Code::IllegalAccess),
        ("misaligned-access", Code::MisalignedAccess),
        ("illegal-instruction", Code::IllegalInstruction),
        ("device-assert", Code::DeviceAssert),
        ("launch-timeout", Code::Timeout),
        ("launch-failed", Code::LaunchFailed),
        ("device-lost", Code::DeviceLost),
        ("cuda-error", Code::Raised),
    ] {
        let raised = json!({"exception": "RuntimeError", "message": "CUDA error", "code": code, "missing": null,
                            "place": null, "column": null});
        let raised = Ended::Raised(serde_json::from_value(raised).unwrap());
        let record = judge_on_gpu(&case(Coverage::Full), raised, false);
        assert_eq!(record.findings[0].code, expected, "{code}");
        assert_eq!(record.verdict, expected.verdict());
    }
}
