//! Solutions of FlashInfer-Bench: a Definition beside the kernel or named by a comment, its Workloads, its
//! reference in a process of its own.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Checked, Sandbox, python_or_skip};

const KERNEL: &str = "\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x, weight, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    value = tl.load(x + row * width + at, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value * value) / width
    tl.store(y + row * width + at, value * factor * tl.rsqrt(mean + 1e-6), mask=inside)


";
const RETURNS: &str = "\
def run(x, weight):
    y = torch.empty_like(x)
    _scale[(x.shape[0],)](x, weight, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
";
/// By other names than the Definition's.
const WRITES: &str = "\
def run(a, b, out):
    _scale[(a.shape[0],)](a, b, out, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
";
const REFERENCE: &str = "\
import torch


@torch.no_grad()
def run(x, weight):
    assert x.shape[1] == 72
    wide = x.to(torch.float32)
    scaled = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    return (scaled * weight.to(torch.float32)).to(torch.bfloat16)
";

fn definition(reference: &str) -> Value {
    json!({
        "name": "scale_w72", "op_type": "scale",
        "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 72}},
        "inputs": {
            "x": {"shape": ["rows", "width"], "dtype": "bfloat16"},
            "weight": {"shape": ["width"], "dtype": "bfloat16"},
        },
        "outputs": {"y": {"shape": ["rows", "width"], "dtype": "bfloat16"}},
        "reference": reference,
    })
}

fn planted(text: &str) -> String {
    let wrong =
        text.replace("row * width + at, mask=inside, other=0.0", "row * 64 + at, mask=inside, other=0.0");
    assert_ne!(wrong, text);
    wrong
}

fn labels(checked: &Checked, stage: &str) -> Vec<String> {
    let of_stage = checked.cases.iter().filter(|case| case["case"]["stage"] == stage);
    of_stage.map(|case| case["case"]["axes"].to_string()).collect()
}

#[track_caller]
fn assert_ends(checked: &Checked, verdict: &str, codes: &[&str]) {
    let mut found = checked.codes();
    found.dedup();
    assert_eq!(
        (checked.verdict(), found),
        (verdict, codes.iter().map(|code| (*code).to_owned()).collect()),
        "{}",
        checked.describe()
    );
}

#[test]
fn a_definition_beside_a_solution() {
    let Some(python) = python_or_skip("a_definition_beside_a_solution") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("definition.json", &definition(REFERENCE).to_string());
    for (name, entry) in [("returns", RETURNS), ("writes", WRITES)] {
        let text = format!("{KERNEL}{entry}");
        let right = sandbox.check(&sandbox.write(&format!("{name}.py"), &text), &[]);
        assert_ends(&right, "passed", &[]);
        assert_eq!(right.summary["oracle"]["rung"], 0);
        assert_eq!(
            right.summary["oracle"]["label"],
            "FlashInfer-Bench scale_w72 · reference of definition.json"
        );
        assert_eq!(labels(&right, "sweep").len(), 7, "{}", right.describe());
        let wrong = sandbox.write(&format!("{name}_wrong.py"), &planted(&text));
        assert_ends(&sandbox.check(&wrong, &[]), "wrong", &["mismatch"]);
    }
}

#[test]
fn workloads_are_run_and_files_of_tensors_are_told_of() {
    let Some(python) = python_or_skip("workloads_are_run_and_files_of_tensors_are_told_of") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("definition.json", &definition(REFERENCE).to_string());
    let line = |rows: u64, x: Value| {
        let workload = json!({"uuid": format!("w{rows}"), "axes": {"rows": rows},
                              "inputs": {"x": x, "weight": {"type": "random"}}});
        json!({"definition": "scale_w72", "solution": null, "workload": workload, "evaluation": null})
            .to_string()
    };
    let random = json!({"type": "random"});
    let stored = json!({"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"});
    let lines =
        [line(6, random.clone()), line(11, stored), line(1 << 20, random.clone()), line(40_000, random)];
    sandbox.write("scale_w72.jsonl", &lines.join("\n"));
    let checked = sandbox.check(&sandbox.write("kernel.py", &format!("{KERNEL}{RETURNS}")), &[]);
    assert_ends(&checked, "passed", &[]);
    assert_eq!(labels(&checked, "smoke"), ["{\"rows\":6}"]);
    assert_eq!(labels(&checked, "sweep"), ["{\"rows\":40000}"]);
    let not_run = checked.summary["not_run"].to_string();
    for told in ["Workload w11 (rows=11)", "files of tensors are not read", "sizes rows=1048576"] {
        assert!(not_run.contains(told), "{told}: {not_run}");
    }
}

#[test]
fn a_comment_names_the_definition_and_the_lengths() {
    let Some(python) = python_or_skip("a_comment_names_the_definition_and_the_lengths") else { return };
    let sandbox = Sandbox::new(python);
    let ops = sandbox.write("scale_w72.json", &definition(REFERENCE).to_string());
    assert!(ops.is_file());
    let with = |comment: &str, entry: &str| format!("{KERNEL}# warpsmith: {comment}\n{entry}");
    let own = with("definition=./scale_w72.json rows=2,9", RETURNS);
    let right = sandbox.check(&sandbox.write("own.py", &own), &[]);
    assert_ends(&right, "passed", &[]);
    assert_eq!(right.summary["oracle"]["rung"], 4);
    assert_eq!(
        right.summary["oracle"]["label"],
        "comment · Definition scale_w72 · reference of scale_w72.json"
    );
    assert_eq!([labels(&right, "smoke"), labels(&right, "sweep")].concat(), ["{\"rows\":2}", "{\"rows\":9}"]);
    assert_ends(&sandbox.check(&sandbox.write("own_wrong.py", &planted(&own)), &[]), "wrong", &["mismatch"]);
    // One that comes with warpsmith: everything that it names is judged.
    let ours = with(
        "definition=rmsnorm",
        &RETURNS.replace("x, weight", "x, weight, eps=1e-6").replacen(", eps=1e-6, y", ", y", 1),
    );
    let ours = sandbox.check(&sandbox.write("ours.py", &ours), &["--stage", "smoke"]);
    assert_ends(&ours, "passed", &[]);
    assert_eq!(ours.summary["oracle"]["label"], "comment · Definition rmsnorm · torch ref");
    let few =
        with("definition=rmsnorm M=3 N=70 eps=1e-6", &RETURNS.replace("(x, weight)", "(x, weight, eps)"));
    let few = sandbox.check(&sandbox.write("few.py", &few), &["--stage", "smoke,sweep", "--dtype", "f32"]);
    assert_ends(&few, "passed", &[]);
    assert_eq!(labels(&few, "smoke"), ["{\"M\":3,\"N\":70}"]);
    let missing = sandbox.check(&sandbox.write("missing.py", &with("definition=./none.json", RETURNS)), &[]);
    assert_ends(&missing, "could-not-run", &["no-oracle"]);
    assert_eq!(missing.findings()[0]["place"]["line"], 17);
}

/// The starter kit names its Definition in `config.toml`; the data set lies elsewhere.
#[test]
fn the_data_set_is_found_by_its_variable() {
    let Some(python) = python_or_skip("the_data_set_is_found_by_its_variable") else { return };
    let sandbox = Sandbox::new(python);
    let config = "[solution]\nname = \"s\"\ndefinition = \"scale_w72\"\nauthor = \"a\"\n\n[build]\n\
                  language = \"triton\"\nentry_point = \"kernel.py::run\"\n";
    let config = sandbox.write("config.toml", config);
    let root = config.parent().expect("a folder");
    for folder in ["solution/triton", "data/definitions/scale", "data/workloads/scale"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let kernel = sandbox.write("solution/triton/kernel.py", &format!("{KERNEL}{WRITES}"));
    sandbox.write("data/definitions/scale/scale_w72.json", &definition(REFERENCE).to_string());
    let inputs = json!({"x": {"type": "random"}, "weight": {"type": "random"}});
    let workload = json!({"uuid": "w", "axes": {"rows": 14}, "inputs": inputs});
    let line = json!({"definition": "scale_w72", "solution": null, "workload": workload, "evaluation": null});
    sandbox.write("data/workloads/scale/scale_w72.jsonl", &line.to_string());
    let check = |dataset: &str| -> Value {
        let mut command = sandbox.warpsmith();
        command
            .env("FIB_DATASET_PATH", root.join(dataset))
            .args(["check", "--json", "--no-setup"])
            .arg(&kernel);
        let stdout = String::from_utf8(command.output().expect("the binary runs").stdout).expect("UTF-8");
        serde_json::from_str(stdout.lines().last().unwrap_or_default()).expect("a summary")
    };
    let found = check("data");
    assert_eq!((&found["verdict"], &found["cases"]["wrong"]), (&json!("passed"), &json!(0)), "{found}");
    assert!(found.to_string().contains("workloads/scale/scale_w72.jsonl"), "{found}");
    let missing = check("elsewhere");
    assert_eq!(missing["findings"][0]["code"], "bad-description", "{missing}");
    assert!(missing.to_string().contains("FIB_DATASET_PATH"), "{missing}");
}

/// What is wrong with a Definition says nothing of the kernel.
#[test]
fn a_definition_that_fails_is_never_a_wrong_kernel() {
    let Some(python) = python_or_skip("a_definition_that_fails_is_never_a_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    let kernel = sandbox.write("kernel.py", &format!("{KERNEL}{RETURNS}"));
    let raises = "def run(x, weight):\n    raise ValueError('no truth today')\n";
    let at_import = "import nothing_of_this_name\n\ndef run(x, weight):\n    return x\n";
    let random = "import torch\n\ndef run(x, weight):\n    return torch.randn_like(x)\n";
    let whole =
        "import torch\n\ndef run(x, weight):\n    return torch.randint_like(x.to(torch.int32), 100)\n";
    for (reference, dtype, told) in [
        (raises, "bfloat16", "no truth today (line 2 of its source)"),
        (at_import, "bfloat16", "nothing_of_this_name"),
        (random, "bfloat16", "called again"),
        (whole, "int32", "called again"),
    ] {
        let mut definition = definition(reference);
        definition["outputs"]["y"]["dtype"] = json!(dtype);
        sandbox.write("definition.json", &definition.to_string());
        let text = fs::read_to_string(&kernel).expect("the kernel");
        let text = text.replace("torch.empty_like(x)", &format!("torch.empty_like(x, dtype=torch.{dtype})"));
        let checked = sandbox.check(&sandbox.write("as_told.py", &text), &["--stage", "smoke"]);
        assert_ends(&checked, "could-not-run", &["reference-failed"]);
        let message = checked.findings()[0]["message"].to_string();
        assert!(message.contains(told), "{told}: {message}");
    }
    sandbox.write("definition.json", "{\"name\": ");
    let broken = sandbox.check(&kernel, &[]);
    assert_ends(&broken, "could-not-run", &["bad-description"]);
    assert!(broken.describe().contains("definition.json:1:9"), "{}", broken.describe());
    let mut sampling = definition(REFERENCE);
    sampling["op_type"] = json!("sampling");
    sandbox.write("definition.json", &sampling.to_string());
    assert_ends(&sandbox.check(&kernel, &[]), "could-not-run", &["unsupported"]);
}

/// `kernel.py` and its helper, packed as for a submission.
fn packed(kernel: &str, more: &Value) -> Value {
    let (helper, rest) = kernel.split_once("\n\n\n@triton.jit").expect("a kernel");
    let entry = format!("{helper}\n\nfrom .helper import width_of\n\n\n@triton.jit{rest}")
        .replace("x.shape[1]", "width_of(x)");
    let mut solution = json!({
        "name": "scale_by_me", "definition": "scale_w72", "author": "me",
        "spec": {"language": "triton", "target_hardware": ["LOCAL"], "entry_point": "kernel.py::run",
                 "dependencies": [], "destination_passing_style": false},
        "sources": [{"path": "kernel.py", "content": entry},
                    {"path": "helper.py", "content": "def width_of(x):\n    return x.shape[1]\n"}],
    });
    for (key, value) in more.as_object().expect("an object") {
        solution["spec"][key] = value.clone();
    }
    solution
}

#[test]
fn a_packed_solution_is_judged_with_its_own_file_names() {
    let Some(python) = python_or_skip("a_packed_solution_is_judged_with_its_own_file_names") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("scale_w72.json", &definition(REFERENCE).to_string());
    let check = |solution: &Value| sandbox.check(&sandbox.write("solution.json", &solution.to_string()), &[]);
    let returns = format!("{KERNEL}{RETURNS}");
    let right = check(&packed(&returns, &json!({})));
    assert_ends(&right, "passed", &[]);
    assert_eq!(right.summary["oracle"]["label"], "FlashInfer-Bench scale_w72 · reference of scale_w72.json");
    let writes = packed(&format!("{KERNEL}{WRITES}"), &json!({"destination_passing_style": true}));
    assert_ends(&check(&writes), "passed", &[]);
    let wrong = returns.replace("+ at, value * factor", "+ at + 1, value * factor");
    let wrong = check(&packed(&wrong, &json!({})));
    assert_eq!(
        (wrong.verdict(), wrong.codes()[0].as_str()),
        ("wrong", "out-of-bounds"),
        "{}",
        wrong.describe()
    );
    let place = &wrong.findings()[0]["place"];
    assert_eq!((place["file"].as_str(), place["line"].as_u64()), (Some("kernel.py"), Some(16)), "{place}");
    let failing = check(&packed(
        &returns.replace("    y = torch", "    raise ValueError('no')\n    y = torch"),
        &json!({}),
    ));
    assert_ends(&failing, "wrong", &["raised"]);
    assert!(!failing.describe().contains("/solution_"), "{}", failing.describe());
    let mut cuda = packed(&returns, &json!({"language": "cuda", "entry_point": "kernel.cu::run"}));
    cuda["sources"][0]["path"] = json!("kernel.cu");
    assert_ends(&check(&cuda), "could-not-run", &["unsupported"]);
    let style = check(&packed(&returns, &json!({"destination_passing_style": true})));
    assert_ends(&style, "could-not-run", &["bad-description"]);
    let mut other = packed(&returns, &json!({}));
    other["definition"] = json!("scale_w73");
    let other = check(&other);
    assert_ends(&other, "could-not-run", &["bad-description"]);
    assert!(other.describe().contains("scale_w73"), "{}", other.describe());
    let mut outside = packed(&returns, &json!({}));
    outside["sources"][1]["path"] = json!("../helper.py");
    assert_ends(&check(&outside), "could-not-run", &["bad-description"]);
}
