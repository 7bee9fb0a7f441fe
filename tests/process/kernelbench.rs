//! KernelBench problems: right kernels pass, wrong ones are found, and whatever is wrong with a problem or with
//! the way weights are kept is never held against the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Checked, Sandbox, python_or_skip};

const BATCH_NORM: &str = "\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(9, 33)]


def get_init_inputs():
    return [33]
";

const BATCH_NORM_NEW: &str = "\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _norm(x, weight, bias, mean, variance, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    centred = tl.load(x + row * n + at, mask=inside, other=0.0) - tl.load(mean + at, mask=inside, other=0.0)
    scaled = centred / tl.sqrt(tl.load(variance + at, mask=inside, other=1.0) + eps)
    w = tl.load(weight + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, scaled * w + tl.load(bias + at, mask=inside, other=0.0), mask=inside)


# warpsmith: ref=./model.py::Model eval=true
class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        y = torch.empty_like(x)
        norm = self.norm
        held = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        _norm[(x.shape[0],)](x, *held, y, x.shape[1], norm.eps, BLOCK=64)
        return y
";

fn problem(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/kernelbench").join(name);
    fs::read_to_string(path).expect("a file of this repository")
}

/// The text with other words in it.
#[track_caller]
fn with(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

#[track_caller]
fn assert_ends(name: &str, checked: &Checked, verdict: &str, codes: &[&str]) {
    let mut found = checked.codes();
    found.dedup();
    let codes: Vec<String> = codes.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!((checked.verdict(), &found), (verdict, &codes), "{name}: {}", checked.describe());
}

/// Checks several texts in one run: one worker, started once.
fn check_all(sandbox: &Sandbox, texts: &[(String, String)], options: &[&str]) -> Vec<Checked> {
    let files: Vec<PathBuf> = texts.iter().map(|(name, text)| sandbox.write(name, text)).collect();
    let output = sandbox
        .warpsmith()
        .args(["check", "--json", "--no-setup", "--seed", "7"])
        .args(options)
        .args(&files)
        .output()
        .expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let (mut all, mut cases) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if line["schema"] == "warpsmith.case/1" {
            cases.push(line);
        } else {
            let cases = std::mem::take(&mut cases);
            all.push(Checked { exit: output.status.code(), cases, summary: line, stderr: stderr.clone() });
        }
    }
    assert_eq!(all.len(), texts.len(), "{stderr}");
    all
}

/// Each planted bug `(from, to, code, stage)` is found in that stage and with that code.
fn assert_bugs(sandbox: &Sandbox, text: &str, bugs: &[(&str, &str, &str, &str)]) {
    let planted = |(at, (from, to, _, _)): (usize, &(&str, &str, &str, &str))| {
        (format!("planted_{at}.py"), with(text, &[(from, to)]))
    };
    let texts: Vec<(String, String)> = bugs.iter().enumerate().map(planted).collect();
    for ((_, to, code, stage), checked) in bugs.iter().zip(check_all(sandbox, &texts, &[])) {
        assert_eq!(checked.verdict(), "wrong", "{to}: {}", checked.describe());
        let first = checked.cases.iter().find(|case| case["verdict"] == "wrong").expect("a wrong case");
        let found = (first["code"].as_str(), first["case"]["stage"].as_str());
        assert_eq!(found, (Some(*code), Some(*stage)), "{to}: {}", checked.describe());
    }
}

fn stages(checked: &Checked) -> Vec<String> {
    let label = |case: &Value| {
        let case = &case["case"];
        format!("{} {}", case["stage"].as_str().unwrap_or("?"), case["profile"].as_str().unwrap_or("?"))
    };
    checked.cases.iter().map(label).collect()
}

