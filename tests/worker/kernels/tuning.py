"""Autotuned and decorated kernels, and host code that asks for a GPU."""

import triton
import triton.language as tl
import triton.testing


@triton.autotune(
    configs=[triton.Config({"B": 64}), triton.Config({"B": 128}, num_warps=8)], key=["n"], reset_to_zero=["y"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def accumulate(x, y, n, B: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o) if EVEN else tl.load(x + o, mask=o < n, other=0.0)
    tl.atomic_add(y, tl.sum(v, axis=0))


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 32})], key=[], restore_value=["x"])
@triton.jit
def double(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)


class entry:
    """A decorator in the style of operator libraries: keeps the kernel and forwards launches."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.arg_names = kernel.arg_names

    def __getitem__(self, grid):
        return lambda *args, **named: self.kernel.run(*args, grid=grid, warmup=False, **named)


@entry
@triton.jit
def wrapped(x, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(x + o, o, mask=o < n)


def bench(fn):
    return triton.testing.do_bench(fn, quantiles=[0.5, 0.2, 0.8])


def device_facts():
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    return active.get_current_target(), properties


@triton.jit
def grid_stride(x, n, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        o = start + tl.arange(0, B)
        tl.store(x + o, o, mask=o < n)
