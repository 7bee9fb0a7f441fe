use std::path::Path;

use super::infer::{infer, same_inputs};
use crate::oracle::{Head, MissKind, Reference, find_all, find_all_or_head};
use crate::source;

const KERNELS: &str = "\
import torch
import triton
import triton.language as tl

@triton.jit
def unary(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

@triton.jit
def binary(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a_ptrs = a_ptr + at
    total = tl.load(a_ptrs) + tl.load(b_ptr + at)
    tl.store(c_ptr + at, total)

@triton.jit
def gather(x_ptr, rows_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(rows_ptr + tl.program_id(0))
    start = row * n
    tl.store(y_ptr + at, tl.load(x_ptr + start + at, mask=at < n))

";

/// The comment for the first function of `code`, or what is not known.
fn inferred(code: &str) -> String {
    let text = format!("{KERNELS}{code}");
    let model = source::parse(&text);
    let entry = code.split_once("def ").and_then(|(_, rest)| rest.split_once('(')).expect("a function").0;
    match infer(&text, &model, entry) {
        Ok(parsed) => parsed.comment.to_string(),
        Err(unknown) => format!("unknown: {}", unknown.join("; ")),
    }
}

#[test]
fn what_the_code_shows_and_what_it_does_not() {
    let functions = [
        "def rows(x):\n    m, n = x.shape\n    y = torch.empty_like(x)\n    unary[(m,)](x, y, n, BLOCK=64)\n    return y\n",
        "def flat(x):\n    y = torch.empty_like(x)\n    unary[(1,)](x, y, x.numel(), BLOCK=64)\n    return y\n",
        "def last(x):\n    n = x.shape[-1]\n    x2 = x.reshape(-1, n)\n    unary[(1,)](x2, x2, n, BLOCK=64)\n    return x2\n",
        "def three(x):\n    assert x.dim() == 3\n    unary[(1,)](x, x, x.numel(), BLOCK=64)\n",
        "def matmul(a, b):\n    M, K = a.shape\n    K, N = b.shape\n    c = torch.empty((M, N))\n    binary[(M,)](a, b, c, N, BLOCK=64)\n    return c\n",
        "def compared(a, b):\n    assert a.shape[1] == b.shape[0]\n    M, N = a.shape[0], b.shape[1]\n    binary[(M,)](a, b, a, N, BLOCK=64)\n",
        "def half_named(a, b):\n    M, K = a.shape\n    _, N = b.shape\n    binary[(M,)](a, b, a, N, BLOCK=64)\n",
        "def alike(x, y):\n    assert x.shape == y.shape\n    m, n = x.shape\n    z = torch.empty_like(x)\n    binary[(m,)](x, y, z, n, BLOCK=64)\n    return z\n",
        "def weighted(x, weight, eps=1e-6, bias=None):\n    m, n = x.shape\n    y = torch.empty_like(x)\n    binary[(m,)](x, weight, y, n, BLOCK=64)\n    return y\n",
        "def strided(x, weight):\n    m, n = x.shape\n    binary[(m,)](x, weight, x, weight.stride(0), BLOCK=64)\n",
        "def longer(x, w):\n    n = x.shape[0]\n    a, b, c = w.shape[0], w.stride(1), 5\n    binary[(n,)](x, w, x, b, BLOCK=64)\n",
        "def into(x, out):\n    m, n = x.shape\n    unary[(m,)](x, out, n, BLOCK=64)\n",
        "def gathered(x, rows):\n    m, n = x.shape\n    y = torch.empty_like(x)\n    gather[(m,)](x, rows, y, n, BLOCK=64)\n    return y\n",
        "def named_whole(x, cu_seqlens):\n    m, n = x.shape\n    binary[(m,)](x, cu_seqlens, x, n, BLOCK=64)\n",
        "def typed_whole(x, w):\n    assert w.dtype == torch.int32\n    m, n = x.shape\n    binary[(m,)](x, w, x, n, BLOCK=64)\n",
        "def scalar(x, n):\n    unary[(1,)](x, x, n, BLOCK=64)\n",
        "def no_rank(x: torch.Tensor):\n    y = x.contiguous()\n    unary[(1,)](y, y, 5, BLOCK=64)\n",
        "def nothing(n=5):\n    y = torch.empty(n)\n    unary[(1,)](y, y, n, BLOCK=64)\n    return y\n",
        "def reserved(x):\n    block, x_ = x.shape\n    unary[(block,)](x, x, x_, BLOCK=64)\n",
    ];
    let told: Vec<String> = functions
        .iter()
        .map(|code| {
            let signature = code.lines().next().unwrap_or_default();
            format!("{signature}\n    {}", inferred(code))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn the_names_of_axes_do_not_matter() {
    let of = |code: &str| {
        let text = format!("{KERNELS}{code}");
        infer(&text, &source::parse(&text), "f").expect("known")
    };
    let one = of("def f(x):\n    m, n = x.shape\n    unary[(m,)](x, x, n, BLOCK=64)\n");
    let same = of("def f(x):\n    rows = x.shape[0]\n    unary[(rows,)](x, x, x.shape[1], BLOCK=64)\n");
    let other = of("def f(x):\n    unary[(1,)](x, x, x.numel(), BLOCK=64)\n");
    assert!(same_inputs(&one, &same) && !same_inputs(&one, &other));
}

fn function(body: &str, parameters: &str) -> String {
    format!("{KERNELS}def f({parameters}):\n{body}    unary[(1,)](x, x, x.numel(), BLOCK=64)\n    return x\n")
}

/// What the functions of a file are compared with, or why they are not.
fn against(now: &str, before: &str) -> String {
    let head = Head { commit: "a1b2c3d".to_owned(), text: before.to_owned() };
    let model = source::parse(now);
    let described = find_all_or_head(Path::new("/p/k.py"), now, &model, None, Some(&head));
    let told = described.into_iter().map(|one| match one.oracle {
        Ok(oracle) => {
            let inferred = matches!(&oracle.reference, Reference::Head(head) if head.inferred);
            format!("{} · rung {} · inferred: {inferred}", oracle.label.label, oracle.label.rung)
        }
        Err(miss) => miss.to_string(),
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn functions_are_compared_with_their_own_version() {
    let plain = function("", "x");
    let given = |text: &str| text.replace("def f(", "# warpsmith: x=f32[N] N=5\ndef f(");
    let told = [
        against(&plain, &plain),
        against(&given(&plain), &plain),
        against(&given(&plain).replace(" N=5", ""), &plain),
        against(&plain, KERNELS),
        against(&given(&plain), KERNELS),
        against(&function("", "x, eps=0.5"), &plain),
        against(&given(&function("", "x, w")).replace("N=5", "w=f32[N] N=5"), &plain),
        against(&function("    assert x.dim() == 2\n", "x"), &plain),
        against(&function("", "x, size"), &function("", "x, size")),
        against(&plain.replace("def f(", "class C:\n  def f(").replace("    ", "      "), &plain),
        against(&plain.replace("def f(", "# warpsmith: ref=torch.abs x=f32[N] N=5\ndef f("), &plain),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn without_a_version_at_head_it_is_told_why() {
    let text = function("", "x");
    let miss = |text: &str| {
        let described = find_all(Path::new("/p/k.py"), text, &source::parse(text), None);
        assert!(described[0].asks_for_head());
        described[0].oracle.clone().expect_err("nothing is known")
    };
    let given = text.replace("def f(", "# warpsmith: x=f32[N] N=5\ndef f(");
    let told = [
        miss(&text).without_head("the file is in no git repository".to_owned()).to_string(),
        miss(&given).without_head("the file is in no git repository".to_owned()).to_string(),
        miss(&text).unchanged("a1b2c3d").to_string(),
    ];
    insta::assert_snapshot!(told.join("\n"));
    let known = text.replace("def f(", "# warpsmith: ref=torch.abs x=f32[N]\ndef f(");
    let described = find_all(Path::new("/p/k.py"), &known, &source::parse(&known), None);
    assert!(matches!(&described[0].oracle, Err(miss) if matches!(miss.kind, MissKind::Comment(_))));
    assert!(!described[0].asks_for_head(), "a comment that cannot be used is to be mended");
}
