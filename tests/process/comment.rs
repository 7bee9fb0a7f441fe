//! What a comment says is judged: functions of torch, functions of the user's, and references that fail.

use crate::harness::{Checked, Sandbox, python_or_skip, silu_kernel};

const SILU: &str = concat!(
    silu_kernel!(),
    "\
# warpsmith: REFERENCE x=f16|f32[M,N]
# warpsmith: M=1,13 N=255
def silu(x):
    y = torch.empty_like(x)
    _silu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"
);

/// The kernel above under this reference, with more text behind it.
fn with_reference(reference: &str, more: &str) -> String {
    format!("{}\n\n{more}", SILU.replace("REFERENCE", reference))
}

fn planted(text: &str) -> String {
    let wrong = text.replace("value * tl.sigmoid(value)", "value * tl.sigmoid(1.02 * value)");
    assert_ne!(wrong, text);
    wrong
}

#[track_caller]
fn assert_ends(checked: &Checked, verdict: &str, codes: &[&str]) {
    let mut found = checked.codes();
    found.dedup();
    assert_eq!(
        (checked.verdict(), found.as_slice()),
        (verdict, codes.map_owned().as_slice()),
        "{}",
        checked.describe()
    );
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn a_function_of_torch() {
    let Some(python) = python_or_skip("a_function_of_torch") else { return };
    let sandbox = Sandbox::new(python);
    let text = with_reference("ref=torch.nn.functional.silu", "");
    let right = sandbox.check(&sandbox.write("right.py", &text), &[]);
    assert_ends(&right, "passed", &[]);
    let plain = |case: &&serde_json::Value| {
        ["smoke", "sweep"].contains(&case["case"]["stage"].as_str().unwrap_or_default())
    };
    assert_eq!(right.cases.iter().filter(plain).count(), 4, "{}", right.describe());
    assert_eq!(right.summary["oracle"]["rung"], 4);
    assert_eq!(right.summary["oracle"]["label"], "comment · torch.nn.functional.silu");
    assert_ends(&sandbox.check(&sandbox.write("wrong.py", &planted(&text)), &[]), "wrong", &["mismatch"]);
    let unknown = sandbox.write("unknown.py", &text.replace(".silu", ".silx"));
    let unknown = sandbox.check(&unknown, &[]);
    assert_ends(&unknown, "could-not-run", &["reference-failed"]);
    assert_eq!(unknown.findings()[0]["place"]["line"], 14);
}

#[test]
fn a_function_of_the_same_file_and_of_another() {
    let Some(python) = python_or_skip("a_function_of_the_same_file_and_of_another") else { return };
    let sandbox = Sandbox::new(python);
    let reference = "import torch\n\n\ndef truth(tensor):\n    wide = tensor.float()\n    return (wide * torch.sigmoid(wide)).to(tensor.dtype)\n";
    sandbox.write("other.py", reference);
    for (name, line, more, label) in [
        ("same", "ref=truth", reference, "comment · truth · ref from the same file"),
        ("beside", "ref=./other.py::truth", "", "comment · ./other.py::truth"),
    ] {
        let text = with_reference(line, more);
        let right = sandbox.check(&sandbox.write(&format!("{name}.py"), &text), &[]);
        assert_ends(&right, "passed", &[]);
        assert_eq!(right.summary["oracle"]["label"], label);
        let nulls = &right.cases[0]["errors"];
        assert!(
            nulls[0]["reference_max_absolute_error"].as_f64().is_some_and(|error| error > 0.0),
            "{nulls}"
        );
        let wrong = sandbox.write(&format!("{name}_wrong.py"), &planted(&text));
        assert_ends(&sandbox.check(&wrong, &[]), "wrong", &["mismatch"]);
    }
    let missing = sandbox.write("missing.py", &with_reference("ref=./nowhere.py::truth", ""));
    let missing = sandbox.check(&missing, &[]);
    assert_ends(&missing, "could-not-run", &["reference-failed"]);
    assert_eq!(missing.findings()[0]["place"]["line"], 14);
}

/// A reference that fails says nothing of the kernel, right or wrong.
#[test]
fn a_reference_that_fails_is_never_a_wrong_kernel() {
    let Some(python) = python_or_skip("a_reference_that_fails_is_never_a_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    let bodies = [
        ("raises", "raise ValueError('no truth today')"),
        ("raises_when_wide", "assert x.dtype != torch.float64; return x * torch.sigmoid(x)"),
        ("changes_its_input", "return x.mul_(torch.sigmoid(x))"),
        ("another_shape", "return (x * torch.sigmoid(x))[:1, :1]"),
        ("another_dtype", "return (x * torch.sigmoid(x)).to(torch.bfloat16)"),
        ("no_tensor", "return float(x.sum())"),
        (
            "nan_in_this_dtype",
            "return x * torch.sigmoid(x) + (x * 1e30 - x * 1e30 if x.dtype != torch.float64 else 0)",
        ),
        ("off_in_this_dtype", "return x * torch.sigmoid(x) + (5 if x.dtype != torch.float64 else 0)"),
        ("unwritten", "return torch.empty_like(x)"),
        ("ends_the_process", "import os; os._exit(0)"),
    ];
    for (name, body) in bodies {
        let more = format!("def truth(x):\n    {body}\n");
        let text =
            with_reference("ref=truth", &more).replace("f16|f32[M,N]", "f16|f32[M,N] y=out:f16|f32[M,N]");
        let file = sandbox.write(&format!("{name}.py"), &text);
        let checked = sandbox.check(&file, &["--stage", "smoke", "--dtype", "f16"]);
        assert_ends(&checked, "could-not-run", &["reference-failed"]);
    }
}

#[test]
fn an_entry_that_writes_into_its_argument() {
    let Some(python) = python_or_skip("an_entry_that_writes_into_its_argument") else { return };
    let sandbox = Sandbox::new(python);
    let text = with_reference("ref=torch.nn.functional.silu y=out:f16|f32[M,N]", "")
        .replace("def silu(x):\n    y = torch.empty_like(x)\n", "def silu(x, y):\n")
        .replace("    return y\n", "");
    assert_ends(&sandbox.check(&sandbox.write("right.py", &text), &[]), "passed", &[]);
    assert_ends(&sandbox.check(&sandbox.write("wrong.py", &planted(&text)), &[]), "wrong", &["mismatch"]);
    let lazy = text.replace("inside = at < n", "inside = at < n - 1");
    assert_ends(&sandbox.check(&sandbox.write("lazy.py", &lazy), &[]), "wrong", &["unwritten"]);
}
