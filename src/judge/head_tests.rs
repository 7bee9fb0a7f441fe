use std::collections::BTreeMap;

use super::*;
use crate::judge::{BadElement, Case, Stage};
use crate::oracle::{ForeignFile, ForeignReference};
use crate::runner::protocol::OutputErrors;
use crate::spec::Dtype;

fn head(inferred: bool) -> HeadReference {
    let function = ForeignReference { file: ForeignFile::Same, function: "f".to_owned() };
    HeadReference { function, commit: "a1b2c3d".to_owned(), inferred }
}

fn case(coverage: Coverage) -> Case {
    Case {
        stage: Stage::Smoke,
        definition: "f".to_owned(),
        axes: BTreeMap::from([("N".to_owned(), 5)]),
        dtype: Dtype::Float32,
        layout: "contiguous".to_owned(),
        profile: "default".to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage,
    }
}

fn record(findings: Vec<Finding>) -> CaseRecord {
    let errors = OutputErrors {
        name: "out".to_owned(),
        elements: 5,
        elements_compared: 5,
        violations: 2,
        ..OutputErrors::default()
    };
    CaseRecord {
        case: case(Coverage::Full),
        verdict: findings.iter().map(|finding| finding.code.verdict()).max().unwrap_or(Verdict::Passed),
        findings,
        errors: vec![errors],
        launches: Vec::new(),
        seed: 1,
        elapsed_ms: 1.0,
    }
}

fn mismatch(message: &str) -> Finding {
    let element = BadElement {
        output: "out".to_owned(),
        index: vec![3],
        expected: Number(1.5),
        got: Number(2.5),
        allowed: Number(1e-6),
    };
    Finding { element: Some(element), ..Finding::plain(Code::Mismatch, message) }
}

/// What a case comes to, one finding a line.
fn told(findings: Vec<Finding>, at_head: &AtHead, inferred: bool) -> String {
    let record = judged(record(findings), at_head, &head(inferred));
    let lines = record.findings.iter().map(|finding| format!("{}: {}", finding.code.name(), finding.message));
    format!("{}\n  {}", record.verdict.words(), lines.collect::<Vec<_>>().join("\n  "))
}

#[test]
fn other_values_are_a_difference_and_nobody_knows_which_are_right() {
    let plain = "2 of 5 elements of `out` are wrong; first at [3]: expected 1.5, got 2.5";
    let cases = [
        mismatch(plain),
        mismatch(&format!("called again with the same inputs: {plain}")),
        Finding { code: Code::Tf32, ..mismatch(plain) },
        Finding::plain(Code::WrongShape, "`out` has shape [4], expected [5]"),
    ];
    for inferred in [false, true] {
        let told: Vec<String> =
            cases.iter().map(|finding| told(vec![finding.clone()], &AtHead::Clean, inferred)).collect();
        insta::assert_snapshot!("differences", told.join("\n"));
    }
}

#[test]
fn faults_of_the_new_version_stay_what_they_are() {
    let fault = || vec![Finding::plain(Code::OutOfBounds, "reads past x"), mismatch("values")];
    for inferred in [false, true] {
        let told = told(fault(), &AtHead::Clean, inferred);
        assert!(told.starts_with("wrong\n  out-of-bounds: reads past x\n  differs-from-head"), "{told}");
    }
}

/// On given inputs, faults of both are faults. On inputs that nobody gave they may be the fault of the inputs.
#[test]
fn where_head_goes_wrong_it_decides_nothing() {
    let both = || vec![Finding::plain(Code::OutOfBounds, "reads past x"), mismatch("values")];
    let raised = || vec![Finding::plain(Code::Raised, "raised IndexError: no")];
    let faulty = AtHead::Faulty(vec![Code::OutOfBounds]);
    let failed = AtHead::Failed("`f` at HEAD a1b2c3d: raised ValueError: no".to_owned());
    let lines = [
        told(both(), &faulty, false),
        told(both(), &faulty, true),
        told(vec![mismatch("values")], &faulty, false),
        told(vec![mismatch("values")], &faulty, true),
        told(raised(), &failed, false),
        told(raised(), &failed, true),
        told(
            vec![Finding::plain(Code::AliasesInput, "shares memory")],
            &AtHead::Faulty(vec![Code::AliasesInput]),
            false,
        ),
        told(vec![Finding::plain(Code::ReferenceFailed, "it changes its input")], &AtHead::Clean, false),
        told(vec![Finding::plain(Code::ReferenceFailed, "it changes its input")], &AtHead::Clean, true),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

/// Neither other values nor the same ones say anything where HEAD's version does.
#[test]
fn where_head_fails_nothing_is_a_difference_nor_a_proof() {
    let faulty = AtHead::Faulty(vec![Code::OutOfBounds]);
    let failed = AtHead::Failed("`f` at HEAD a1b2c3d: raised ValueError: no".to_owned());
    for at_head in [&faulty, &failed] {
        let weak = || Finding::plain(Code::WeakTolerance, "accepts zeros");
        for findings in [vec![mismatch("values")], Vec::new(), vec![weak()]] {
            let given = told(findings.clone(), at_head, false);
            assert!(given.starts_with("could not run\n  reference-failed"), "{given}");
            let inferred = told(findings, at_head, true);
            assert!(inferred.starts_with("could not run\n  inputs-unsuitable"), "{inferred}");
        }
    }
    let alias = vec![Finding::plain(Code::AliasesInput, "shares memory")];
    assert!(told(alias, &failed, false).starts_with("wrong\n  aliases-input"));
    assert!(told(Vec::new(), &AtHead::Clean, false).starts_with("passed"));
}

#[test]
fn the_worst_at_head_is_kept_until_it_is_taken() {
    let (noted, case) = (AtHeadByCase::default(), "k1".to_owned());
    let faulty = AtHead::Faulty(vec![Code::Race]);
    for at_head in [AtHead::Clean, faulty.clone(), AtHead::Clean] {
        noted.note(&case, at_head);
    }
    assert_eq!([noted.take(&case), noted.take(&case)], [faulty, AtHead::Clean]);
}

/// A contract may have changed; an error in the code is one.
#[test]
fn inferred_inputs_that_are_declined_now_are_no_proof() {
    let raised =
        |name: &str| vec![Finding::plain(Code::Raised, format!("raised {name}: x must have 3 dimensions"))];
    assert!(
        told(raised("ValueError"), &AtHead::Clean, true).starts_with("could not run\n  inputs-unsuitable")
    );
    assert!(told(raised("ValueError"), &AtHead::Clean, false).starts_with("wrong\n  raised"));
    assert!(told(raised("NameError"), &AtHead::Clean, true).starts_with("wrong\n  raised"));
}

#[test]
fn only_cases_that_run_whole_are_compared() {
    let cases = vec![case(Coverage::Full), case(Coverage::Sampled), case(Coverage::Offsets)];
    let mut plan = Plan { cases, not_run: Vec::new() };
    only_comparable(&mut plan);
    assert_eq!((plan.cases.len(), plan.not_run.len()), (1, 2));
}
