//! The starters are right on every case, and say on what the verdict rests.

use std::path::Path;

use crate::harness::{Sandbox, python_or_skip};

fn check_starter(name: &str) {
    let Some(python) = python_or_skip(name) else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/triton").join(name);
    let checked = Sandbox::new(python).check(&file, &[]);
    assert_eq!((checked.verdict(), checked.exit), ("passed", Some(0)), "{}", checked.describe());
    for dtype in ["float32", "float16", "bfloat16"] {
        for stage in ["smoke", "sweep", "stability", "determinism", "edge"] {
            let cases =
                checked.cases.iter().filter(|c| c["case"]["dtype"] == dtype && c["case"]["stage"] == stage);
            assert!(cases.count() > 0, "no {stage} case in {dtype}");
        }
    }
    let stages_left: Vec<&str> = checked.summary["not_run"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|n| n["what"].as_str())
        .collect();
    for stage in ["smoke", "sweep", "stability", "determinism", "edge"] {
        assert!(stages_left.iter().all(|what| !what.starts_with(stage)), "{stage}: {stages_left:?}");
    }
    assert!(checked.cases.iter().all(|case| case["timing"].is_null()), "an interpreter has no times");
    assert_eq!(checked.summary["oracle"]["rung"], 0);
    assert!(checked.summary["provenance"]["triton"].is_string());
    let findings = checked.findings();
    assert!(findings.is_empty(), "warnings on a starter: {findings:?}");
}

#[test]
fn softmax_is_right() {
    check_starter("softmax.py");
}

#[test]
fn rmsnorm_is_right() {
    check_starter("rmsnorm.py");
}

#[test]
fn matmul_is_right() {
    check_starter("matmul.py");
}
