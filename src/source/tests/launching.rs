//! Launch sites and what an import launches.

use super::super::LaunchContext::{self, *};
use super::super::module_level_launches;
use super::{kernel, parse};

const HEAD: &str = "
import torch, triton
from torch.autograd import Function
import functools
@triton.jit
def kernel(x, B: tl.constexpr): pass
@triton.jit
def other(x): pass
";

/// The launches of `kernel` after the head: context, function, text.
fn launches(code: &str) -> Vec<(LaunchContext, String, String)> {
    let text = format!("{HEAD}{code}");
    let model = parse(&text);
    let launches = &kernel(&model, "kernel").launches;
    launches
        .iter()
        .map(|site| (site.context, site.function.clone(), text[site.range.clone()].to_owned()))
        .collect()
}

#[test]
fn launches_are_found_in_every_form() {
    let forms = [
        "kernel[(1,)](x)",
        "kernel[grid](x, B=4)",
        "kernel[lambda META: (triton.cdiv(n, META['B']),)](x)",
        "kernel[\n        grid\n    ](\n        x,\n    )",
        "(kernel)[grid](x)",
        "kernel.run(x, grid=grid)",
        "kernel.warmup(x, grid=grid)",
        "kernel.fn[grid](x)",
        "y = kernel[grid](x).asm",
        "f = kernel; f[grid](x)",
        "f = kernel[grid]; f(x)",
        "f = kernel if x else other; f[grid](x)",
        "f = flag and kernel or other; f[grid](x)",
        "f = functools.partial(kernel[grid], x); f(4)",
        "f = wrap(kernel); f[grid](x)",
        "f, g = kernel, other; f[grid](x)",
        "(f := kernel)[grid](x)",
        "table = {'a': kernel, 'b': other}; table[name][grid](x)",
        "table = {'a': kernel}; table.get(name)[grid](x)",
        "for f in (other, kernel): f[grid](x)",
        "for f in {'a': kernel}.values(): f[grid](x)",
        "[f[grid](x) for f in [kernel]]",
        "torch.cuda.synchronize(); torch.ops.launch(lambda: kernel[grid](x))",
        "a = b; b = a; kernel[grid](x); a[grid](x)",
    ];
    for form in forms {
        let code = format!("def run(x, grid):\n    {form}\n");
        let found = launches(&code);
        assert_eq!(found.len(), 1, "{form}: {found:?}");
        assert!(found[0].1.starts_with("run"), "{form}: {found:?}");
    }
}

#[test]
fn what_only_looks_like_a_launch_is_none() {
    let forms = [
        "kernel(x)",
        "kernel[grid]",
        "other[grid](x)",
        "imported[grid](x)",
        "module.kernel[grid](x)",
        "kernel = x; kernel[grid](x)",
        "y = kernel[grid]; z = y.shape",
        "server.run(x)",
    ];
    for form in forms {
        let code = format!("def run(x, grid, *kernel_args, **options):\n    {form}\n");
        assert_eq!(launches(&code), [], "{form}");
    }
    assert_eq!(launches("def run(kernel, x):\n    kernel[(1,)](x)\n"), [], "a parameter of the same name");
    assert_eq!(launches("@triton.jit\ndef outer(x):\n    kernel[(1,)](x)\n"), [], "inside another kernel");
}

#[test]
fn contexts_are_told_apart() {
    let code = "
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): kernel[(1,)](x)
class Short(Function):
    def backward(ctx, x): kernel[(2,)](x)
class Layer(torch.nn.Module):
    kernel[(3,)](x)
    def __init__(self): self.launcher = kernel
    def forward(self, x):
        def nested(): self.launcher[(4,)](x)
async def plain(x):
    if x: kernel[(5,)](x)
try:
    kernel[(6,)](x)
except Exception: pass
later = lambda: kernel[(7,)](x)
if '__main__' == __name__:
    kernel[(8,)](x)
else:
    kernel[(9,)](x)
";
    let found: Vec<(LaunchContext, String)> =
        launches(code).into_iter().map(|(context, function, _)| (context, function)).collect();
    let expected = [
        (AutogradFunction, "Op.forward"),
        (AutogradFunction, "Short.backward"),
        (ModuleLevel, ""),
        (Method, "Layer.forward.nested"),
        (Function, "plain"),
        (ModuleLevel, ""),
        (Function, "<lambda>"),
        (Main, ""),
        (ModuleLevel, ""),
    ];
    assert_eq!(found, expected.map(|(context, function)| (context, function.to_owned())));
}

#[test]
fn kernels_of_classes_and_factories_are_followed() {
    let text = "
import triton
class Layer:
    @triton.jit
    def own(x): pass
    def forward(self, x):
        self.own[(1,)](x)
        Layer.own[(2,)](x)
def make(n):
    @triton.jit
    def inner(x): pass
    return inner
def run(x):
    make(4)[(1,)](x)
    k = make(8)
    k[(1,)](x)
";
    let model = parse(text);
    assert_eq!(kernel(&model, "Layer.own").launches.len(), 2);
    assert_eq!(kernel(&model, "make.inner").launches.len(), 2);
}

#[test]
fn kernels_passed_to_a_launching_function_are_launched_there() {
    let code = "
def launch(f, grid, *args): f[grid](*args)
def run(x):
    launch(kernel, (1,), x)
    launch(grid=(1,), f=other)
";
    let found = launches(code);
    assert_eq!(found, [(Function, "launch".to_owned(), "f[grid](*args)".to_owned())]);
    let model = parse(&format!("{HEAD}{code}"));
    assert_eq!(kernel(&model, "other").launches.len(), 1);
}

#[test]
fn both_kernels_of_one_name_get_the_launch() {
    let text = "
import triton
if triton.__version__ > '3':
    @triton.jit
    def k(x): pass
else:
    @triton.jit
    def k(x): pass
def run(x): k[(1,)](x)
";
    let model = parse(text);
    assert_eq!(kernel(&model, "k").launches.len(), 1);
    assert_eq!(kernel(&model, "k#2").launches.len(), 1);
}

#[test]
fn what_an_import_launches_is_told() {
    let code = "
def direct(x): kernel[(1,)](x)
def through(x): return direct(x)
def circular(x): circular(x)
def harmless(x): return x
harmless(1); circular(1)
y = through(1)
other[(1,)](y)
if __name__ == '__main__':
    through(2)
";
    let text = format!("{HEAD}{code}");
    let model = parse(&text);
    let found: Vec<(&str, Option<&str>, Vec<&str>)> = module_level_launches(&model)
        .iter()
        .map(|launch| {
            let kernels = launch.kernels.iter().map(|id| id.0.as_str()).collect();
            (&text[launch.range.clone()], launch.through.as_deref(), kernels)
        })
        .collect();
    assert_eq!(
        found,
        [("through(1)", Some("through"), vec!["kernel"]), ("other[(1,)](y)", None, vec!["other"])]
    );
}
