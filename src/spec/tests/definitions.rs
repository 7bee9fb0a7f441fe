//! Definitions: the ones inside the binary, and what a bad file is told.

use crate::spec::builtin::load_all;
use crate::spec::{
    AxisError, AxisValues, Definition, Dtype, Fill, InferError, Precision, builtin, builtin_named,
};

fn axes(values: &[(&str, u64)]) -> AxisValues {
    values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn every_definition_inside_the_binary_is_sound() {
    let loaded = load_all();
    assert_eq!(loaded.len(), 17);
    for (path, loaded) in loaded {
        let definition = loaded.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(definition.warnings, [], "{path}");
        assert_eq!(path, format!("{0}/{1}.json", definition.op_type, definition.name));
        assert_eq!(
            definition.run_parameters,
            definition.inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            "{path}: `run` is called by position or by name alike"
        );
        let (_, first) = definition.extras.sizes.first().expect("a size");
        for (name, spec) in &definition.inputs {
            if spec.is_scalar() {
                assert!(definition.scalar_default(name).is_some(), "{path}: {name} has no value");
            } else {
                assert!(matches!(definition.fill(name, first), Ok(Some(_))), "{path}: {name} is not drawn");
            }
        }
        for (size, values) in &definition.extras.sizes {
            for dtype in definition.dtypes() {
                assert!(matches!(definition.flops(values, dtype), Ok(Some(1..))), "{path}: {size}");
                assert!(matches!(definition.bytes(values, dtype), Ok(Some(1..))), "{path}: {size}");
            }
            assert!(definition.reduction_length(values).is_ok_and(|length| length > 0), "{path}: {size}");
        }
        assert!((1..=3).contains(&definition.extras.bench.len()), "{path}: at most three are timed");
    }
    assert_eq!(builtin().len(), load_all().len());
}

#[test]
fn rmsnorm_is_read_as_written() {
    let rmsnorm = builtin_named("rmsnorm").expect("inside the binary");
    let large = rmsnorm.extras.size("large").expect("a size");
    assert_eq!(rmsnorm.var_axes(), ["M", "N"]);
    assert_eq!(rmsnorm.input_shape("weight", large), Ok(vec![4096]));
    assert_eq!(rmsnorm.output_shape("out", large), Ok(vec![4096, 4096]));
    assert_eq!(rmsnorm.output_shape("x", large), Err(AxisError::UnknownTensor("x".to_owned())));
    assert_eq!(rmsnorm.scalar_default("eps"), Some(&serde_json::json!(1e-6)));
    assert_eq!(rmsnorm.scalar_default("x"), None);
    assert_eq!(rmsnorm.fill("weight", large), Ok(Some(Fill::Normal { mean: 1.0, std: 0.5 })));
    assert_eq!(rmsnorm.fill("eps", large), Ok(None));
    assert_eq!(rmsnorm.dtypes(), [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32]);
    let [x, eps] = ["x", "eps"].map(|name| rmsnorm.input(name).expect("an input"));
    assert_eq!(rmsnorm.dtype_in_case(x, Dtype::Bfloat16), Dtype::Bfloat16);
    assert_eq!(rmsnorm.dtype_in_case(eps, Dtype::Bfloat16), Dtype::Float32);
    assert_eq!(rmsnorm.flops(large, Dtype::Float16), Ok(Some(100_663_296)));
    assert_eq!(rmsnorm.bytes(large, Dtype::Float16), Ok(Some(67_117_056)));
    assert_eq!(rmsnorm.reduction_length(large), Ok(4096));
    assert_eq!(rmsnorm.extras.precision, Precision::Ieee);
}

#[test]
fn axes_are_read_off_shapes() {
    let matmul = builtin_named("matmul").expect("inside the binary");
    assert_eq!(
        matmul.infer_axes(&[("A", &[2, 3]), ("B", &[3, 5])]),
        Ok(axes(&[("M", 2), ("N", 5), ("K", 3)]))
    );
    let conflict = matmul.infer_axes(&[("A", &[2, 3]), ("B", &[4, 5])]).expect_err("a conflict");
    assert_eq!(conflict.to_string(), "axis `K` is 3 in `A` but 4 in `B`");
    assert_eq!(matmul.infer_axes(&[("A", &[2, 3])]), Err(InferError::Missing("N".to_owned())));
    assert!(matches!(matmul.infer_axes(&[("A", &[2])]), Err(InferError::Rank { .. })));
    assert!(matches!(matmul.infer_axes(&[("C", &[2])]), Err(InferError::UnknownInput(_))));
}

const COMPLETE: &str = r#"{
  "name": "gather",
  "op_type": "gather",
  "axes": {
    "M": { "type": "var" },
    "H": { "type": "const", "value": 64, "description": "width" }
  },
  "inputs": {
    "table": { "shape": ["M", "H"], "dtype": "float32" },
    "index": { "shape": ["M"], "dtype": "int64" },
    "mask": { "shape": ["M"], "dtype": "bool", "optional": true },
    "scale": { "shape": null, "dtype": "float32" }
  },
  "outputs": {
    "out": { "shape": ["M", "H"], "dtype": "float32" },
    "total": { "shape": null, "dtype": "float32" }
  },
  "constraints": ["M % 2 == 0", "index.shape[0] == M"],
  "reference": "import torch\n\n@torch.no_grad()\ndef run(table, index, mask, scale):\n    return table[index] * scale, table.sum()\n",
  "later": "unknown keys are ignored",
  "warpsmith": {
    "args": { "scale": null },
    "inputs": { "index": { "int": [0, "M"] } },
    "sizes": { "b": { "M": 0 }, "a": { "M": 4 } },
    "bench": ["a"],
    "flops": 1000,
    "tol": { "reduction": "cdiv(M, 2)" },
    "precision": "tf32",
    "deterministic": true,
    "reference_f64": "def run(*inputs):\n    return None\n"
  }
}"#;

