//! Records of a check as JSON lines: `warpsmith.case/1` for each case, `warpsmith.summary/1` last.
//!
//! The schema is documented in `docs/records.md`; a test compares the two.

use std::path::Path;

use serde_json::{Value, json};

use super::Report;
use super::timing::{not_timed_json, timing_json};
use super::verdict::{CaseRecord, Finding, NotRun};
use crate::runner::protocol::{OutputErrors, Sample};

/// The `schema` of [`case_json`].
pub const CASE_SCHEMA: &str = "warpsmith.case/1";
/// The `schema` of [`summary_json`].
pub const SUMMARY_SCHEMA: &str = "warpsmith.summary/1";

/// One case as one JSON object. `timing` is null: a case is run to be compared. Times belong to a function and a shape
/// and stand in the summary.
pub fn case_json(file: &Path, report: &Report, record: &CaseRecord) -> Value {
    let case = &record.case;
    let first = record.findings.first();
    let kernels: Vec<&str> = record.launches.iter().map(|launch| launch.kernel.as_str()).collect();
    json!({
        "schema": CASE_SCHEMA,
        "file": file.to_string_lossy(),
        "entry": report.entry,
        "kernel": first.and_then(|finding| finding.kernel.clone()).or_else(|| kernels.first().map(|k| (*k).to_owned())),
        "oracle": report.oracle,
        "case": {
            "stage": case.stage,
            "definition": case.definition,
            "axes": case.axes,
            "options": case.options,
            "dtype": case.dtype,
            "layout": case.layout,
            "profile": case.profile,
            "scalars": case.scalars,
            "coverage": case.coverage,
            // A string: a 64-bit seed does not survive readers that keep numbers as doubles.
            "seed": record.seed.to_string(),
        },
        "verdict": record.verdict,
        "code": first.map(|finding| finding.code),
        "where": first.and_then(|finding| finding.place.clone()),
        "message": first.map(|finding| finding.message.clone()),
        "findings": record.findings,
        "errors": record.errors.iter().map(errors_json).collect::<Vec<_>>(),
        "timing": null,
        "elapsed_ms": record.elapsed_ms,
        "provenance": report.provenance,
    })
}

fn errors_json(errors: &OutputErrors) -> Value {
    json!({
        "output": errors.name,
        "elements": errors.elements,
        "elements_compared": errors.elements_compared,
        "violations": errors.violations,
        "unwritten": errors.unwritten,
        "non_finite_mismatches": errors.non_finite_mismatches,
        "undefined": errors.undefined,
        "undecided": errors.undecided,
        "exact": errors.exact,
        "max_absolute_error": errors.max_absolute_error,
        "max_relative_error": errors.max_relative_error,
        "reference_max_absolute_error": errors.reference_max_absolute_error,
        "expected_rms": errors.expected_rms,
        "worst": errors.worst.as_ref().map(sample_json),
    })
}

/// The element nearest to (or farthest over) its tolerance, and what the tolerance was made of.
fn sample_json(sample: &Sample) -> Value {
    json!({
        "index": sample.index,
        "expected": sample.expected,
        "got": sample.got,
        "allowed": sample.allowed,
        "terms": sample.terms,
        "decided_by": sample.terms.map_or("exact", |terms| terms.deciding()),
    })
}

/// The last line of a check. Of a file with several described functions it sums up: what each came to stands under
/// `functions`.
pub fn summary_json(file: &Path, report: &Report) -> Value {
    let functions = report.parts.iter().map(|part| {
        json!({
            "entry": part.entry,
            "kernels": part.kernels,
            "verdict": part.verdict,
            "oracle": part.oracle,
            "cases": counts(part),
            "findings": part.findings,
            "not_run": part.not_run,
            "timings": part.published().map(timing_json).collect::<Vec<Value>>(),
            "not_timed": part.not_timed.iter().map(not_timed_json).collect::<Vec<Value>>(),
        })
    });
    json!({
        "schema": SUMMARY_SCHEMA,
        "file": file.to_string_lossy(),
        "verdict": report.verdict,
        "exit": report.verdict.exit_code(),
        "oracle": report.oracle,
        "cases": counts(report),
        "findings": report.all_findings().collect::<Vec<&Finding>>(),
        "not_run": not_run(report),
        "functions": functions.collect::<Vec<Value>>(),
        "not_judged": report.not_judged,
        "timings": report.all_published().map(timing_json).collect::<Vec<Value>>(),
        "not_timed": report.all_not_timed().map(not_timed_json).collect::<Vec<Value>>(),
        "timeline_ms": report.timeline,
        "provenance": report.provenance,
    })
}

fn counts(report: &Report) -> Value {
    let count = |verdict| report.all_cases().filter(|record| record.verdict == verdict).count();
    json!({
        "passed": count(super::Verdict::Passed),
        "wrong": count(super::Verdict::Wrong),
        "could_not_run": count(super::Verdict::CouldNotRun),
    })
}

