use std::sync::Arc;

use super::*;
use crate::judge::timing::samples::timing;
use crate::judge::{Code, Finding, Stage};
use crate::spec::Dtype;

fn request(folder: &Path, text: &str) -> CheckRequest {
    let path = folder.join("k.py");
    std::fs::write(&path, text).expect("a file");
    let options = CheckOptions::default();
    CheckRequest { path, text: Arc::from(text), python: None, options }
}

fn report(code: Code) -> Report {
    let mut report = Report::ended_at_once(Finding::plain(code, "words"));
    report.entry = Some("softmax".to_owned());
    report.provenance.torch = Some("2.15.0".to_owned());
    report.provenance.method = "triton-interpreter".to_owned();
    report
}

fn past(report: &Report, text: &str) -> PastVerdict {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rows = entries(&request(folder.path(), text), report, None);
    assert_eq!(rows.len(), 1);
    read(rows.remove(0)).expect("it can be read again")
}

#[test]
fn a_verdict_is_read_as_it_was_kept() {
    let mut judged = report(Code::WeakTolerance);
    judged.timings = vec![timing()];
    let folder = tempfile::tempdir().expect("a folder");
    let mut asked = request(folder.path(), "x = 1\n");
    asked.options.stages = vec![Stage::Smoke, Stage::Edge];
    asked.options.dtypes = vec![Dtype::Float32];
    let head = AtHead { commit: "a1b2c3d".to_owned(), text: "x  =  1 # the same\n".to_owned() };
    let rows = entries(&asked, &judged, Some(&head));
    let kept = read(rows[0].clone()).expect("it can be read again");
    assert_eq!((kept.verdict, kept.entry.as_deref()), (Verdict::Passed, Some("softmax")));
    assert_eq!(kept.codes, ["weak-tolerance"]);
    assert_eq!(kept.detail.asked, "--dtype f32 --stage smoke,edge");
    assert_eq!((kept.commit.as_deref(), kept.detail.is_committed), (Some("a1b2c3d"), true));
    assert_eq!(kept.versions.torch.as_deref(), Some("2.15.0"));
    let [time] = kept.detail.times.as_slice() else { panic!("{:?}", kept.detail) };
    assert_eq!((time.cold_us, time.speedup, time.dtype.as_str()), (412.0, Some(1.83), "f16"));

    let other = AtHead { text: "x = 2\n".to_owned(), ..head };
    assert!(!read(entries(&asked, &judged, Some(&other))[0].clone()).expect("read").detail.is_committed);
}

#[test]
fn a_time_that_may_not_be_shown_is_not_kept_with_a_verdict() {
    let mut judged = report(Code::Mismatch);
    judged.timings = vec![timing()];
    assert_eq!(past(&judged, "").detail.times, []);
}

#[test]
fn each_function_of_a_file_has_its_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut whole = report(Code::Race);
    whole.parts = vec![report(Code::Race), Report { entry: None, ..report(Code::NoOracle) }];
    let rows = entries(&request(folder.path(), ""), &whole, None);
    let read: Vec<PastVerdict> = rows.into_iter().filter_map(read).collect();
    let told: Vec<_> = read.iter().map(|row| (row.entry.as_deref(), row.verdict)).collect();
    assert_eq!(told, [(Some("softmax"), Verdict::Wrong), (None, Verdict::CouldNotRun)]);
}

#[test]
fn what_changed_is_told_against_the_one_before() {
    let right = past(&report(Code::WeakTolerance), "x = 1\n");
    let wrong = past(&report(Code::Race), "x = 2\n");
    assert_eq!(right.changes(None), ["first"]);
    assert_eq!(wrong.changes(Some(&right)), ["was passed", "new: race", "gone: weak-tolerance"]);
    assert_eq!(right.changes(Some(&right)), ["same code"]);
    let mut newer = right.clone();
    newer.versions.torch = Some("2.16.0".to_owned());
    newer.versions.triton = Some("3.9.0".to_owned());
    assert_eq!(newer.changes(Some(&right)), ["same code", "torch 2.15.0 → 2.16.0"]);
    let mut slower = right.clone();
    slower.code_hash = "other".to_owned();
    let change = |against, ratio| Change { against, ratio, low: ratio, high: ratio };
    let changes = vec![change(Against::LastSave, 1.5), change(Against::Head, 3.0)];
    let time = PastTime {
        definition: String::new(),
        shape: "4096".to_owned(),
        dtype: "f16".to_owned(),
        baseline: None,
        cold_us: 1.0,
        speedup: None,
        changes,
    };
    slower.detail.times = vec![time];
    assert_eq!(slower.changes(Some(&right)), ["1.50× slower (f16 4096)"]);
}

#[test]
fn only_the_same_question_about_the_same_function_is_compared() {
    let now = past(&report(Code::Race), "");
    let mut narrow = now.clone();
    narrow.detail.asked = "--stage smoke".to_owned();
    let mut other = now.clone();
    other.entry = Some("another".to_owned());
    let same = PastVerdict { judged_at_s: 1, ..now.clone() };
    // Both lie in folders of their own.
    let list: Vec<PastVerdict> =
        [narrow, other, same.clone()].map(|row| PastVerdict { file: now.file.clone(), ..row }).into();
    assert_eq!(now.before(&list), Some(&same));
    assert_eq!(now.before(&list[..2]), None);
}

#[test]
fn a_cancelled_check_says_nothing() {
    assert!(report(Code::Cancelled).is_cancelled());
    assert!(!report(Code::Timeout).is_cancelled());
}

#[test]
fn every_key_of_the_record_is_documented() {
    const PAGE: &str = include_str!("../../docs/records.md");
    let (_, section) = PAGE.split_once("## `warpsmith.history/1`").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut judged = report(Code::WeakTolerance);
    judged.timings = vec![timing()];
    let record = past(&judged, "x = 1\n").json(None);
    for value in [&record, &record["cases"], &record["versions"], &record["times"][0]] {
        for key in value.as_object().expect("an object").keys() {
            assert!(section.contains(&format!("`{key}`")), "{key}");
        }
    }
}
