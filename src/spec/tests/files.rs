//! Solutions and Traces.

use crate::spec::{Definition, Number, Solution, Status, Trace, builtin_named};

const SOLUTION: &str = r#"{
  "name": "softmax_triton",
  "definition": "softmax",
  "author": "someone",
  "spec": {
    "language": "triton",
    "target_hardware": ["LOCAL"],
    "entry_point": "kernel.py::run",
    "dependencies": []
  },
  "sources": [{ "path": "kernel.py", "content": "def run(x, out): pass\n" }]
}"#;

#[test]
fn a_solution_is_read_and_written() {
    let solution =
        Solution::from_json(SOLUTION, "softmax_triton.json").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(solution.entry(), Some(("kernel.py", "run")));
    assert!(solution.spec.destination_passing_style, "the default of the format");
    let written = serde_json::to_string(&solution).expect("serializes");
    assert_eq!(Solution::from_json(&written, "softmax_triton.json"), Ok(solution));
}

#[test]
fn each_mistake_in_a_solution_is_told() {
    let mistakes = [
        ("\"someone\"", "\"\""),
        ("\"triton\"", "\"rust\""),
        ("[\"LOCAL\"]", "[]"),
        ("kernel.py::run", "kernel.py"),
        ("kernel.py::run", "a::b::c"),
        ("kernel.py::run", "other.py::run"),
        ("\"language\": \"triton\"", "\"binding\": \"torch\", \"language\": \"cuda\""),
        ("\"language\"", "\"binding\": \"tvm-ffi\", \"language\""),
        ("\"path\": \"kernel.py\"", "\"path\": \"../kernel.py\""),
        ("\"path\": \"kernel.py\"", "\"path\": \"/kernel.py\""),
        ("[{ \"path\"", "[{ \"path\": \"kernel.py\", \"content\": \"\" }, { \"path\""),
    ];
    let report: Vec<String> = mistakes
        .iter()
        .map(|(from, to)| {
            assert!(SOLUTION.contains(from), "{from}");
            let error =
                Solution::from_json(&SOLUTION.replacen(from, to, 1), "s.json").expect_err("a mistake");
            format!("# {from} → {to}\n{error}")
        })
        .collect();
    insta::assert_snapshot!(report.join("\n\n"));
}

const TRACE: &str = r#"{"definition":"softmax","workload":{"axes":{"M":8,"N":0},"inputs":{"x":{"type":"random"}},"uuid":"u"},"solution":"s","evaluation":{"status":"PASSED","environment":{"hardware":"NVIDIA_H200","libs":{"torch":"2.11"}},"timestamp":"2026-01-01T00:00:00","log":"","correctness":{"max_relative_error":"Infinity","max_absolute_error":"NaN","extra":{"matched_ratio":0.5}},"performance":{"latency_ms":0.25,"reference_latency_ms":1,"speedup_factor":4.0}}}"#;

#[test]
fn a_trace_with_non_finite_errors_is_read_and_written() {
    let trace = Trace::from_json_line(TRACE, "t.jsonl", 1).unwrap_or_else(|error| panic!("{error}"));
    let evaluation = trace.evaluation.clone().expect("an evaluation");
    let correctness = evaluation.correctness.expect("correctness");
    assert_eq!(correctness.max_relative_error, Number(f64::INFINITY));
    assert!(correctness.max_absolute_error.0.is_nan());
    assert_eq!(evaluation.status, Status::Passed);
    let written = trace.to_json_line().expect("serializes");
    assert!(written.contains(r#""max_relative_error":"Infinity","max_absolute_error":"NaN""#));
    let again = Trace::from_json_line(&written, "t.jsonl", 1).expect("what was written is read");
    assert_eq!(again.to_json_line().expect("serializes"), written);
}

#[test]
fn each_mistake_in_a_trace_is_told_with_its_line() {
    let mistakes = [
        ("\"solution\":\"s\"", "\"solution\":null"),
        ("PASSED", "TIMEOUT"),
        ("PASSED", "INCORRECT_NUMERICAL"),
        ("PASSED", "GREEN"),
        ("\"M\":8", "\"M\":-8"),
        ("\"Infinity\"", "\"infinite\""),
        ("\"performance\":{", "\"other\":{"),
        ("\"evaluation\":{", "\"other\":{"),
        ("\"type\":\"random\"", "\"type\":\"zeros\""),
    ];
    let report: Vec<String> = mistakes
        .iter()
        .map(|(from, to)| {
            assert!(TRACE.contains(from), "{from}");
            let text = format!("{TRACE}\n\n{}\n", TRACE.replacen(from, to, 1));
            let (traces, errors) = Trace::read_lines(&text, "t.jsonl");
            assert_eq!(traces.len(), 1, "the good line is kept");
            let [error] = errors.as_slice() else { panic!("{errors:?}") };
            format!("# {from} → {to}\n{error}")
        })
        .collect();
    insta::assert_snapshot!(report.join("\n\n"));
}

#[test]
fn a_workload_must_suit_its_definition() {
    let softmax = builtin_named("softmax").expect("inside the binary");
    let check = |definition: &Definition, from: &str, to: &str| -> Vec<String> {
        let trace = Trace::from_json_line(&TRACE.replacen(from, to, 1), "t.jsonl", 1).expect("a Trace");
        trace.workload.problems(definition).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(&softmax, "", ""), [] as [&str; 0]);
    insta::assert_debug_snapshot!([
        check(&softmax, "\"M\":8", "\"Q\":8"),
        check(&softmax, "\"x\":{", "\"y\":{"),
        check(&softmax, "\"type\":\"random\"", "\"type\":\"scalar\",\"value\":2.5"),
    ]);
}