#[test]
fn a_complete_file_is_read_and_written() {
    let definition = Definition::from_json(COMPLETE, "gather.json").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(definition.warnings, []);
    assert_eq!(definition.run_parameters, ["table", "index", "mask", "scale"]);
    let names: Vec<&str> = definition.extras.sizes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "a"], "the order of the file is kept");
    let eight = axes(&[("M", 8)]);
    assert_eq!(definition.fill("index", &eight), Ok(Some(Fill::Integers { low: 0, high: 8 })));
    assert_eq!(definition.fill("mask", &eight), Ok(Some(Fill::Integers { low: 0, high: 2 })));
    assert_eq!(definition.input_shape("table", &eight), Ok(vec![8, 64]));
    assert_eq!(definition.output_shape("total", &eight), Ok(Vec::new()));
    assert!(matches!(definition.input_shape("table", &axes(&[])), Err(AxisError::Unknown { .. })));
    assert!(definition.scalar_default("scale").is_some_and(serde_json::Value::is_null));
    assert!(matches!(
        definition.infer_axes(&[("table", &[8, 63])]),
        Err(InferError::Constant { expected: 64, found: 63, .. })
    ));

    let written = serde_json::to_string(&definition).expect("serializes");
    let again = Definition::from_json(&written, "gather.json").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(serde_json::to_value(&again).ok(), serde_json::to_value(&definition).ok());
}