#[test]
fn elementwise_in_one_file() {
    let Some(python) = python_or_skip("elementwise_in_one_file") else { return };
    let sandbox = Sandbox::new(python);
    let text = problem("swish.py");
    let right = sandbox.check(&sandbox.write("swish.py", &text), &[]);
    assert_ends("swish", &right, "passed", &[]);
    assert_eq!(right.summary["oracle"]["rung"], 0);
    assert_eq!(right.summary["oracle"]["label"], "KernelBench · Model · ref from the same file · train mode");
    assert_eq!(stages(&right), ["smoke default", "sweep draw 2", "sweep draw 3", "determinism default"]);
    assert_eq!(right.cases[0]["case"]["axes"], serde_json::json!({"batch_size": 9, "dim": 130}));
    let not_run: Vec<&str> = right.summary["not_run"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| line["what"].as_str())
        .collect();
    assert_eq!(not_run, ["stability", "edge", "other dtypes"]);
    let smaller = with(&text, &[("class ModelNew", "# warpsmith: ref=Model dim=7\nclass ModelNew")]);
    let smaller = sandbox.check(&sandbox.write("smaller.py", &smaller), &[]);
    assert_ends("smaller", &smaller, "passed", &[]);
    assert_eq!(smaller.cases[0]["case"]["axes"]["dim"], 7);
    let store = "tl.store(y + at, value * tl.sigmoid(value), mask=inside)";
    assert_bugs(
        &sandbox,
        &text,
        &[
            ("value * tl.sigmoid(value)", "value * tl.sigmoid(1.01 * value)", "mismatch", "smoke"),
            (store, "tl.store(y + at, value * tl.sigmoid(value))", "out-of-bounds", "smoke"),
            ("at < n\n", "at < n - 1\n", "unwritten", "smoke"),
            ("return y", "x.copy_(y)\n        return y", "inputs-changed", "smoke"),
            ("return y", "return y.half()", "wrong-dtype", "smoke"),
            ("return y", "return y[:1]", "wrong-shape", "smoke"),
            ("return y", "return y, y", "wrong-outputs", "smoke"),
            (
                "        y = torch.empty_like(x)\n",
                "        self.y = y = getattr(self, 'y', None)\n        self.y = y = torch.empty_like(x) if y is None else y\n",
                "output-reused",
                "determinism",
            ),
        ],
    );
}

/// Who hands back what an earlier call gave is found when other values stand at the same address.
#[test]
fn what_depends_on_the_first_call() {
    let Some(python) = python_or_skip("what_depends_on_the_first_call") else { return };
    let sandbox = Sandbox::new(python);
    let text = problem("swish.py");
    let launch =
        "        _swish[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n        return y";
    let memo = "        memo = self.__dict__.setdefault('memo', {})\n        source = memo.setdefault(x.data_ptr(), x.clone())\n        _swish[(triton.cdiv(x.numel(), 256),)](source, y, x.numel(), BLOCK=256)\n        return y";
    let counted = "        self.calls = getattr(self, 'calls', 0) + 1\n        _swish[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n        return y if self.calls < 2 else y * 1.5";
    assert_bugs(
        &sandbox,
        &text,
        &[(launch, memo, "memoised", "determinism"), (launch, counted, "mismatch", "determinism")],
    );
}

#[test]
fn without_a_kernel_there_is_nothing_to_judge() {
    let Some(python) = python_or_skip("without_a_kernel_there_is_nothing_to_judge") else { return };
    let sandbox = Sandbox::new(python);
    let text = problem("swish.py");
    let launch = "_swish[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n        return y";
    let torch_only = with(&text, &[(launch, "return x * torch.sigmoid(x)")]);
    let delegates = with(
        &text,
        &[("class ModelNew(nn.Module)", "class ModelNew(Model)"), (launch, "return super().forward(x)")],
    );
    let texts = [("torch.py".to_owned(), torch_only), ("delegates.py".to_owned(), delegates)];
    for (checked, (name, _)) in check_all(&sandbox, &texts, &["--stage", "smoke"]).iter().zip(&texts) {
        assert_ends(name, checked, "could-not-run", &["not-launched"]);
    }
}

