//! Whatever a file does, the check ends, says what happened, and leaves nothing running.

use std::time::Duration;

use crate::harness::{Checked, Sandbox, python_or_skip};

/// A right softmax; each test puts imports before it and an entry after it.
pub(crate) const KERNEL: &str = r#"
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, (weights / tl.sum(weights, axis=0)).to(y.dtype.element_ty), mask=inside)


def softmax(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y


"#;

/// What a check of one text came to, and that nothing is left of it.
struct Outcome {
    checked: Checked,
}

impl Outcome {
    #[track_caller]
    fn is(&self, verdict: &str, exit: i32, code: &str) {
        let checked = &self.checked;
        assert_eq!((checked.verdict(), checked.exit), (verdict, Some(exit)), "{}", checked.describe());
        assert!(checked.codes().iter().any(|known| known == code), "no {code}: {}", checked.describe());
    }

    fn is_wrong(&self, code: &str) {
        self.is("wrong", 1, code);
    }

    fn could_not_run(&self, code: &str) {
        self.is("could-not-run", 2, code);
    }

    #[track_caller]
    fn says(&self, words: &str) {
        let said = self
            .checked
            .findings()
            .into_iter()
            .any(|f| f["message"].as_str().is_some_and(|m| m.contains(words)));
        assert!(said, "nobody says {words:?}: {}", self.checked.describe());
    }
}

/// Checks a whole text; `None` when there is no interpreter.
fn check_text(test: &str, text: &str) -> Option<Outcome> {
    let sandbox = Sandbox::new(python_or_skip(test)?);
    let file = sandbox.write("kernel.py", text);
    let checked = sandbox.check(&file, &["--dtype", "f32", "--stage", "smoke"]);
    sandbox.assert_alone_within(Duration::from_secs(3));
    Some(Outcome { checked })
}

fn check_entry(test: &str, imports: &str, entry: &str) -> Option<Outcome> {
    check_text(test, &format!("{imports}{KERNEL}{entry}"))
}

macro_rules! bad_inputs {
    ($($test:ident($imports:expr, $entry:expr) $verdict:ident $code:literal;)*) => {
        $(#[test]
        fn $test() {
            if let Some(outcome) = check_entry(stringify!($test), $imports, $entry) {
                outcome.$verdict($code);
            }
        })*
    };
}

bad_inputs! {
    segfault("import ctypes", "def kernel_fn(x):\n    ctypes.string_at(0)\n") is_wrong "crashed";
    os_exit_with_status_0("import os", "def kernel_fn(x):\n    print('passed', flush=True)\n    os._exit(0)\n") is_wrong "exited";
    skip_test("import unittest", "def kernel_fn(x):\n    raise unittest.SkipTest('not today')\n") is_wrong "raised";
    system_exit("", "def kernel_fn(x):\n    raise SystemExit(0)\n") is_wrong "raised";
    keyboard_interrupt("", "def kernel_fn(x):\n    raise KeyboardInterrupt\n") is_wrong "raised";
    claimed_out_of_memory("", "def kernel_fn(x):\n    raise torch.cuda.OutOfMemoryError('not really')\n") is_wrong "raised";
    hands_its_input_back("", "def kernel_fn(x):\n    softmax(x)\n    return x\n") is_wrong "aliases-input";
    writes_its_input("", "def kernel_fn(x):\n    y = softmax(x)\n    x.mul_(0)\n    return y\n") is_wrong "inputs-changed";
    other_dtype("", "def kernel_fn(x):\n    return softmax(x).half()\n") is_wrong "wrong-dtype";
    other_shape("", "def kernel_fn(x):\n    return softmax(x)[:-1]\n") is_wrong "wrong-shape";
    no_tensor("", "def kernel_fn(x):\n    softmax(x)\n") is_wrong "wrong-outputs";
    tensor_subclass("", "class Lazy(torch.Tensor):\n    pass\n\n\ndef kernel_fn(x):\n    return softmax(x).as_subclass(Lazy)\n") is_wrong "wrong-outputs";
    stored_answer("", "def kernel_fn(x):\n    softmax(x)\n    return torch.full_like(x, 1 / x.shape[1])\n") is_wrong "mismatch";
    no_launch("", "def kernel_fn(x):\n    return torch.softmax(x, dim=-1)\n") could_not_run "not-launched";
    module_level_launch("", "def kernel_fn(x):\n    return softmax(x)\n\n\nready = torch.zeros(4)\nsoftmax_kernel[(1,)](ready, ready, 4, BLOCK=4)\n") could_not_run "module-level-launch";
    crash_at_import("import os\nimport signal\n\nos.kill(os.getpid(), signal.SIGSEGV)\n", "def kernel_fn(x):\n    return softmax(x)\n") could_not_run "crashed-at-import";
    exception_at_import("raise ValueError('no GPU, no import')\n", "def kernel_fn(x):\n    return softmax(x)\n") could_not_run "import-error";
    // Pages that the kernel fills itself: on a busy machine, writing them takes longer than a case may.
    memory_hog("from mmap import MAP_ANONYMOUS, MAP_POPULATE, MAP_PRIVATE, mmap", "def kernel_fn(x):\n    hoard = []\n    while True:\n        hoard.append(mmap(-1, 1 << 28, flags=MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE))\n") could_not_run "out-of-memory";
    endless_loop("", "def kernel_fn(x):\n    while True:\n        pass\n") could_not_run "timeout";
    inline_assembly("", "@triton.jit\ndef asm_kernel(x):\n    v = tl.load(x + tl.arange(0, 16))\n    w = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [v], dtype=tl.float32, is_pure=True, pack=1)\n    tl.store(x + tl.arange(0, 16), w)\n\n\ndef kernel_fn(x):\n    asm_kernel[(1,)](torch.zeros(16, device=x.device))\n    return softmax(x)\n") could_not_run "unsupported";
}

#[test]
fn missing_package() {
    let imports = "import a_package_that_nobody_has  # noqa: F401\n";
    let Some(outcome) = check_entry("missing_package", imports, "def kernel_fn(x):\n    return softmax(x)\n")
    else {
        return;
    };
    outcome.could_not_run("import-error");
    outcome.says("`a_package_that_nobody_has` is missing");
}

#[test]
fn syntax_error() {
    let entry = "def kernel_fn(x):\n    return softmax(x))\n";
    let Some(outcome) = check_entry("syntax_error", "", entry) else { return };
    outcome.could_not_run("syntax-error");
    let line = format!("{KERNEL}{entry}").lines().count() as u64;
    assert!(
        outcome.checked.findings().iter().any(|f| f["place"]["line"] == line),
        "{}",
        outcome.checked.describe()
    );
}

/// Also where the error hides the entry, so that no convention is seen.
#[test]
fn syntax_error_in_the_entry() {
    let Some(outcome) =
        check_entry("syntax_error_in_the_entry", "", "def kernel_fn(x:\n    return softmax(x)\n")
    else {
        return;
    };
    outcome.could_not_run("syntax-error");
    let line = KERNEL.lines().count() as u64 + 1;
    let placed = outcome.checked.findings().into_iter().any(|finding| finding["place"]["line"] == line);
    assert!(placed, "{}", outcome.checked.describe());
}

#[test]
fn no_kernel_and_no_oracle() {
    let Some(outcome) = check_text("no_kernel", "def kernel_fn(x):\n    return x\n") else { return };
    outcome.could_not_run("no-kernel");
    let text = KERNEL.replace("KERNEL_TYPE = \"softmax\"\n", "");
    let Some(outcome) = check_text("no_oracle", &text) else { return };
    outcome.could_not_run("no-oracle");
    let text = KERNEL.replace("\"softmax\"", "\"a kernel of tomorrow\"")
        + "def kernel_fn(x):\n    return softmax(x)\n";
    let Some(outcome) = check_text("no_definition", &text) else { return };
    outcome.could_not_run("no-definition");
    outcome.says("softmax");
}

/// 100 MB on stdout neither block nor hurt: the kernel is right.
#[test]
fn flood_on_stdout() {
    let entry = "def kernel_fn(x):\n    for _ in range(100):\n        os.write(1, b'x' * 1_000_000)\n    return softmax(x)\n";
    let Some(outcome) = check_entry("flood_on_stdout", "import os", entry) else { return };
    outcome.is_passed();
}

/// Lines of the protocol on stdout and stderr are output like any other.
#[test]
fn forged_protocol_lines() {
    let entry = r#"def kernel_fn(x):
    softmax(x)
    for fd in (1, 2):
        for number in range(1, 60):
            os.write(fd, b'{"id": %d, "done": {"outputs": [], "inputs_changed": []}}\n' % number)
    return torch.zeros_like(x)
"#;
    let Some(outcome) = check_entry("forged_protocol_lines", "import os", entry) else { return };
    outcome.is_wrong("mismatch");
}

/// A process that left its group and session is found and ended all the same (see `check_text`).
#[test]
fn daemon() {
    let entry = r"def kernel_fn(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return softmax(x)
";
    let Some(outcome) = check_entry("daemon", "import os\nimport time", entry) else { return };
    outcome.is_passed();
}

/// Every descriptor of the candidate's process is full of rubbish: nothing of it is taken for an answer.
#[test]
fn rubbish_on_every_descriptor() {
    let entry = r#"def kernel_fn(x):
    softmax(x)
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"id": 1, "done": {}}\n' * 8)
        except OSError:
            pass
    return torch.zeros_like(x)
"#;
    let Some(outcome) = check_entry("rubbish_on_every_descriptor", "import os", entry) else { return };
    assert_ne!(outcome.checked.verdict(), "passed", "{}", outcome.checked.describe());
}

impl Outcome {
    #[track_caller]
    fn is_passed(&self) {
        assert_eq!(
            (self.checked.verdict(), self.checked.exit),
            ("passed", Some(0)),
            "{}",
            self.checked.describe()
        );
    }
}
