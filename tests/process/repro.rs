//! A repro is a Python file of its own: it shows the bug that the check found, until that is mended.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Sandbox, python_or_skip};

const OWN_REFERENCE: &str = "\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor + 0.25, mask=at < n)


def truth(tensor, factor):
    return tensor * factor


# warpsmith: ref=truth x=f32[N]:uniform(-2,2) factor=1.5 N=300
def scale(x, factor):
    y = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), factor, BLOCK=128)
    return y
";

/// Writes a repro of the first wrong case, compares what it prints with what the check found, mends the kernel
/// and runs it again.
fn assert_repro(test: &str, text: &str, dtype: &str, mend: &[(&str, &str)]) {
    let Some(python) = python_or_skip(test) else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("kernel.py", text);
    let script = file.with_file_name("repro.py");
    let written = sandbox.run(&[
        "repro",
        file.to_str().expect("UTF-8"),
        "--seed",
        "11",
        "-o",
        script.to_str().expect("UTF-8"),
    ]);
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    let checked = sandbox.check(&file, &["--seed", "11", "--stage", "smoke", "--dtype", dtype]);
    let case = checked.cases.iter().find(|case| case["verdict"] == "wrong").expect("a wrong case");
    let (status, output) = run(&sandbox, &script, &[]);
    assert_eq!(status, Some(1), "{output}");
    let element =
        case["findings"].as_array().and_then(|all| all.iter().find(|one| !one["element"].is_null()));
    match element.map(|finding| &finding["element"]) {
        Some(element) => {
            let index: Vec<u64> = serde_json::from_value(element["index"].clone()).expect("an index");
            let wanted =
                format!("first at {index:?}: expected {}, got {}", element["expected"], element["got"]);
            let wanted = wanted.replace("\"NaN\"", "nan");
            assert!(output.contains(&wanted), "{wanted}\n{output}");
        }
        None => assert!(output.contains("first at [4, 0]") && output.contains("got nan"), "{output}"),
    }
    let mended = replaced(text, mend);
    let mended = sandbox.write("mended.py", &mended);
    let (status, output) = run(&sandbox, &script, &[&mended]);
    assert_eq!(status, Some(0), "{output}");
}

/// What keeps a repro from running is not the bug.
#[test]
fn a_repro_that_cannot_be_run_says_so() {
    let Some(python) = python_or_skip("a_repro_that_cannot_be_run_says_so") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("kernel.py", OWN_REFERENCE);
    let script = file.with_file_name("repro.py");
    let arguments = ["repro", file.to_str().expect("UTF-8"), "-o", script.to_str().expect("UTF-8")];
    assert_eq!(sandbox.run(&arguments).status.code(), Some(0));
    let mended = replaced(OWN_REFERENCE, &[(" + 0.25", "")]);
    for (name, broken) in [
        ("neighbour", format!("from .utils import grid\n{mended}")),
        ("missing", format!("import nothing_of_this_name\n{mended}")),
        ("raises", mended.replace("    y = torch.empty_like(x)\n", "    raise ValueError('not here')\n")),
        ("reference", mended.replace("return tensor * factor", "raise ValueError('not today')")),
    ] {
        let broken = sandbox.write(&format!("{name}.py"), &broken);
        let (status, output) = run(&sandbox, &script, &[&broken]);
        assert_eq!(status, Some(2), "{name}: {output}");
        assert!(output.contains("says nothing of the bug"), "{name}: {output}");
    }
}

fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// One row for each program.
const ONE_ROW: [(&str, &str); 3] =
    [("range(2)", "range(1)"), ("(rows // 2,)", "(rows,)"), (" * 2 + half", " + half")];

fn run(sandbox: &Sandbox, script: &Path, arguments: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(&sandbox.python).arg(script).args(arguments).output().expect("Python runs");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code(), text)
}

fn bug(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/bugs").join(name);
    fs::read_to_string(path).expect("a file of this repository")
}

#[test]
fn rows_that_nobody_writes() {
    assert_repro("rows_that_nobody_writes", &bug("d29_unwritten.py"), "f16", &ONE_ROW);
}

#[test]
fn a_wrong_constant_in_a_builtin_operation() {
    let right = replaced(&bug("d29_unwritten.py"), &ONE_ROW);
    let wrong = replaced(&right, &[("tl.exp(", "0.01 + tl.exp(")]);
    assert_repro("a_wrong_constant_in_a_builtin_operation", &wrong, "f16", &[("0.01 + tl.exp(", "tl.exp(")]);
}

#[test]
fn a_reference_of_the_same_file() {
    assert_repro("a_reference_of_the_same_file", OWN_REFERENCE, "f32", &[(" + 0.25", "")]);
}

#[test]
fn nothing_wrong_is_told_and_nothing_written() {
    let Some(python) = python_or_skip("nothing_wrong_is_told_and_nothing_written") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("kernel.py", &OWN_REFERENCE.replace(" + 0.25", ""));
    let output = sandbox.run(&["repro", file.to_str().expect("UTF-8"), "-o", "-"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.contains("no case of this check is wrong"), "{stderr}");
    let named = sandbox.run(&["repro", file.to_str().expect("UTF-8"), "-o", "-", "--case", "N=300 f32"]);
    let script = String::from_utf8(named.stdout).expect("UTF-8");
    assert!(script.contains("warpsmith found: nothing"), "{}", String::from_utf8_lossy(&named.stderr));
}