/// The complete file with one part replaced; what the reader says to it.
fn told(from: &str, to: &str) -> String {
    assert!(COMPLETE.contains(from), "{from}");
    match Definition::from_json(&COMPLETE.replacen(from, to, 1), "definitions/gather/gather.json") {
        Ok(definition) => {
            let warnings: Vec<String> = definition.warnings.iter().map(ToString::to_string).collect();
            format!("loads, warnings: {warnings:#?}")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_mistake_is_told_with_its_place_and_remedy() {
    let mistakes = [
        ("\"name\": \"gather\",", "\"name\": \"scatter\","),
        ("\"op_type\": \"gather\",", ""),
        ("\"op_type\": \"gather\"", "\"op_type\": \" \""),
        ("{ \"type\": \"var\" }", "{ \"type\": \"dynamic\" }"),
        ("\"value\": 64", "\"value\": -1"),
        ("\"value\": 64, ", ""),
        ("[\"M\", \"H\"]", "[\"M\", \"K\"]"),
        ("[\"M\", \"H\"]", "[\"M\", 64]"),
        ("\"dtype\": \"int64\"", "\"dtype\": \"f16\""),
        ("\"shape\": [\"M\"], ", ""),
        ("\"out\":", "\"table\":"),
        ("\"mask\": {", "\"index\": {"),
        ("M % 2 == 0", "M = 2"),
        ("def run(", "def go("),
        ("def run(", "def run(("),
        ("def run(table, index, mask, scale)", "def run(table)"),
        ("def run(table, index, mask, scale)", "def run(index, table, mask, scale)"),
        ("def run(table, index, mask, scale)", "def run(t, i, m, s)"),
        ("\"M\": { \"type\": \"var\" }", "\"M\": { \"type\": \"var\" }, \"Q\": { \"type\": \"var\" }"),
        ("\"M\": { \"type\": \"var\" }", "\"M\": { \"type\": \"var\", \"value\": 3 }"),
        ("\"H\": {", "\"Q\": { \"type\": \"const\", \"value\": 3 }, \"H\": {"),
        ("\"H\": {", "\"my axis\": { \"type\": \"const\", \"value\": 3 }, \"H\": {"),
        ("{ \"scale\": null }", "{ \"scale\": \"half\" }"),
        ("{ \"scale\": null }", "{ \"table\": 1 }"),
        ("{ \"int\": [0, \"M\"] }", "{ \"normal\": [0, 1] }"),
        ("{ \"int\": [0, \"M\"] }", "{ \"int\": [0, \"N\"] }"),
        ("{ \"int\": [0, \"M\"] }", "{ \"int\": [4, 4] }"),
        ("{ \"int\": [0, \"M\"] }", "{ \"zipf\": [4, 4] }"),
        ("\"index\": { \"int\"", "\"indices\": { \"int\""),
        ("\"b\": { \"M\": 0 }", "\"b\": { \"H\": 1 }"),
        ("\"bench\": [\"a\"]", "\"bench\": [\"large\"]"),
        ("\"flops\": 1000", "\"flops\": \"2 * M *\""),
        ("\"flops\": 1000", "\"flops\": \"2 * Q\""),
        ("\"flops\": 1000", "\"flopz\": 1000"),
        ("\"precision\": \"tf32\"", "\"precision\": \"fast\""),
        ("\"deterministic\": true", "\"deterministic\": 1"),
        ("def run(*inputs)", "def walk(*inputs)"),
        ("\"later\"", "later"),
    ];
    let report: Vec<String> =
        mistakes.iter().map(|(from, to)| format!("# {from} → {to}\n{}", told(from, to))).collect();
    insta::assert_snapshot!(report.join("\n\n"));
}

#[test]
fn an_axis_that_no_input_tells_is_warned_about() {
    let text = r#"{"name": "a", "op_type": "a", "axes": {"M": {"type": "var"}, "Q": {"type": "var"}},
        "inputs": {"x": {"shape": ["M"], "dtype": "float32"}},
        "outputs": {"out": {"shape": ["Q"], "dtype": "float32"}}, "reference": "def run(x): return x"}"#;
    let definition = Definition::from_json(text, "a.json").unwrap_or_else(|error| panic!("{error}"));
    let [warning] = definition.warnings.as_slice() else { panic!("{:?}", definition.warnings) };
    assert_eq!(warning.path.as_str(), "axes.Q");
    assert!(warning.message.starts_with("appears in no input"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = r#"{
  "name": "",
  "axes": { "M": { "type": "var" }, "N": 4096 },
  "inputs": { "x": { "shape": ["M", "Q"], "dtype": "half" } },
  "outputs": { "x": { "shape": "M" } },
  "constraints": ["M >"],
  "reference": "def go(): pass"
}"#;
    let error = Definition::from_json(text, "softmax.json").expect_err("many mistakes");
    insta::assert_snapshot!(error.to_string());
}

#[test]
fn texts_that_are_no_definition_are_told_so() {
    let texts = ["", "[]", "3", "{", "{\"name\": \"a\",}", "\u{feff}{}"];
    let report: Vec<String> = texts
        .iter()
        .map(|text| {
            format!("{text:?}\n{}", Definition::from_json(text, "a.json").expect_err("no Definition"))
        })
        .collect();
    insta::assert_snapshot!(report.join("\n\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn no_damage_to_a_file_panics(start in 0..COMPLETE.len(), length in 0..40usize, patch in "[\\[\\]{}\":,0-9nul]{0,6}") {
        let end = (start + length).min(COMPLETE.len());
        if let (Some(before), Some(after)) = (COMPLETE.get(..start), COMPLETE.get(end..)) {
            let _ = Definition::from_json(&format!("{before}{patch}{after}"), "gather.json");
        }
    }
}

/// `COMPLETE` with a part of its `warpsmith` replaced, or what is said to it.
fn with_extras(extras: &str) -> Result<Definition, String> {
    let text = COMPLETE.replacen(
        "\"M\": { \"type\": \"var\" },",
        "\"M\": { \"type\": \"var\" }, \"P\": { \"type\": \"var\" },",
        1,
    );
    let text = text.replacen(
        "\"index\": { \"shape\": [\"M\"]",
        "\"pairs\": { \"shape\": [\"P\"], \"dtype\": \"float32\" }, \"index\": { \"shape\": [\"M\"]",
        1,
    );
    let text = text.replacen("run(table, index", "run(table, pairs, index", 1);
    let text = text.replacen("\"args\":", &format!("{extras} \"args\":"), 1);
    Definition::from_json(&text, "gather.json").map_err(|error| error.to_string())
}

#[test]
fn axes_follow_from_others() {
    let definition = with_extras(r#""derived": { "P": "2 * M" }, "smoke": { "M": 5 },"#)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(definition.var_axes(), ["M"], "a case chooses only these");
    assert_eq!(definition.extras.size("a"), Some(&axes(&[("M", 4), ("P", 8)])));
    assert_eq!(definition.extras.smoke, Some(axes(&[("M", 5), ("P", 10)])));
    assert_eq!(definition.input_shape("pairs", &axes(&[("M", 3)])), Ok(vec![6]));
    let mistaken = definition.infer_axes(&[("table", &[3, 64]), ("pairs", &[7])]).expect_err("not twice 3");
    assert_eq!(mistaken.to_string(), "axis `P` is 7; it must be `2 * M`, here 6");
    assert_eq!(
        definition.infer_axes(&[("table", &[3, 64])]),
        Ok(axes(&[("M", 3), ("P", 6)])),
        "what follows need not be told"
    );
    let written = serde_json::to_string(&definition).expect("serializes");
    assert!(written.contains(r#""derived":{"P":"2 * M"}"#), "{written}");
}

#[test]
fn ranges_say_where_the_operation_is_defined() {
    let definition =
        with_extras(r#""derived": { "P": "2 * M" }, "ranges": { "M": [1, null], "P": [0, 16] },"#)
            .unwrap_or_else(|error| panic!("{error}"));
    let outside = |length| definition.axis_out_of_range(&axes(&[("M", length)]));
    assert_eq!(outside(0), Some(("M", 0)));
    assert_eq!(outside(8), None);
    assert_eq!(outside(9), Some(("P", 18)), "also of an axis that follows");
    let written = serde_json::to_string(&definition).expect("serializes");
    assert!(written.contains(r#""ranges":{"M":[1,null],"P":[0,16]}"#), "{written}");
}

#[test]
fn mistakes_about_axes_that_follow_are_told() {
    let told: Vec<String> = [
        r#""derived": { "Q": "2 * M" },"#,
        r#""derived": { "H": "2 * M" },"#,
        r#""derived": { "P": "2 * N" },"#,
        r#""derived": { "P": "2 * P" },"#,
        r#""derived": { "P": "M", "M": "P" },"#,
        r#""derived": { "P": "M" }, "smoke": { "M": 3, "P": 3 },"#,
        r#""derived": { "P": "M" }, "ranges": { "Q": [1, 2], "M": [3, 2] },"#,
        r#""derived": { "P": "M" }, "ranges": { "M": [1], "P": ["one", 2] },"#,
        r#""derived": { "P": "M" }, "smoke": { "M": -1 },"#,
    ]
    .iter()
    .map(|extras| format!("{extras}\n{}", with_extras(extras).expect_err("a mistake")))
    .collect();
    insta::assert_snapshot!(told.join("\n\n"));
}
