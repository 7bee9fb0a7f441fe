//! Which functions are kernels, and what is known of them.

use super::{ids, kernel, parse};

#[test]
fn every_spelling_of_the_decorator_is_known() {
    let spellings = [
        ("import triton", "@triton.jit"),
        ("import triton", "@triton.jit()"),
        ("import triton", "@triton.jit(do_not_specialize=['n'], debug=True)"),
        ("import triton as tr", "@tr.jit"),
        ("from triton import jit", "@jit"),
        ("from triton import jit as compile_it", "@compile_it"),
        ("from triton import *", "@jit"),
        ("import triton.language as tl\nimport triton", "@triton.jit"),
        ("from triton.runtime.jit import jit", "@jit"),
        ("from ._compat import triton", "@triton.jit"),
        ("try:\n    import triton\nexcept ImportError:\n    triton = None", "@triton.jit"),
        ("import triton\njit = triton.jit", "@jit"),
        ("import triton\nfast = triton.jit if True else None", "@fast"),
        ("import functools, triton", "@functools.partial(triton.jit, debug=True)"),
        ("import triton", "@some.wrapper(4)\n@triton.jit"),
        ("import triton", "@triton.jit\n@inner"),
        ("# the import is above the fold", "@triton.jit"),
    ];
    for (imports, decorator) in spellings {
        let text = format!("{imports}\n\n{decorator}\ndef kernel(x):\n    pass\n");
        assert_eq!(ids(&parse(&text)), ["kernel"], "{text}");
    }
}

#[test]
fn other_decorators_make_no_kernel() {
    let spellings = [
        ("from numba import jit", "@jit"),
        ("import torch", "@torch.jit.script"),
        ("def jit(f): return f", "@jit"),
        ("import triton", "@triton.autotune(configs=[], key=[])"),
        ("import jax", "@jax.jit"),
        ("import mytriton", "@mytriton.jit"),
    ];
    for (imports, decorator) in spellings {
        let text = format!("{imports}\n\n{decorator}\ndef kernel(x):\n    pass\n");
        assert_eq!(ids(&parse(&text)), [] as [&str; 0], "{text}");
    }
}

#[test]
fn functions_made_kernels_by_a_call_are_found() {
    let text = "
import triton
def plain(x): pass
def tuned(x): pass
def untouched(x): pass
first = triton.jit(plain)
second = triton.autotune(configs=[], key=[])(triton.jit(tuned))
def run(x):
    first[(1,)](x)
    second[(1,)](x)
";
    let model = parse(text);
    assert_eq!(ids(&model), ["plain", "tuned"]);
    assert_eq!(kernel(&model, "plain").launches.len(), 1);
    assert_eq!(kernel(&model, "tuned").launches.len(), 1);
    assert!(kernel(&model, "tuned").autotuned && !kernel(&model, "plain").autotuned);
}

#[test]
fn stacked_decorators_are_read() {
    let text = "
import triton
from flag_gems.utils import libentry
@libentry()
@triton.autotune(configs=[triton.Config({'B': 1})], key=['n'])
@registry.register('add')
@triton.heuristics({'EVEN': lambda args: args['n'] % args['B'] == 0})
@triton.jit(noinline=True)
def kernel(x, n, B: tl.constexpr, EVEN: 'tl.constexpr' = True, *rest, M: int, **options):
    pass
";
    let model = parse(text);
    let kernel = kernel(&model, "kernel");
    assert!(kernel.autotuned && kernel.heuristics);
    assert_eq!(kernel.other_decorators, ["libentry", "registry.register"]);
    assert!(text[kernel.range.clone()].starts_with("@libentry()"));
    assert!(text[kernel.range.clone()].ends_with("pass"));
    assert_eq!(&text[kernel.name_range.clone()], "kernel");
    let parameters: Vec<(&str, bool, bool)> =
        kernel.parameters.iter().map(|p| (p.name.as_str(), p.constexpr, p.has_default)).collect();
    assert_eq!(
        parameters,
        [
            ("x", false, false),
            ("n", false, false),
            ("B", true, false),
            ("EVEN", true, true),
            ("*rest", false, false),
            ("M", false, false),
            ("**options", false, false),
        ]
    );
}

