//! Files of which nothing says what is right, in real git repositories: compared with what was committed last.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Checked, Sandbox, python_or_skip};

const SOFTMAX: &str = "\
import torch
import triton
import triton.language as tl


@triton.jit
def soft_kernel(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < n, other=-float('inf')).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * stride + at, e / tl.sum(e, 0), mask=at < n)


def soft(x):
    rows, n = x.shape
    y = torch.empty_like(x)
    soft_kernel[(rows,)](x, y, x.stride(0), n, BLOCK=triton.next_power_of_2(n))
    return y
";
const QUICK: [&str; 2] = ["--stage", "smoke,sweep"];

/// A folder under git of its own.
struct Repository {
    sandbox: Sandbox,
    folder: PathBuf,
}

impl Repository {
    fn new(python: PathBuf) -> Self {
        let sandbox = Sandbox::new(python);
        let folder = sandbox.write("marker", "").with_file_name("repository");
        std::fs::create_dir(&folder).expect("a folder");
        let repository = Self { sandbox, folder };
        repository.git(&["init", "--quiet"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        // A hook that runs these tests must not lend them its repository.
        command
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_WORK_TREE")
            .arg("-C")
            .arg(&self.folder);
        command.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
        let output = command.output().expect("git starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn commit(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, text);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
        path
    }

    /// What a check of `after` says where `before` was committed.
    fn check(&self, before: &str, after: &str, options: &[&str]) -> Checked {
        self.commit("k.py", before);
        self.sandbox.check(&self.write("k.py", after), options)
    }
}

fn changed(text: &str, from: &str, to: &str) -> String {
    let changed = text.replace(from, to);
    assert_ne!(changed, text);
    changed
}

#[track_caller]
fn assert_ends(checked: &Checked, verdict: &str, codes: &[&str]) {
    let mut found = checked.codes();
    found.sort();
    found.dedup();
    assert_eq!(
        (checked.verdict(), found),
        (verdict, codes.iter().map(|c| (*c).to_owned()).collect()),
        "{}",
        checked.describe()
    );
}

fn message(checked: &Checked) -> String {
    checked.findings()[0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_same_values_pass_without_being_called_right() {
    let Some(python) = python_or_skip("the_same_values_pass_without_being_called_right") else { return };
    let repository = Repository::new(python);
    let other =
        changed(SOFTMAX, "tl.exp(x - tl.max(x, 0))", "tl.exp2((x - tl.max(x, 0)) * 1.4426950408889634)");
    let checked = repository.check(SOFTMAX, &other, &[]);
    assert_ends(&checked, "passed", &[]);
    let label = format!("= HEAD {} (no reference)", repository.git(&["rev-parse", "--short", "HEAD"]));
    assert_eq!(
        (&checked.summary["oracle"]["rung"], &checked.summary["oracle"]["label"]),
        (&3.into(), &label.clone().into())
    );
    for stage in ["smoke", "sweep", "determinism"] {
        assert!(checked.cases.iter().any(|case| case["case"]["stage"] == stage), "{stage}");
    }
    assert!(checked.cases.iter().all(|case| case["errors"][0]["reference_max_absolute_error"] == "NaN"));
    let exact = repository.sandbox.check(
        &repository.write("k.py", &changed(SOFTMAX, "    row = tl", "    unused = 1\n    row = tl")),
        &QUICK,
    );
    assert!(
        exact.cases.iter().all(|case| case["errors"][0]["max_absolute_error"] == 0.0),
        "{}",
        exact.describe()
    );
    let file = repository.folder.join("k.py").display().to_string();
    let table = repository.sandbox.run(&["check", &file, "--no-setup", "--stage", "smoke"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains(&format!("= passed · {label} · 2 of 2 cases passed · 2 equal in every element")),
        "{table}"
    );
    assert!(!table.contains('✓'), "{table}");
}

#[test]
fn other_values_differ_and_which_are_right_is_not_known() {
    let Some(python) = python_or_skip("other_values_differ_and_which_are_right_is_not_known") else { return };
    let repository = Repository::new(python);
    let changes = [
        ("values", "tl.exp(x - tl.max(x, 0))", "tl.exp(1.001 * (x - tl.max(x, 0)))"),
        ("not finite", "e / tl.sum(e, 0)", "e / (tl.sum(e, 0) * 0)"),
        ("shape", "    return y", "    return y[:, :1]"),
        ("dtype", "    y = torch.empty_like(x)", "    y = torch.empty_like(x, dtype=torch.bfloat16)"),
        ("outputs", "    return y", "    return y, y"),
    ];
    for (name, from, to) in changes {
        let checked = repository.check(SOFTMAX, &changed(SOFTMAX, from, to), &["--stage", "smoke"]);
        assert_ends(&checked, "wrong", &["differs-from-head"]);
        assert!(
            message(&checked).ends_with("which of the two is right is not known"),
            "{name}: {}",
            message(&checked)
        );
    }
    let file = repository.folder.join("k.py").display().to_string();
    let repro = repository.sandbox.run(&["repro", &file, "-o", "-"]);
    assert_eq!(repro.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&repro.stderr).contains("nobody knows which of the two is right"));
}

/// What no reference is needed for is found as ever.
#[test]
fn faults_that_are_new_are_wrong() {
    let Some(python) = python_or_skip("faults_that_are_new_are_wrong") else { return };
    let repository = Repository::new(python);
    for (from, to, code) in [
        (", mask=at < n)\n", ")\n", "out-of-bounds"),
        ("mask=at < n)\n", "mask=at < n - 1)\n", "unwritten"),
        ("tl.max(x, 0)", "tl.maxx(x, 0)", "compile-error"),
        ("    return y", "    return z", "raised"),
    ] {
        let checked = repository.check(SOFTMAX, &changed(SOFTMAX, from, to), &QUICK);
        assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
        assert_eq!(checked.findings()[0]["code"], code, "{}", checked.describe());
    }
}

#[test]
fn without_another_version_there_is_nothing_to_compare() {
    let Some(python) = python_or_skip("without_another_version_there_is_nothing_to_compare") else { return };
    let repository = Repository::new(python.clone());
    let commented = format!("# a remark\n{SOFTMAX}");
    for after in [SOFTMAX, &commented] {
        let checked = repository.check(SOFTMAX, after, &[]);
        assert_ends(&checked, "could-not-run", &["unchanged-since-head"]);
        assert!(
            checked.cases.is_empty() && message(&checked).starts_with("unchanged since HEAD "),
            "{}",
            message(&checked)
        );
    }
    let new = repository.sandbox.check(&repository.write("new.py", SOFTMAX), &[]);
    assert_ends(&new, "could-not-run", &["no-oracle"]);
    assert!(message(&new).ends_with("it is not part of the last commit"), "{}", message(&new));
    let sandbox = Sandbox::new(python);
    let outside = sandbox.check(&sandbox.write("k.py", SOFTMAX), &[]);
    assert_ends(&outside, "could-not-run", &["no-oracle"]);
    assert!(message(&outside).ends_with("the file is in no git repository"), "{}", message(&outside));
}

#[test]
fn inputs_that_a_comment_gives() {
    let Some(python) = python_or_skip("inputs_that_a_comment_gives") else { return };
    let repository = Repository::new(python);
    let given = changed(SOFTMAX, "def soft(x)", "# warpsmith: x=bf16[M,N] M=2,7 N=30\ndef soft(x)");
    assert_ends(&repository.check(SOFTMAX, &given, &QUICK), "could-not-run", &["unchanged-since-head"]);
    let other = changed(&given, "    row = tl", "    unused = 1\n    row = tl");
    let checked = repository.check(SOFTMAX, &other, &QUICK);
    assert_ends(&checked, "passed", &[]);
    assert!(
        checked
            .cases
            .iter()
            .all(|case| case["case"]["dtype"] == "bfloat16" && case["case"]["axes"]["N"] == 30)
    );
    let wrong = changed(&other, "e / tl.sum", "2 * e / tl.sum");
    assert_ends(&repository.check(SOFTMAX, &wrong, &QUICK), "wrong", &["differs-from-head"]);
    // A fault of both is a fault, and HEAD's values decide nothing then.
    let both = changed(SOFTMAX, ", mask=at < n)\n", ")\n");
    let after = changed(
        &changed(&both, "e / tl.sum", "2 * e / tl.sum"),
        "def soft(x)",
        "# warpsmith: x=f32[M,N] M=2,7 N=30\ndef soft(x)",
    );
    let checked = repository.check(&both, &after, &["--stage", "smoke"]);
    assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
    assert!(
        checked
            .codes()
            .iter()
            .all(|code| ["out-of-bounds", "race", "reference-failed"].contains(&code.as_str())),
        "{}",
        checked.describe()
    );
    assert!(message(&checked).ends_with("as well)"), "{}", message(&checked));
    let raises = changed(SOFTMAX, "    rows, n = x.shape", "    rows, n = x.shape\n    assert n == 64");
    let checked = repository.check(&raises, &given, &["--stage", "smoke"]);
    assert_ends(&checked, "could-not-run", &["reference-failed"]);
}

/// Only HEAD's clean run shows that inputs which nobody gave suit.
#[test]
fn inferred_inputs_that_do_not_suit_are_no_verdict() {
    let Some(python) = python_or_skip("inferred_inputs_that_do_not_suit_are_no_verdict") else { return };
    let repository = Repository::new(python);
    let with =
        |line: &str| changed(SOFTMAX, "    rows, n = x.shape", &format!("    rows, n = x.shape\n    {line}"));
    let double = |text: &str| changed(text, "e / tl.sum", "2 * e / tl.sum");
    let unsuitable = [
        ("head raises", with("assert n == 128"), double(&with("assert n == 128"))),
        ("only the new one declines", SOFTMAX.to_owned(), with("assert n == 128")),
        ("head reads past the end", changed(SOFTMAX, ", mask=at < n)\n", ")\n"), double(SOFTMAX)),
        ("head changes its input", with("x.zero_()"), double(SOFTMAX)),
    ];
    for (name, before, after) in &unsuitable {
        let checked = repository.check(before, after, &["--stage", "smoke"]);
        // At sixty-four columns the block ends where the row does.
        let reads_well = *name == "head reads past the end";
        let expected =
            if reads_well { ("wrong", "differs-from-head") } else { ("could-not-run", "inputs-unsuitable") };
        assert_ends(&checked, expected.0, &[expected.1]);
    }
    let (_, before, after) = &unsuitable[2];
    let checked = repository.check(before, after, &["--stage", "sweep"]);
    assert!(checked.cases.iter().all(|case| case["case"]["axes"]["n"] == 64), "{}", checked.describe());
    // Some suit: they decide, and the others are listed.
    let some = with("assert n != 255 and x.dtype == torch.float32");
    let checked =
        repository.check(&some, &changed(&some, "    row = tl", "    unused = 1\n    row = tl"), &QUICK);
    assert_ends(&checked, "passed", &[]);
    assert!(
        checked
            .cases
            .iter()
            .all(|case| case["case"]["axes"]["n"] != 255 && case["case"]["dtype"] == "float32")
    );
    assert!(checked.summary["not_run"].to_string().contains("AssertionError"), "{}", checked.summary);
}

#[test]
fn what_the_code_does_not_show_is_told_and_not_made_up() {
    let Some(python) = python_or_skip("what_the_code_does_not_show_is_told_and_not_made_up") else { return };
    let repository = Repository::new(python);
    for (from, to, words) in [
        ("def soft(x):", "def soft(x, temperature):", "`temperature` has no default"),
        ("def soft(x):", "def soft(x, row_ids: torch.Tensor):", "`row_ids` seems to hold whole numbers"),
        ("    rows, n = x.shape\n", "    x = x.contiguous()\n    rows, n = 1, 64\n", "cannot be compared"),
    ] {
        let before = changed(SOFTMAX, from, to);
        let checked = repository.check(&before, &changed(&before, "e / tl.sum", "2 * e / tl.sum"), &[]);
        if words == "cannot be compared" {
            // Its dimensions do not show, but its memory is all that is passed on.
            assert!(checked.verdict() != "passed", "{}", checked.describe());
            continue;
        }
        assert_ends(&checked, "could-not-run", &["inputs-unknown"]);
        assert!(message(&checked).contains(words), "{}", message(&checked));
    }
}

/// A function that draws random numbers differs from itself, so it shows nothing about a change.
#[test]
fn a_function_that_draws_random_numbers() {
    let Some(python) = python_or_skip("a_function_that_draws_random_numbers") else { return };
    let repository = Repository::new(python);
    let random = changed(SOFTMAX, "    return y", "    return y + torch.rand_like(y)");
    let counts = changed(SOFTMAX, "def soft(x):", "CALLS = []\n\n\ndef soft(x):\n    CALLS.append(0)");
    let counts = changed(&counts, "    return y", "    return y * len(CALLS)");
    let given = |text: &str| changed(text, "def soft(x)", "# warpsmith: x=f32[M,N] M=2,7 N=30\ndef soft(x)");
    for (before, stage) in
        [(&random, "smoke"), (&random, "sweep"), (&counts, "smoke"), (&random, "determinism")]
    {
        let after = changed(before, "triton.next_power_of_2(n)", "2 * triton.next_power_of_2(n)");
        let checked = repository.check(before, &after, &["--stage", stage]);
        assert_ends(&checked, "could-not-run", &["inputs-unsuitable"]);
        let checked = repository.check(&given(before), &given(&after), &["--stage", stage]);
        assert_ends(&checked, "could-not-run", &["reference-failed"]);
        assert!(message(&checked).contains("called again on the same inputs"), "{}", message(&checked));
    }
}

/// The same values as a faulty version gives are no proof.
#[test]
fn what_a_faulty_head_agrees_with_has_not_passed() {
    let Some(python) = python_or_skip("what_a_faulty_head_agrees_with_has_not_passed") else { return };
    let repository = Repository::new(python);
    let reads_before = "    x += tl.where(row < 0, tl.load(x_ptr + row - 1).to(tl.float32), 0.0)\n    e = ";
    let faulty = changed(SOFTMAX, "    e = ", reads_before);
    let given = changed(SOFTMAX, "def soft(x)", "# warpsmith: x=f32[M,N] M=2,7 N=30\ndef soft(x)");
    let checked = repository.check(&faulty, &given, &["--stage", "smoke"]);
    assert_ends(&checked, "could-not-run", &["reference-failed"]);
    assert!(message(&checked).contains("`out-of-bounds`"), "{}", message(&checked));
    let checked = repository.check(&faulty, SOFTMAX, &["--stage", "smoke"]);
    assert_ends(&checked, "could-not-run", &["inputs-unsuitable"]);
}

/// Helpers of the file come from HEAD's text, other files from the disk.
#[test]
fn head_is_the_whole_file_and_each_function_is_compared() {
    let Some(python) = python_or_skip("head_is_the_whole_file_and_each_function_is_compared") else { return };
    let repository = Repository::new(python);
    let second = SOFTMAX.split_once("@triton.jit").map_or("", |(_, rest)| rest);
    let second = second.replace("soft_kernel", "hard_kernel").replace("def soft(", "def hard(");
    let second = changed(&second, "return y", "return factor() * y");
    let text = format!("{SOFTMAX}\n\ndef factor():\n    return 2\n\n\n@triton.jit{second}");
    let checked = repository.check(&text, &changed(&text, "return 2", "return 3"), &["--stage", "smoke"]);
    assert_ends(&checked, "wrong", &["differs-from-head"]);
    let functions = checked.summary["functions"].as_array().cloned().unwrap_or_default();
    let verdicts: Vec<(&str, &str)> =
        functions.iter().filter_map(|f| Some((f["entry"].as_str()?, f["verdict"].as_str()?))).collect();
    assert_eq!(verdicts, [("soft", "passed"), ("hard", "wrong")]);
}

/// An output argument, and a kernel under a comment that names a reference, which needs no HEAD.
#[test]
fn a_function_that_writes_into_its_argument() {
    let Some(python) = python_or_skip("a_function_that_writes_into_its_argument") else { return };
    let repository = Repository::new(python);
    let into = changed(SOFTMAX, "def soft(x):", "def soft(x, y):");
    let into = changed(&changed(&into, "    y = torch.empty_like(x)\n", ""), "    return y\n", "");
    let same = changed(&into, "    row = tl", "    unused = 1\n    row = tl");
    assert_ends(&repository.check(&into, &same, &QUICK), "passed", &[]);
    let wrong = changed(&into, "e / tl.sum", "2 * e / tl.sum");
    assert_ends(&repository.check(&into, &wrong, &QUICK), "wrong", &["differs-from-head"]);
    let known = changed(SOFTMAX, "def soft(", "# warpsmith: ref=right x=f32[M,N] M=2 N=65\ndef soft(");
    let known = format!("{known}\n\ndef right(x):\n    return torch.softmax(x, -1)\n");
    let checked = repository.check(&into, &known, &QUICK);
    assert_ends(&checked, "passed", &[]);
    assert_eq!(checked.summary["oracle"]["rung"], 4);
    assert!(Path::new(&repository.folder).join(".git").is_dir());
}

/// One function is judged, the other is only the same as before, or is not: neither is taken for the other.
#[test]
fn a_judged_function_beside_one_that_is_compared() {
    let Some(python) = python_or_skip("a_judged_function_beside_one_that_is_compared") else { return };
    let repository = Repository::new(python);
    let function = |name: &str, formula: &str, comment: &str| {
        format!(
            "\n\n@triton.jit\ndef {name}_kernel(x, y, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n    value = \
             tl.load(x + at, mask=at < n)\n    tl.store(y + at, {formula}, mask=at < n)\n\n\n{comment}def {name}(x):\n    y = \
             torch.empty_like(x)\n    {name}_kernel[(1,)](x, y, x.numel(), BLOCK=64)\n    return y\n"
        )
    };
    let file = |twice: &str, negate: &str| {
        let twice = function("twice", twice, "# warpsmith: x=f32[N] N=5,60\n");
        let negate = function("negate", negate, "# warpsmith: ref=torch.neg x=f32[N] N=5,60\n");
        format!("import torch\nimport triton\nimport triton.language as tl\n{twice}{negate}")
    };
    let path = repository.commit("k.py", &file("2 * value", "-value"));
    let run = |verb: &str, text: &str| {
        repository.write("k.py", text);
        let path = path.display().to_string();
        let more: &[&str] = if verb == "repro" { &["-o", "-"] } else { &QUICK };
        let output = repository.sandbox.run(&[&[verb, path.as_str()], more].concat());
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    let (status, table) = run("check", &file("value + value", "-value"));
    assert_eq!(status, Some(0), "{table}");
    assert!(table.contains("\npassed · 2 functions · 1 only = HEAD · "), "{table}");
    assert!(table.contains("twice: = passed") && table.contains("negate: ✓ passed"), "{table}");
    let (status, table) = run("check", &file("value + value", "3 * value"));
    assert!(status == Some(1) && table.contains("✗ wrong · 2 functions · 1 only = HEAD"), "{table}");
    let (_, script) = run("repro", &file("3 * value", "3 * value"));
    assert!(script.contains("\"entry\": \"negate\""), "{script}");
    let (status, told) = run("repro", &file("3 * value", "-value"));
    assert!(status != Some(0) && told.contains("a difference from HEAD cannot be written down"), "{told}");
}

/// Both versions run with the helper on the disk, so they agree whatever became of it; that is told.
#[test]
fn a_change_in_what_is_imported_is_listed_as_not_seen() {
    let Some(python) = python_or_skip("a_change_in_what_is_imported_is_listed_as_not_seen") else { return };
    let repository = Repository::new(python);
    repository.write("helper.py", "import triton\n\n\n@triton.jit\ndef shift(x):\n    return x + 1.0\n");
    let text = SOFTMAX
        .replace("import triton\n", "import triton\nfrom helper import shift\n")
        .replace("e / tl.sum(e, 0)", "shift(e / tl.sum(e, 0))");
    let file = repository.commit("soft.py", &text);
    repository.write("helper.py", "import triton\n\n\n@triton.jit\ndef shift(x):\n    return x + 2.0\n");
    repository.write("soft.py", &text.replace("e = tl.exp", "e = 1.0 * tl.exp"));
    let checked = repository.sandbox.check(&file, &QUICK);
    assert_eq!(checked.verdict(), "passed", "{}", checked.describe());
    let told = checked.summary["not_run"].to_string();
    assert!(told.contains("changes in `helper`"), "{told}");
}