/// The reference's sizes are far too large; the comment makes them smaller. The judged file makes inputs of its
/// own, on which everything is right.
#[test]
fn weights_are_shared_and_sizes_are_those_of_the_comment() {
    let Some(python) = python_or_skip("weights_are_shared_and_sizes_are_those_of_the_comment") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    sandbox.write("linear_model.py", &problem("linear_model.py"));
    let text = problem("linear.py");
    let right = sandbox.check(&sandbox.write("linear.py", &text), &[]);
    assert_ends("linear", &right, "passed", &[]);
    assert_eq!(right.summary["oracle"]["label"], "KernelBench · ./linear_model.py::Model · train mode");
    let tried: Vec<&Value> = right.cases.iter().map(|case| &case["case"]["axes"]["in_features"]).collect();
    assert!(tried.iter().any(|n| **n == 40) && tried.iter().any(|n| **n == 100), "{tried:?}");
    assert_bugs(
        &sandbox,
        &text,
        &[
            ("tl.load(b + n, mask=n < cols, other=0.0)[None, :]", "0.0", "mismatch", "smoke"),
            (
                "w + n[None, :] * inner + k[:, None]",
                "w + k[:, None] * cols + n[None, :]",
                "mismatch",
                "smoke",
            ),
            ("input_precision=\"ieee\"", "input_precision=\"tf32\"", "tf32", "smoke"),
            ("range(0, inner, BK)", "range(0, 64, BK)", "mismatch", "sweep"),
        ],
    );
    let whole = with(&text, &[(" batch_size=33 in_features=40,100 out_features=70", "")]);
    let whole = sandbox.check(&sandbox.write("whole.py", &whole), &[]);
    assert_ends("whole", &whole, "could-not-run", &["too-large"]);
    let message = whole.findings()[0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.contains("at least 75,497,472")
            && message.contains("# warpsmith: batch_size=… in_features=…"),
        "{message}"
    );
    assert_eq!(whole.findings()[0]["place"]["line"], 26);
}

#[test]
fn affine_parameters_are_not_left_at_one_and_zero() {
    let Some(python) = python_or_skip("affine_parameters_are_not_left_at_one_and_zero") else { return };
    let sandbox = Sandbox::new(python);
    let text = problem("norm.py");
    let right = sandbox.check(&sandbox.write("norm.py", &text), &[]);
    assert_ends("norm", &right, "passed", &[]);
    assert!(stages(&right).contains(&"sweep random affine".to_owned()), "{:?}", stages(&right));
    assert_bugs(
        &sandbox,
        &text,
        &[
            ("centred * scale * w + b", "centred * scale + b", "mismatch", "sweep"),
            ("centred * scale * w + b", "centred * scale * w", "mismatch", "sweep"),
            ("tl.where(inside, value - mean, 0.0)", "value - mean", "mismatch", "smoke"),
            ("/ n + eps", "/ (n - 1) + eps", "mismatch", "smoke"),
        ],
    );
    // Weights that the constructor repacks cannot follow; nobody says that they must.
    let packed = with(
        &text,
        &[
            (
                "        self.norm = nn.LayerNorm(features)\n\n    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        \"\"\"The same shape.\"\"\"\n        y",
                "        self.norm = nn.LayerNorm(features)\n        self.packed = self.norm.weight.detach().clone().cuda()\n\n    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        \"\"\"The same shape.\"\"\"\n        y",
            ),
            ("(x, norm.weight,", "(x, self.packed,"),
        ],
    );
    let packed = sandbox.check(&sandbox.write("packed.py", &packed), &[]);
    assert_ends("packed", &packed, "passed", &[]);
    let told = packed.summary["not_run"].to_string();
    assert!(told.contains("random affine") && told.contains("`packed`"), "{told}");
}

/// In evaluation a batch norm uses its running statistics, which constructors leave at zero and one.
#[test]
fn running_statistics_are_not_left_at_zero_and_one_in_evaluation() {
    let Some(python) = python_or_skip("running_statistics_are_not_left_at_zero_and_one_in_evaluation") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    sandbox.write("model.py", BATCH_NORM);
    let right = sandbox.check(&sandbox.write("right.py", BATCH_NORM_NEW), &[]);
    assert_ends("right", &right, "passed", &[]);
    for from in
        ["tl.load(mean + at, mask=inside, other=0.0)", "tl.load(variance + at, mask=inside, other=1.0)"]
    {
        let ignored = if from.contains("mean") { "0.0" } else { "1.0" };
        let text = with(BATCH_NORM_NEW, &[(from, ignored)]);
        assert_ends(from, &sandbox.check(&sandbox.write("wrong.py", &text), &[]), "wrong", &["mismatch"]);
    }
}

#[test]
fn several_inputs_and_outputs() {
    let Some(python) = python_or_skip("several_inputs_and_outputs") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("pair_model.py", &problem("pair_model.py"));
    let text = problem("pair.py");
    let right = sandbox.check(&sandbox.write("pair.py", &text), &[]);
    assert_ends("pair", &right, "passed", &[]);
    assert_bugs(
        &sandbox,
        &text,
        &[
            // What lies between the elements is poison, and stays it.
            ("right + at * stride", "right + at", "unwritten", "smoke"),
            ("a + factor * b", "a + b", "mismatch", "smoke"),
            ("0) / n)", "0) / (n + 1))", "mismatch", "smoke"),
            ("return total, mean", "return mean, total", "wrong-shape", "smoke"),
            ("return total, mean", "return total", "wrong-outputs", "smoke"),
        ],
    );
}