#[test]
fn kernels_are_found_wherever_they_stand_and_named_by_it() {
    let text = "
import triton
class Outer:
    @staticmethod
    @triton.jit
    def kernel(x): pass
    def method(self):
        @triton.jit
        def kernel(x): pass
        async def later():
            @triton.jit
            def kernel(x): pass
if True:
    @triton.jit
    def kernel(x): pass
else:
    @triton.jit
    def kernel(x): pass
@triton.jit
async def odd(x): pass
";
    let model = parse(text);
    assert_eq!(
        ids(&model),
        ["Outer.kernel", "Outer.method.kernel", "Outer.method.later.kernel", "kernel", "kernel#2", "odd"]
    );
    for known in &model.kernels {
        assert_eq!(known.id.bare_name(), known.name, "what a launch of {:?} is called", known.id);
    }
    assert_eq!(kernel(&model, "Outer.kernel").other_decorators, ["staticmethod"]);
}

#[test]
fn helpers_are_told_from_kernels() {
    let text = "
import triton, triton.language as tl
@triton.jit
def add(a, b): return a + b
@triton.jit
def inner(x): return tl.reduce(x, 0, add)
@triton.jit
def unused(x): return x
@triton.jit
def kernel(x, add_more=None):
    y = inner(x)
    tl.store(x, helper.add(y, add=1))
def run(x):
    kernel[(1,)](x)
";
    let model = parse(text);
    assert_eq!(
        kernel(&model, "kernel").helpers.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(),
        ["inner"]
    );
    assert_eq!(kernel(&model, "inner").helpers.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(), ["add"]);
    assert!(kernel(&model, "unused").helpers.is_empty());
    let launched: Vec<&str> = model
        .kernels
        .iter()
        .filter(|kernel| kernel.is_launched())
        .map(|kernel| kernel.name.as_str())
        .collect();
    assert_eq!(launched, ["kernel"]);
}

#[test]
fn constants_functions_and_bindings_of_the_module() {
    let text = "\u{feff}\"\"\"Docstring.\"\"\"
import os.path as path, torch
from x import (y as z, w)
KERNEL_TYPE = 'softmax'
RAW = r'a\\n'
JOINED = ('a' \"b\\n\\x41\")
ANNOTATED: str = u'é'
F = f'a{KERNEL_TYPE}'
B = b'a'
OCTAL = '\\101'
CALL = str('a')
A = C = 'chained'
class Model: INSIDE = 'no'
def kernel_fn(x, eps=1e-6, *args, causal: bool = True, **kwargs): LOCAL = 'no'
async def later(a, /, b, *, c): pass
if path:
    def conditional(x): pass
if __name__ == '__main__':
    MAIN = 'no'
    def main_only(): pass
";
    let model = parse(text);
    let constants: Vec<(&str, &str)> =
        model.string_constants.iter().map(|c| (c.name.as_str(), c.value.as_str())).collect();
    assert_eq!(
        constants,
        [
            ("KERNEL_TYPE", "softmax"),
            ("RAW", "a\\n"),
            ("JOINED", "ab\nA"),
            ("ANNOTATED", "é"),
            ("C", "chained")
        ]
    );
    assert_eq!(&text[model.string_constants[0].range.clone()], "'softmax'");
    let functions: Vec<(&str, String)> =
        model.functions.iter().map(|f| (f.name.as_str(), f.parameters.join(" "))).collect();
    assert_eq!(
        functions,
        [
            ("kernel_fn", "x eps *args causal **kwargs".to_owned()),
            ("later", "a b c".to_owned()),
            ("conditional", "x".to_owned())
        ]
    );
    let bindings: Vec<&str> = model.bindings.iter().map(|binding| binding.name.as_str()).collect();
    assert_eq!(
        bindings,
        [
            "path",
            "torch",
            "z",
            "w",
            "KERNEL_TYPE",
            "RAW",
            "JOINED",
            "ANNOTATED",
            "F",
            "B",
            "OCTAL",
            "CALL",
            "A",
            "C",
            "Model"
        ]
    );
    assert_eq!(model.first_error, None);
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let text = "\
from __future__ import annotations
import torch, os.path as path
import triton.language as tl
from .helpers import tile
from .. import shapes
def later():
    from mine.deep import thing
    if True:
        import other
";
    assert_eq!(parse(text).imports, [".", "mine", "os", "other", "torch", "triton"]);
    assert!(parse("x = 'import nothing'\n").imports.is_empty());
}
