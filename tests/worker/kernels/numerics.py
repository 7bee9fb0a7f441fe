"""Kernels for the numerics of the interpreter."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

TILE = tl.constexpr(16)


@triton.jit
def arithmetic(a, b, out, n, B: tl.constexpr):
    o = tl.arange(0, B)
    x = tl.load(a + o)
    y = tl.load(b + o)
    tl.store(out + o, x + y)
    tl.store(out + n + o, x * y)
    tl.store(out + 2 * n + o, x - y)
    tl.store(out + 3 * n + o, -x)
    tl.store(out + 4 * n + o, tl.maximum(x, y))
    tl.store(out + 5 * n + o, tl.where(x < y, x, y))
    tl.store(out + 6 * n + o, tl.abs(x))


@triton.jit
def scaled_by_float_argument(a, out, scale, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(out + o, tl.load(a + o) * scale)


@triton.jit
def row_sum(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)), axis=0))


@triton.jit
def row_sum_in_float32(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)).to(tl.float32), axis=0))


@triton.jit
def extremes(x, out, where, M: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + o)
    row = tl.arange(0, M)
    tl.store(out + row, tl.max(v, axis=1))
    tl.store(out + M + row, tl.min(v, axis=1))
    tl.store(where + row, tl.argmax(v, axis=1))
    tl.store(where + M + row, tl.argmin(v, axis=1))


@triton.jit
def running_sum(x, out, N: tl.constexpr, REVERSE: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(out + o, tl.cumsum(tl.load(x + o), axis=0, reverse=REVERSE))


@triton.jit
def _keep_larger(a, b):
    if a > b:
        return a
    else:
        return b


@triton.jit
def _affine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def custom_combinations(x, out, N: tl.constexpr):
    o = tl.arange(0, N)
    v = tl.load(x + o)
    tl.store(out, tl.reduce(v, 0, _keep_larger))
    _, b = tl.associative_scan((v, v), 0, _affine)
    tl.store(out + 1 + o, b)


@triton.jit
def cast(x, out, B: tl.constexpr, ROUND: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(out + o, tl.load(x + o).to(out.dtype.element_ty, fp_downcast_rounding=ROUND))


@triton.jit
def dot(a, b, c, PRECISION: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr):
    row = tl.arange(0, TILE)
    depth = tl.arange(0, K)
    x = tl.load(a + row[:, None] * K + depth[None, :])
    y = tl.load(b + depth[:, None] * TILE + row[None, :])
    product = tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT)  # dot
    tl.store(c + row[:, None] * TILE + row[None, :], product)


@triton.jit
def add_atomically(x, out, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.atomic_add(out + o % 2, tl.load(x + o))


@triton.jit
def libdevice_functions(x, out, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    tl.store(out + o, libdevice.tanh(v))
    tl.store(out + B + o, libdevice.erf(v))
    tl.store(out + 2 * B + o, libdevice.pow(libdevice.abs(v), v))
    tl.store(out + 3 * B + o, libdevice.rsqrt(libdevice.abs(v)))


@triton.jit
def python_logic(x, out, n, B: tl.constexpr):
    o = tl.arange(0, B)
    inside = (o < n) and (o > 2)
    between = 4 < o < 7
    tl.store(out + o, tl.load(x + o), mask=inside)
    tl.store(out + B + o, tl.load(x + o), mask=not inside)
    tl.store(out + 2 * B + o, tl.load(x + o), mask=between or (o == 0))
    tl.store(out + 3 * B + o, max(tl.load(x + o), min(o, 3)))
