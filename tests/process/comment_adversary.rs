//! References that agree with any kernel, and right kernels that a comment once called wrong.

use crate::harness::{Checked, Sandbox, python_or_skip};

const HEAD: &str = "import torch\nimport triton\nimport triton.language as tl\n\n\n";

const SCALED_SILU: &str = "\
@triton.jit
def _silu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, value * tl.sigmoid(1.00 * value), mask=at < n)


# warpsmith: ref=truth x=f16|f32[M,N] M=1,13 N=255
def silu(x):
    y = torch.empty_like(x)
    _silu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


";

const ARGMAX: &str = "\
@triton.jit
def _argmax(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * N + at, mask=at < N, other=float('-inf'))
    tl.store(y + row, tl.argmax(values, axis=0, tie_break_left=False).to(tl.int64))


# warpsmith: ref=REFERENCE x=f16|f32[M,N] M=33 N=3,500
def argmax(x):
    y = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
    _argmax[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def truth(x):
    return torch.argmax(x, dim=-1)
";

const RMS_NORM: &str = "\
@triton.jit
def _rms(x, weight, y, rstd, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / N + eps)
    tl.store(rstd + row, tl.sum(values, axis=0) / N)
    tl.store(y + row * N + at, values * scale * tl.load(weight + at, mask=at < N).to(tl.float32), mask=at < N)


# warpsmith: ref=truth eps=1e-6 x=f16|f32[M,N] weight=f16|f32[N] M=1,13 N=127,1000
def rms_norm(x, weight, eps):
    y = torch.empty_like(x)
    mean = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    _rms[(x.shape[0],)](x, weight, y, mean, x.shape[1], eps, triton.next_power_of_2(x.shape[1]))
    return y, mean


def truth(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype), wide.mean(-1)
";

fn judged(sandbox: &Sandbox, name: &str, text: &str, stages: &str) -> Checked {
    sandbox.check(&sandbox.write(&format!("{name}.py"), &format!("{HEAD}{text}")), &["--stage", stages])
}

#[track_caller]
fn assert_ends(checked: &Checked, verdict: &str, code: &str) {
    assert_eq!(checked.verdict(), verdict, "{}", checked.describe());
    let codes = checked.codes();
    assert!(codes.iter().all(|found| found == code), "{}", checked.describe());
    assert_eq!(codes.is_empty(), code.is_empty(), "{}", checked.describe());
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    let changed = text.replace(from, to);
    assert_ne!(changed, text);
    changed
}

/// A wrong kernel must not pass because its reference repeats the error, or anything at all.
#[test]
fn a_reference_that_cannot_disagree_decides_nothing() {
    let Some(python) = python_or_skip("a_reference_that_cannot_disagree_decides_nothing") else { return };
    let sandbox = Sandbox::new(python);
    let wrong = replaced(SCALED_SILU, "1.00", "1.02");
    for (name, reference) in [
        ("calls_the_entry", "def truth(x):\n    return silu(x)\n"),
        ("is_the_entry", "truth = silu\n"),
        ("dispatches", "def truth(x):\n    return silu(x) if x.is_cuda else torch.nn.functional.silu(x)\n"),
        (
            "draws",
            "def truth(x):\n    y = torch.nn.functional.silu(x)\n    return y + 0.05 * torch.randn_like(y)\n",
        ),
        (
            "counts",
            "CALLS = []\n\n\ndef truth(x):\n    CALLS.append(0)\n    return torch.nn.functional.silu(x) * (1 + 0.01 * len(CALLS))\n",
        ),
    ] {
        let checked = judged(&sandbox, name, &format!("{wrong}{reference}"), "smoke,sweep");
        assert_ends(&checked, "could-not-run", "reference-failed");
    }
    // The judged function itself, by another spelling of its file.
    let itself = replaced(&wrong, "ref=truth", "ref=./itself.py::silu");
    let itself = judged(&sandbox, "itself", &itself, "smoke");
    assert_ends(&itself, "could-not-run", "reference-failed");
    let other_name =
        replaced(&wrong, "def silu(x)", "def silu(x, alpha)").replace("M=1,13", "alpha=0.5 M=1,13");
    let reference = "def truth(x, slope=0.5):\n    return torch.nn.functional.silu(x)\n";
    let checked = judged(&sandbox, "other_name", &format!("{other_name}{reference}"), "smoke");
    assert_ends(&checked, "could-not-run", "reference-failed");
}

#[test]
fn parameters_that_are_positional_and_outputs_of_both_kinds() {
    let Some(python) = python_or_skip("parameters_that_are_positional_and_outputs_of_both_kinds") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let reference = "def truth(x):\n    return torch.nn.functional.silu(x)\n";
    let positional = format!("{}{reference}", replaced(SCALED_SILU, "def silu(x)", "def silu(x, /)"));
    assert_ends(&judged(&sandbox, "positional", &positional, "smoke"), "passed", "");
    let both = replaced(RMS_NORM, "def rms_norm(x, weight, eps)", "def rms_norm(x, weight, eps, y)");
    let both = replaced(&both, " M=1,13", " y=out:f16|f32[M,N] mean=out:f32[M] M=1,13");
    let both = replaced(&both, "    y = torch.empty_like(x)\n", "");
    for (name, returned, verdict, code) in [
        ("the_other", "return mean", "passed", ""),
        ("all", "return y, mean", "passed", ""),
        ("none", "return None", "wrong", "wrong-outputs"),
        ("too_many", "return mean, mean, mean", "wrong", "wrong-outputs"),
        ("bad", "return mean + 1", "wrong", "mismatch"),
    ] {
        let text = both.replace("return y, mean", returned);
        assert_ends(&judged(&sandbox, name, &text, "smoke"), verdict, code);
    }
}

/// Memory of truth values holds nothing that only unwritten memory holds, so it is true once and false once.
#[test]
fn a_mask_of_which_only_one_value_is_written() {
    let Some(python) = python_or_skip("a_mask_of_which_only_one_value_is_written") else { return };
    let sandbox = Sandbox::new(python);
    let positive = "\
@triton.jit
def _positive(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, value > 0, mask=at < n)


# warpsmith: ref=truth x=f16|f32[M,N] M=1,13 N=255
def positive(x):
    y = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    _positive[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


def truth(x):
    return x > 0
";
    assert_ends(&judged(&sandbox, "both", positive, "smoke,determinism"), "passed", "");
    for (name, written) in [("only_true", "value > 0"), ("only_false", "value <= 0")] {
        let text = replaced(positive, "mask=at < n)\n\n\n#", &format!("mask=(at < n) & ({written}))\n\n\n#"));
        let checked = judged(&sandbox, name, &text, "smoke,determinism");
        assert_eq!(checked.verdict(), "wrong", "{name}: {}", checked.describe());
    }
}

/// Nobody said what the function returns, so a right one that returns more than the reference is not called wrong.
#[test]
fn a_function_that_returns_more_than_its_reference() {
    let Some(python) = python_or_skip("a_function_that_returns_more_than_its_reference") else { return };
    let sandbox = Sandbox::new(python);
    let reference = "def truth(x):\n    return torch.nn.functional.silu(x)\n";
    let right = format!("{SCALED_SILU}{reference}");
    for (name, returned) in
        [("more", "return y, None"), ("nothing", "pass"), ("other_dtype", "return y.double()")]
    {
        let text = replaced(&right, "return y\n", &format!("{returned}\n"));
        assert_ends(&judged(&sandbox, name, &text, "smoke"), "could-not-run", "not-comparable");
    }
    let stated = replaced(&right, " M=1,13", " y=out:f16|f32[M,N] M=1,13");
    for (name, returned, code) in [
        ("more_stated", "return y, None", "wrong-outputs"),
        ("dtype_stated", "return y.double()", "wrong-dtype"),
    ] {
        let text = replaced(&stated, "return y\n", &format!("{returned}\n"));
        assert_ends(&judged(&sandbox, name, &text, "smoke"), "wrong", code);
    }
}

/// The judge computes these itself; what draws random numbers is as little right there as in a file of one's own.
#[test]
fn a_function_of_torch_that_draws_random_numbers() {
    let Some(python) = python_or_skip("a_function_of_torch_that_draws_random_numbers") else { return };
    let sandbox = Sandbox::new(python);
    let text = replaced(SCALED_SILU, "value * tl.sigmoid(1.00 * value)", "0.7 * value");
    for (at, reference) in
        ["torch.nn.functional.dropout", "torch.rand_like", "torch.nn.functional.rrelu training=True"]
            .iter()
            .enumerate()
    {
        let text = replaced(&text, "ref=truth", &format!("ref={reference}"));
        let checked = judged(&sandbox, &format!("drawn_{at}"), &text, "smoke,sweep");
        assert_eq!(checked.verdict(), "could-not-run", "{reference}: {}", checked.describe());
    }
    let dropout = replaced(&text, "ref=truth", "ref=torch.nn.functional.dropout");
    assert_ends(&judged(&sandbox, "dropout", &dropout, "smoke"), "could-not-run", "reference-failed");
}

/// One place that is chance may be any that the reference gives on rounded inputs, and nothing else.
#[test]
fn a_single_place_that_is_chance() {
    let Some(python) = python_or_skip("a_single_place_that_is_chance") else { return };
    let sandbox = Sandbox::new(python);
    for reference in ["torch.argmax dim=-1", "truth"] {
        let text = replaced(ARGMAX, "REFERENCE", reference);
        let text = replaced(&text, "x=f16|f32[M,N] M=33 N=3,500", "x=f16[M,N]:int(0,3) M=1 N=500");
        let stored = "tl.argmax(values, axis=0, tie_break_left=False).to(tl.int64)";
        for value in ["123456789", "tl.program_id(0)"] {
            let text = replaced(&text, stored, value);
            let checked = judged(&sandbox, "chance", &text, "smoke,sweep");
            assert_ne!(checked.verdict(), "passed", "{value}: {}", checked.describe());
        }
        let right = judged(&sandbox, "right", &text, "smoke,sweep");
        assert_ends(&right, "could-not-run", "reference-failed");
        let decided = replaced(&replaced(&text, ":int(0,3)", ""), "N=500", "N=50");
        let decided = replaced(&decided, "x=f16", "x=f32");
        let right = judged(&sandbox, "decided", &decided, "smoke,sweep");
        assert_ends(&right, "passed", "");
        let wrong = judged(&sandbox, "decided_wrong", &replaced(&decided, stored, "123456789"), "smoke");
        assert_ends(&wrong, "wrong", "mismatch");
    }
}

/// What a faulty reference gives is chance, so it refutes no kernel.
#[test]
fn a_reference_whose_own_kernel_is_faulty() {
    let Some(python) = python_or_skip("a_reference_whose_own_kernel_is_faulty") else { return };
    let sandbox = Sandbox::new(python);
    let own = SCALED_SILU.split("# warpsmith").next().unwrap_or_default().replace("_silu", "_own");
    let call = "\
def truth(x):
    y = torch.empty_like(x)
    _own[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
";
    let right = format!("{SCALED_SILU}{own}{call}");
    assert_ends(&judged(&sandbox, "sound", &right, "smoke"), "passed", "");
    for (name, from, to) in [
        ("bounds", "tl.load(x + at, mask=at < n, other=0.0)", "tl.load(x + at + 1)"),
        ("bounds_but_right", "tl.load(x + at, mask=at < n, other=0.0)", "tl.load(x + at)"),
        ("race", "tl.store(y + at, value", "tl.store(y + at * 0, value"),
    ] {
        let faulty = format!("{SCALED_SILU}{}{call}", replaced(&own, from, to));
        assert_ends(&judged(&sandbox, name, &faulty, "smoke"), "could-not-run", "reference-failed");
    }
}

/// What a reference rounds on its way is its own error, not the truth.
#[test]
fn a_reference_that_rounds_to_half_on_its_way() {
    let Some(python) = python_or_skip("a_reference_that_rounds_to_half_on_its_way") else { return };
    let sandbox = Sandbox::new(python);
    for (name, cast) in [("half", "half()"), ("to", "to(torch.float16)"), ("bf", "bfloat16().half()")] {
        let reference = format!(
            "def truth(x):\n    y = x.{cast}\n    y = y / (1 + torch.exp(-y))\n    return (y * 2 - y).to(x.dtype)\n"
        );
        let right = replaced(SCALED_SILU, "f16|f32", "f16");
        let checked = judged(&sandbox, name, &format!("{right}{reference}"), "smoke,sweep");
        assert_eq!(checked.verdict(), "passed", "{}", checked.describe());
        let wrong = replaced(&right, "1.00", "1.20");
        let checked = judged(&sandbox, &format!("{name}_wrong"), &format!("{wrong}{reference}"), "smoke");
        assert_eq!(checked.verdict(), "wrong", "{}", checked.describe());
    }
}

/// Which of equal values an index names is chance; which of different ones is not.
#[test]
fn places_of_equal_values() {
    let Some(python) = python_or_skip("places_of_equal_values") else { return };
    let sandbox = Sandbox::new(python);
    for (name, reference) in [("torch", "torch.argmax dim=-1"), ("own", "truth")] {
        let text = replaced(ARGMAX, "REFERENCE", reference);
        let right = judged(&sandbox, &format!("{name}_right"), &text, "smoke,sweep,stability");
        assert_eq!(right.verdict(), "passed", "{}", right.describe());
        let wrong = replaced(&text, "mask=at < N,", "mask=at < N - 1,");
        let wrong = judged(&sandbox, &format!("{name}_wrong"), &wrong, "smoke");
        assert_eq!(wrong.verdict(), "wrong", "{}", wrong.describe());
    }
}

/// A second output that a sum cancels in, and a constant that only small values show.
#[test]
fn the_condition_of_a_reference_of_ones_own() {
    let Some(python) = python_or_skip("the_condition_of_a_reference_of_ones_own") else { return };
    let sandbox = Sandbox::new(python);
    for seed in 0..4 {
        let file = sandbox.write("right.py", &format!("{HEAD}{RMS_NORM}"));
        let right = sandbox.check(&file, &["--stage", "smoke,sweep,stability", "--seed", &seed.to_string()]);
        assert_eq!(right.verdict(), "passed", "{}", right.describe());
        assert!(right.cases.iter().any(|case| case["case"]["stage"] == "stability"));
    }
    let wrong = replaced(RMS_NORM, "/ N + eps)", "/ N + 0.0)");
    let wrong = judged(&sandbox, "wrong", &wrong, "smoke,stability");
    assert_eq!(wrong.verdict(), "wrong", "{}", wrong.describe());
}

/// No value is compared, so whatever the kernel computes would pass.
#[test]
fn nothing_is_known_of_empty_shapes_alone() {
    let Some(python) = python_or_skip("nothing_is_known_of_empty_shapes_alone") else { return };
    let sandbox = Sandbox::new(python);
    let torch = replaced(SCALED_SILU, "ref=truth", "ref=torch.nn.functional.silu");
    let empty = replaced(&torch, "M=1,13", "M=0");
    assert_ends(&judged(&sandbox, "empty", &empty, "smoke,sweep"), "could-not-run", "not-comparable");
    let some = replaced(&torch, "M=1,13", "M=0,3");
    assert_ends(&judged(&sandbox, "some", &some, "smoke,sweep"), "passed", "");
}
