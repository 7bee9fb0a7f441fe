//! The starters are right on every case, and say on what the verdict rests.

use std::path::Path;

use crate::harness::{Sandbox, python_or_skip};

const DTYPES: [(&str, &str); 3] = [("float32", "f32"), ("float16", "f16"), ("bfloat16", "bf16")];

/// All dtypes in one check.
fn check_starter(name: &str) {
    check_starter_in(name, &DTYPES);
}

fn check_starter_in(name: &str, dtypes: &[(&str, &str)]) {
    let Some(python) = python_or_skip(name) else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/triton").join(name);
    let asked: Vec<&str> = dtypes.iter().map(|(_, short)| *short).collect();
    let checked = Sandbox::new(python).check(&file, &["--dtype", &asked.join(",")]);
    assert_eq!((checked.verdict(), checked.exit), ("passed", Some(0)), "{}", checked.describe());
    for &(dtype, _) in dtypes {
        for stage in ["smoke", "sweep"] {
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
    for stage in ["stability", "determinism", "edge"] {
        assert!(stages_left.contains(&stage), "{stage} is not shown as not run: {stages_left:?}");
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

#[test]
fn layernorm_is_right() {
    check_starter("layernorm.py");
}

#[test]
fn cross_entropy_is_right() {
    check_starter("cross_entropy.py");
}

#[test]
fn rotary_embedding_is_right() {
    check_starter("rotary_embedding.py");
}

/// Entries that implement several Definitions take as many times longer: one test for each dtype.
mod several_definitions {
    use super::{DTYPES, check_starter_in};

    #[test]
    fn flash_attention_is_right_in_float32() {
        check_starter_in("flash_attention.py", &DTYPES[0..1]);
    }

    #[test]
    fn flash_attention_is_right_in_float16() {
        check_starter_in("flash_attention.py", &DTYPES[1..2]);
    }

    #[test]
    fn flash_attention_is_right_in_bfloat16() {
        check_starter_in("flash_attention.py", &DTYPES[2..3]);
    }

    #[test]
    fn fused_mlp_is_right_in_float32() {
        check_starter_in("fused_mlp.py", &DTYPES[0..1]);
    }

    #[test]
    fn fused_mlp_is_right_in_float16() {
        check_starter_in("fused_mlp.py", &DTYPES[1..2]);
    }

    #[test]
    fn fused_mlp_is_right_in_bfloat16() {
        check_starter_in("fused_mlp.py", &DTYPES[2..3]);
    }

    #[test]
    fn reduce_is_right_in_float32() {
        check_starter_in("reduce.py", &DTYPES[0..1]);
    }

    #[test]
    fn reduce_is_right_in_float16() {
        check_starter_in("reduce.py", &DTYPES[1..2]);
    }

    #[test]
    fn reduce_is_right_in_bfloat16() {
        check_starter_in("reduce.py", &DTYPES[2..3]);
    }
}