/// Names may differ when the same seed gives the same weights; otherwise nobody knows what the object computes with.
#[test]
fn weights_that_cannot_be_matched_are_no_wrong_kernel() {
    let Some(python) = python_or_skip("weights_that_cannot_be_matched_are_no_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("linear_model.py", &problem("linear_model.py"));
    let text = problem("linear.py");
    let renamed = with(&text, &[("self.linear", "self.projection")]);
    assert_ends("renamed", &sandbox.check(&sandbox.write("renamed.py", &renamed), &[]), "passed", &[]);
    let made = "self.linear = nn.Linear(in_features, out_features)";
    let own = "self.linear = nn.ParameterDict({'weight': torch.rand(out_features, in_features), 'b': torch.rand(out_features)})";
    let own = with(&text, &[(made, own), ("self.linear.bias", "self.linear.b")]);
    let transposed = with(
        &text,
        &[
            (made, "self.linear = nn.Linear(out_features, in_features)"),
            ("weight.shape[0]", "weight.shape[1]"),
        ],
    );
    let scratch =
        with(&text, &[(made, &format!("{made}\n        self.register_buffer('scratch', torch.rand(5))"))]);
    let told = [
        ("own_names.py", "`linear.bias`"),
        ("shape.py", "`linear.weight` [70, 40]"),
        ("buffer.py", "`scratch` [5]"),
    ];
    let texts: Vec<(String, String)> = told
        .iter()
        .zip([own, transposed, scratch])
        .map(|((name, _), text)| ((*name).to_owned(), text))
        .collect();
    for ((name, words), checked) in told.iter().zip(check_all(&sandbox, &texts, &["--stage", "smoke"])) {
        assert_ends(name, &checked, "could-not-run", &["unmatched-weights"]);
        let message = checked.findings()[0]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn a_class_that_gives_no_object_is_no_wrong_kernel() {
    let Some(python) = python_or_skip("a_class_that_gives_no_object_is_no_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("linear_model.py", &problem("linear_model.py"));
    let text = problem("linear.py");
    let signature = "def __init__(self, in_features: int, out_features: int) -> None:";
    let planted = [
        (
            "constructor",
            signature,
            "def __init__(self, in_features: int, out_features: int, bias: bool) -> None:",
            "bad-signature",
        ),
        (
            "forward",
            "def forward(self, x: torch.Tensor)",
            "def forward(self, x: torch.Tensor, scale: float)",
            "bad-signature",
        ),
        ("raises", "super().__init__()", "super().__init__()\n        raise ValueError('no')", "not-built"),
        ("no module", "class ModelNew(nn.Module)", "class ModelNew", "bad-signature"),
        (
            "launches",
            "out_features)\n\n",
            "out_features)\n        t = torch.zeros(9, device='cuda')\n        _linear_relu[(1, 1)](t, t, t, t, 1, 1, 1, BM=16, BN=16, BK=16)\n\n",
            "not-built",
        ),
    ];
    let text_of = |(name, from, to, _): &(&str, &str, &str, &str)| {
        let text = match *name {
            "no module" => with(&text, &[(from, to), ("super().__init__()", "pass")]),
            _ => with(&text, &[(from, to)]),
        };
        (format!("{}.py", name.replace(' ', "_")), text)
    };
    let texts: Vec<(String, String)> = planted.iter().map(text_of).collect();
    for ((name, _, _, code), checked) in
        planted.iter().zip(check_all(&sandbox, &texts, &["--stage", "smoke"]))
    {
        assert_eq!(checked.verdict(), "could-not-run", "{name}: {}", checked.describe());
        let codes = checked.codes();
        assert!(codes.iter().all(|found| found == code), "{name}: {}", checked.describe());
    }
}

/// Whatever is wrong with the reference says nothing of the kernel.
#[test]
fn a_problem_that_cannot_be_used_is_no_wrong_kernel() {
    let Some(python) = python_or_skip("a_problem_that_cannot_be_used_is_no_wrong_kernel") else { return };
    let sandbox = Sandbox::new(python);
    let text = problem("linear.py");
    let model = problem("linear_model.py");
    let inputs = "return [torch.rand(batch_size, in_features)]";
    let forward = "return torch.relu(self.linear(x))";
    let planted = [
        (
            "raises",
            "super().__init__()",
            "super().__init__()\n        raise ValueError('no model')",
            "no model",
        ),
        ("no tensors", inputs, "return ['text']", "returns a str at position 0"),
        ("one tensor", inputs, "return torch.rand(batch_size, in_features)", "returns a Tensor, not a list"),
        ("too many", inputs, "return [torch.rand(batch_size, in_features)] * 2", "returns 2 values"),
        ("other shapes", inputs, "return [torch.rand(int(torch.randint(3, 900, ())), in_features)]", "same"),
        ("init", "return [in_features, out_features]", "return [torch, out_features]", "returns a module"),
        (
            "random",
            forward,
            "return torch.dropout(self.linear(x), 0.5, self.training)",
            "draws random numbers",
        ),
        (
            "float32 only",
            forward,
            "assert x.dtype == torch.float32; return torch.relu(self.linear(x))",
            "float64",
        ),
        ("missing import", "from torch import nn", "from torch import nn\nimport nowhere", "nowhere"),
        ("float64", inputs, "return [torch.rand(batch_size, in_features).double()]", "Double"),
    ];
    let text_of = |(at, (_, from, to, _)): (usize, &(&str, &str, &str, &str))| {
        let file = format!("problem_{at}.py");
        sandbox.write(&file, &with(&model, &[(from, to)]));
        (format!("kernel_{at}.py"), text.replace("linear_model.py", &file))
    };
    let texts: Vec<(String, String)> = planted.iter().enumerate().map(text_of).collect();
    for ((name, _, _, words), checked) in
        planted.iter().zip(check_all(&sandbox, &texts, &["--stage", "smoke"]))
    {
        assert_eq!(checked.verdict(), "could-not-run", "{name}: {}", checked.describe());
        for finding in checked.findings() {
            assert_eq!(finding["code"], "reference-failed", "{name}: {}", checked.describe());
            let message = finding["message"].as_str().unwrap_or_default();
            assert!(message.contains(words), "{name}: {message}");
        }
    }
    // In eval mode the dropout of the reference is none.
    let dropout =
        with(&model, &[(forward, "return torch.dropout(torch.relu(self.linear(x)), 0.5, self.training)")]);
    sandbox.write("linear_model.py", &dropout);
    let text = with(&text, &[("::Model", "::Model eval=true")]);
    let evaluated = sandbox.check(&sandbox.write("linear.py", &text), &["--stage", "smoke"]);
    assert_ends("eval", &evaluated, "passed", &[]);
    assert_eq!(evaluated.summary["oracle"]["label"], "KernelBench · ./linear_model.py::Model · eval mode");
}

#[test]
fn a_wrong_case_is_written_down() {
    let Some(python) = python_or_skip("a_wrong_case_is_written_down") else { return };
    let sandbox = Sandbox::new(python);
    sandbox.write("linear_model.py", &problem("linear_model.py"));
    let (linear, norm) = (problem("linear.py"), problem("norm.py"));
    for (right, from, to) in [
        (&linear, "tl.maximum(total, 0.0)", "tl.maximum(total, 0.01)"),
        (&norm, "centred * scale * w + b", "centred * scale + b"),
    ] {
        let mended = sandbox.write("mended.py", right);
        let file = sandbox.write("kernel.py", &with(right, &[(from, to)]));
        let script = file.with_file_name("repro.py");
        let path = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
        let written = sandbox.run(&["repro", &path(&file), "--seed", "11", "-o", &path(&script)]);
        assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
        let checked = sandbox.check(&file, &["--seed", "11"]);
        let element = checked.findings().into_iter().find(|finding| !finding["element"].is_null());
        let element = &element.expect("a bad element")["element"];
        let index: Vec<u64> = serde_json::from_value(element["index"].clone()).expect("an index");
        let wanted = format!("first at {index:?}: expected {}, got {}", element["expected"], element["got"]);
        let (status, output) = run(&sandbox, &[&script]);
        assert!(status == Some(1) && output.contains(&wanted), "{wanted}\n{output}");
        let (status, output) = run(&sandbox, &[&script, &mended]);
        assert_eq!(status, Some(0), "{output}");
    }
}

fn run(sandbox: &Sandbox, arguments: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(&sandbox.python).args(arguments).output().expect("Python runs");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code(), text)
}
