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
        // A single case may be left out (its values are not defined in this dtype), a whole stage may not.
        assert!(!stages_left.contains(&stage), "{stage}: {stages_left:?}");
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

/// Starters with one slip each that only their values show, and one change that is no slip.
mod broken {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};

    use crate::harness::{Checked, Sandbox, python_or_skip};

    /// The starter with `from` replaced, checked on smoke cases.
    fn check_changed(name: &str, from: &str, to: &str, dtype: &str) -> Option<Checked> {
        let python = python_or_skip(name)?;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/triton").join(name);
        let text = fs::read_to_string(file).expect("a starter");
        assert!(text.contains(from), "{name} has no `{from}`");
        let sandbox = Sandbox::new(python);
        let changed = sandbox.write(name, &text.replace(from, to));
        Some(sandbox.check(&changed, &["--stage", "smoke", "--dtype", dtype]))
    }

    /// The change makes exactly these options wrong (`None`: every case), by their values.
    fn assert_wrong(name: &str, (from, to): (&str, &str), dtype: &str, option: Option<(&str, Value)>) {
        let Some(checked) = check_changed(name, from, to, dtype) else { return };
        assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
        assert!(checked.codes().contains(&"mismatch".to_owned()), "{}", checked.describe());
        for case in &checked.cases {
            let concerned =
                option.as_ref().is_none_or(|(name, value)| case["case"]["options"][name] == *value);
            let expected = if concerned { "wrong" } else { "passed" };
            assert_eq!(case["verdict"], expected, "{case}");
        }
    }

    #[test]
    fn attention_that_ignores_its_option_is_wrong_without_the_mask() {
        let change = ("CAUSAL=causal,", "CAUSAL=True,");
        assert_wrong("flash_attention.py", change, "bf16", Some(("causal", json!(false))));
    }

    #[test]
    fn attention_to_keys_past_the_end_is_wrong_without_the_mask() {
        let change = ("allowed = inside[None, :]\n", "allowed = (key >= 0)[None, :]\n");
        assert_wrong("flash_attention.py", change, "f16", Some(("causal", json!(false))));
    }

    #[test]
    fn an_approximate_gelu_is_wrong() {
        let change =
            ("0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))", "gate * tl.sigmoid(1.702 * gate)");
        assert_wrong("fused_mlp.py", change, "f16", Some(("activation", json!("gelu"))));
    }

    #[test]
    fn a_hidden_layer_of_eight_bits_is_wrong() {
        let change = (
            "result = _activated(gate, ACTIVATION) * up",
            "result = (_activated(gate, ACTIVATION) * up).to(tl.float8e5).to(tl.float32)",
        );
        assert_wrong("fused_mlp.py", change, "bf16", None);
    }

    /// What an unfused implementation does: gate, activation and up are stored in the dtype of x.
    #[test]
    fn a_hidden_layer_rounded_at_each_step_is_honest() {
        let change = (
            "result = _activated(gate, ACTIVATION) * up",
            "result = _activated(gate.to(x.dtype.element_ty).to(tl.float32), ACTIVATION)\n    \
             result = result.to(x.dtype.element_ty).to(tl.float32) * up.to(x.dtype.element_ty).to(tl.float32)",
        );
        let Some(checked) = check_changed("fused_mlp.py", change.0, change.1, "bf16,f16") else { return };
        assert_eq!(checked.verdict(), "passed", "{}", checked.describe());
    }

    #[test]
    fn a_mean_over_one_row_too_many_is_wrong() {
        let change = ("tl.sum(total, axis=0) / rows", "tl.sum(total, axis=0) / (rows + 1)");
        assert_wrong("cross_entropy.py", change, "bf16", None);
    }

    #[test]
    fn logits_rounded_to_bfloat16_are_wrong_in_float32() {
        let change = (
            "other=float(\"-inf\")).to(tl.float32)",
            "other=float(\"-inf\")).to(tl.bfloat16).to(tl.float32)",
        );
        assert_wrong("cross_entropy.py", change, "f32", None);
    }

    #[test]
    fn a_maximum_that_counts_masked_lanes_as_zero_is_wrong() {
        let change = ("nothing = float(\"-inf\") if MAXIMUM else 0.0", "nothing = 0.0");
        assert_wrong("reduce.py", change, "bf16", Some(("op", json!("max"))));
    }

    #[test]
    fn a_rotation_the_other_way_is_wrong() {
        assert_wrong("rotary_embedding.py", ("even * s + odd * c", "odd * c - even * s"), "bf16", None);
    }
}