/// Of several functions, each line with its function.
fn not_run(report: &Report) -> Vec<NotRun> {
    let of_parts = report.parts.iter().flat_map(|part| {
        let entry = part.entry.clone().unwrap_or_default();
        part.not_run.iter().map(move |line| NotRun::new(format!("{entry}: {}", line.what), line.why.clone()))
    });
    report.not_run.iter().cloned().chain(of_parts).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::judge::{Case, Code, Coverage, NoTiming, Stage, Verdict, timing};
    use crate::spec::Dtype;

    const PAGE: &str = include_str!("../../docs/records.md");

    /// The rows of the page's table of codes.
    fn documented(verdict: Verdict) -> Vec<String> {
        let row = match verdict {
            Verdict::Passed => "| passed, with a warning |",
            other => &format!("| {} |", other.words()),
        };
        let line = PAGE.lines().find(|line| line.starts_with(row)).expect("a row for each verdict");
        line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_code_is_documented_under_its_verdict() {
        for verdict in [Verdict::Wrong, Verdict::CouldNotRun, Verdict::Passed] {
            let known: Vec<String> =
                Code::ALL.iter().filter(|code| code.verdict() == verdict).map(|code| code.name()).collect();
            assert_eq!(documented(verdict), known);
        }
    }

    #[test]
    fn the_term_that_decided_is_told() {
        let errors: OutputErrors = serde_json::from_value(json!({
            "name": "out",
            "worst": {"index": [1], "expected": 1.0, "got": 1.5, "allowed": 0.75, "terms":
                {"reference": 0.25, "rounding": 0.5, "accumulation": 0.0, "conditioning": 0.0}}
        }))
        .expect("fits the protocol");
        let written = errors_json(&errors);
        assert_eq!(written["worst"]["decided_by"], "rounding");
        assert_eq!(written["worst"]["terms"]["reference"], 0.25);
        for key in written.as_object().into_iter().chain(written["worst"].as_object()).flat_map(|o| o.keys())
        {
            assert!(PAGE.contains(&format!("`{key}`")), "{key}");
        }
        let exact = serde_json::from_value(json!({"index": [0], "expected": 1, "got": 2, "allowed": 0}));
        assert_eq!(sample_json(&exact.expect("a sample"))["decided_by"], "exact");
    }

    #[test]
    fn every_key_of_a_time_is_documented() {
        let (_, section) = PAGE.split_once("## Times").expect("a section");
        let mut timing = timing::samples::timing();
        timing.changes =
            vec![timing::Change { against: timing::Against::Head, ratio: 1.2, low: 1.1, high: 1.3 }];
        let missing = NoTiming::new(Some(timing.subject.clone()), timing::NoTimingCode::Failed, "");
        let mut report = Report::ended_at_once(Finding::plain(Code::WeakTolerance, ""));
        timing.source_hash.clone_from(&report.provenance.source_hash);
        report.timings.push(timing);
        report.not_timed.push(missing);
        let summary = summary_json(Path::new("/k.py"), &report);
        let (timing, missing) = (&summary["timings"][0], &summary["not_timed"][0]);
        for value in [
            timing,
            &timing["latency"],
            &timing["latency"]["cold_us"],
            &timing["speedup"],
            &timing["gpu"],
            &timing["versions"],
            &timing["roofline"],
            &timing["changes"][0],
            missing,
            &missing["subject"],
        ] {
            for key in value.as_object().expect("an object").keys() {
                assert!(section.contains(&format!("`{key}`")), "{key} in {value}");
            }
        }
        for code in timing::NoTimingCode::ALL {
            assert!(section.contains(&format!("`{}`", code.name())), "{}", code.name());
        }
    }

    #[test]
    fn every_key_is_documented() {
        let report = Report::ended_at_once(Finding::plain(Code::WeakTolerance, ""));
        let case = Case {
            stage: Stage::Smoke,
            definition: "softmax".to_owned(),
            options: BTreeMap::new(),
            axes: [("M".to_owned(), 3)].into(),
            dtype: Dtype::Float32,
            layout: "contiguous".to_owned(),
            profile: "default".to_owned(),
            scalars: BTreeMap::new(),
            coverage: Coverage::Full,
        };
        let record = CaseRecord {
            case,
            verdict: Verdict::Passed,
            findings: Vec::new(),
            errors: vec![OutputErrors::default()],
            launches: Vec::new(),
            seed: u64::MAX,
            elapsed_ms: 1.0,
        };
        let summary = summary_json(Path::new("/k.py"), &report);
        let case = case_json(Path::new("/k.py"), &report, &record);
        for (schema, value) in [(SUMMARY_SCHEMA, &summary), (CASE_SCHEMA, &case)] {
            let (_, section) = PAGE.split_once(&format!("## `{schema}`")).expect("a section for each schema");
            let section = section.split("\n## ").next().unwrap_or_default();
            for key in value.as_object().expect("an object").keys() {
                assert!(section.contains(&format!("| `{key}` |")), "{schema}: {key}");
            }
        }
        for nested in [&case["case"], &case["errors"][0], &case["provenance"]] {
            for key in nested.as_object().expect("an object").keys() {
                assert!(PAGE.contains(&format!("`{key}`")), "{key} in {nested}");
            }
        }
        assert_eq!(summary["exit"], 0);
        assert_eq!(case["case"]["seed"], "18446744073709551615");
    }
}
