//! Reports as a judge gives them.

use std::collections::BTreeMap;

use warpsmith::judge::timing::{
    Bound, Estimate, Gpu, Latency, Roofline, Speedup, Subject, TimingMethod, Versions,
};
use warpsmith::judge::{
    BadElement, Case, CaseRecord, Code, Coverage, Finding, Provenance, Report, Stage, Timeline, Timing,
    Verdict,
};
use warpsmith::oracle::OracleLabel;
use warpsmith::runner::protocol::{Launch, Number, OutputErrors, Place, Sample, ToleranceTerms};
use warpsmith::spec::Dtype;

pub(crate) fn case(n: u64, dtype: Dtype) -> Case {
    Case {
        stage: Stage::Sweep,
        definition: "softmax".to_owned(),
        axes: BTreeMap::from([("N".to_owned(), n)]),
        dtype,
        layout: "contiguous".to_owned(),
        profile: "default".to_owned(),
        scalars: BTreeMap::new(),
        options: BTreeMap::new(),
        coverage: Coverage::Full,
    }
}

fn launch(kernel: &str) -> Launch {
    Launch {
        kernel: kernel.to_owned(),
        file: "/kernels/copy.py".to_owned(),
        line: 7,
        grid: [1, 1, 1],
        programs: 1,
        programs_run: 1,
        tf32_dots: Vec::new(),
        ms: 0.5,
    }
}

/// A passed case that launched `kernel`.
pub(crate) fn launched(kernel: &str, case: Case) -> CaseRecord {
    let terms = ToleranceTerms {
        reference: Number(0.0005),
        rounding: Number(0.0001),
        accumulation: Number(0.0004),
        conditioning: Number(0.0),
    };
    let worst = Sample {
        index: vec![3],
        expected: Number(1.0),
        got: Number(1.0005),
        allowed: Number(0.001),
        terms: Some(terms),
    };
    let errors = OutputErrors {
        name: "y".to_owned(),
        elements: 16,
        elements_compared: 16,
        max_absolute_error: Number(0.0005),
        reference_max_absolute_error: Number(0.00025),
        worst: Some(worst),
        ..OutputErrors::default()
    };
    CaseRecord {
        case,
        verdict: Verdict::Passed,
        findings: Vec::new(),
        errors: vec![errors],
        launches: vec![launch(kernel)],
        seed: 42,
        elapsed_ms: 1.0,
    }
}

/// The same case with a finding that decides it.
pub(crate) fn failing(mut record: CaseRecord, finding: Finding) -> CaseRecord {
    record.verdict = finding.code.verdict();
    record.findings.push(finding);
    record
}

pub(crate) fn place(file: &str, line: u32) -> Place {
    Place { file: file.to_owned(), line }
}

pub(crate) fn finding(code: Code, at: Option<Place>, message: &str) -> Finding {
    Finding {
        code,
        kernel: Some("copy_kernel".to_owned()),
        place: at,
        called_from: Vec::new(),
        message: message.to_owned(),
        element: None,
    }
}

/// Values that differ; nobody knows the line or the kernel.
pub(crate) fn mismatch() -> Finding {
    let element = BadElement {
        output: "y".to_owned(),
        index: vec![0, 3],
        expected: Number(1.25),
        got: Number(f64::NAN),
        allowed: Number(0.001),
    };
    Finding {
        kernel: None,
        element: Some(element),
        ..finding(Code::Mismatch, None, "12 of 16 elements differ")
    }
}

pub(crate) fn report_of(cases: Vec<CaseRecord>) -> Report {
    Report {
        entry: Some("copy".to_owned()),
        kernels: vec!["copy_kernel".to_owned()],
        parts: Vec::new(),
        not_judged: Vec::new(),
        timings: Vec::new(),
        not_timed: Vec::new(),
        oracle: Some(OracleLabel { rung: 0, label: "AutoKernel copy · torch ref".to_owned() }),
        verdict: cases.iter().map(|record| record.verdict).max().unwrap_or(Verdict::CouldNotRun),
        cases,
        findings: Vec::new(),
        not_run: Vec::new(),
        provenance: Provenance {
            gpu: None,
            warpsmith: "0".to_owned(),
            method: "triton-interpreter".to_owned(),
            python: Some("3.11".to_owned()),
            torch: Some("2.15".to_owned()),
            triton: Some("3.9".to_owned()),
            numpy: None,
            source_hash: String::new(),
            described_by: Default::default(),
            described_as: None,
            foundation: None,
        },
        timeline: Timeline::default(),
    }
}

/// Two passed cases of `copy_kernel`.
pub(crate) fn passed_report() -> Report {
    report_of(vec![
        launched("copy_kernel", case(16, Dtype::Float32)),
        launched("copy_kernel", case(17, Dtype::Float16)),
    ])
}

pub(crate) fn could_not_run(code: Code, message: &str) -> Report {
    let finding = Finding { kernel: None, ..finding(code, None, message) };
    Report { findings: vec![finding], oracle: None, ..report_of(Vec::new()) }
}

/// A made-up time of `copy`, 1.83 times as fast as torch.
pub(crate) fn timing() -> Timing {
    let estimate = |median: f64, half: f64| Estimate { median, low: median - half, high: median + half };
    let share = estimate(0.91, 0.01);
    Timing {
        subject: Subject {
            entry: "copy".to_owned(),
            definition: "copy".to_owned(),
            axes: [("N".to_owned(), 16_777_216)].into(),
            dtype: Some(Dtype::Float16),
            shape: "16777216".to_owned(),
        },
        baseline: Some("torch".to_owned()),
        baseline_failed: None,
        n: 30,
        latency: Latency { cold_us: estimate(41.2, 0.3), warm_us: Some(estimate(30.1, 0.2)) },
        baseline_latency: Some(Latency { cold_us: estimate(75.4, 0.4), warm_us: None }),
        speedup: Some(Speedup { cold: estimate(1.83, 0.02), warm: None }),
        method: TimingMethod::Graph,
        host_us: 21.0,
        is_host_bound: false,
        graph_refused: String::new(),
        claim_error: 0.01,
        spread: 0.02,
        gpu: Gpu { name: "NVIDIA H200".to_owned(), uuid: "GPU-1".to_owned() },
        versions: Versions {
            driver: Some("580.82.07".to_owned()),
            cuda: Some("13.0".to_owned()),
            torch: Some("2.11.0".to_owned()),
            triton: Some("3.6.0".to_owned()),
        },
        is_disturbed: false,
        conditions: vec!["The clock was at 1,980 MHz throughout.".to_owned()],
        bytes: Some(67_108_864),
        flops: None,
        share_of_copy: Some(share),
        roofline: Some(Roofline {
            intensity: 0.25,
            ridge: 312.0,
            bound: Bound::Memory,
            limit: "a copy of these bytes".to_owned(),
            limit_us: 37.5,
            share,
        }),
        taken_at_s: 1_796_000_000,
        source_hash: String::new(),
        code_hash: "c0de".to_owned(),
        commit: None,
        changes: Vec::new(),
    }
}
