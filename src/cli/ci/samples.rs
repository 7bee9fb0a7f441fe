//! Reports for tests: made up, and only here.

use std::collections::BTreeMap;
use std::path::Path;

use super::JudgedFile;
use crate::judge::{
    Case, CaseRecord, Code, Coverage, Finding, NotJudged, NotRun, Report, Stage, Timeline, Verdict,
};
use crate::runner::protocol::Place;
use crate::spec::Dtype;

pub(super) const TEXT: &str = "\
import triton


@triton.jit
def softmax_kernel(x):
    pass
";

pub(super) fn file() -> JudgedFile<'static> {
    JudgedFile { path: Path::new("/repo/ops/k.py"), shown: Path::new("/repo/ops/k.py"), text: TEXT }
}

fn case(stage: Stage, columns: u64, dtype: Dtype, findings: Vec<Finding>) -> CaseRecord {
    let verdict = findings.iter().map(|finding| finding.code.verdict()).max().unwrap_or(Verdict::Passed);
    CaseRecord {
        case: Case {
            stage,
            definition: "softmax".to_owned(),
            axes: [("M".to_owned(), 3), ("N".to_owned(), columns)].into(),
            dtype,
            layout: "contiguous".to_owned(),
            profile: "default".to_owned(),
            scalars: BTreeMap::new(),
            options: BTreeMap::new(),
            coverage: Coverage::Full,
        },
        verdict,
        findings,
        errors: Vec::new(),
        launches: Vec::new(),
        seed: 7,
        elapsed_ms: 12.5,
    }
}

fn finding(code: Code, line: Option<u32>, message: &str) -> Finding {
    let at = |line| Place { file: "/repo/ops/k.py".to_owned(), line };
    Finding {
        kernel: Some("softmax_kernel".to_owned()),
        place: line.map(at),
        called_from: line.map(|line| at(line + 10)).into_iter().collect(),
        ..Finding::plain(code, message)
    }
}

/// Wrong in two cases for one reason, in another for a second one; one case could not run, one passed with a warning.
pub(super) fn softmax() -> Report {
    let out = || vec![finding(Code::OutOfBounds, Some(6), "a load of 4 bytes behind `x`,\nat offset 1024")];
    let mut report = Report::ended_at_once(Finding::plain(Code::WeakTolerance, "zeros would pass at 100%"));
    report.entry = Some("softmax".to_owned());
    report.verdict = Verdict::Wrong;
    report.cases = vec![
        case(Stage::Smoke, 255, Dtype::Float32, out()),
        case(Stage::Smoke, 255, Dtype::Float16, out()),
        case(Stage::Sweep, 1, Dtype::Float32, Vec::new()),
        case(
            Stage::Sweep,
            2,
            Dtype::Float32,
            vec![finding(Code::Mismatch, None, "1 of 6 elements is wrong")],
        ),
        case(Stage::Sweep, 3, Dtype::Float32, vec![finding(Code::Timeout, None, "20 s were not enough")]),
        case(
            Stage::Determinism,
            3,
            Dtype::Float32,
            vec![finding(Code::Nondeterministic, None, "bits differ")],
        ),
    ];
    report.not_run = vec![NotRun::new("edge", "not asked for")];
    report.timeline = Timeline { end: Some(1234.0), ..Timeline::default() };
    report.provenance.method = "triton-interpreter".to_owned();
    report
}

/// Two functions and a kernel that is not judged.
pub(super) fn several() -> Report {
    let mut right = softmax();
    right.entry = Some("right".to_owned());
    right.verdict = Verdict::Passed;
    right.findings.clear();
    right.cases.retain(|record| record.verdict == Verdict::Passed);
    let mut report = unreadable();
    report.findings.clear();
    report.verdict = Verdict::Wrong;
    report.parts = vec![right, softmax()];
    let why = "no function that is judged launches it".to_owned();
    report.not_judged = vec![NotJudged { kernel: "other_kernel".to_owned(), why }];
    report
}

pub(super) fn unreadable() -> Report {
    Report::ended_at_once(Finding::plain(Code::UnreadableFile, "cannot read k.py"))
}
