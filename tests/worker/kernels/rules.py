"""Kernels that Triton's compiler or launcher refuses."""

import triton
import triton.language as tl

UNROLL: tl.constexpr = 4
PLAIN = 3
RIGHT = tl.constexpr(5)


@triton.jit
def row_sum(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)  # arange
    tl.store(y, tl.sum(tl.load(x + o, mask=o < n, other=0.0), axis=0))


@triton.jit
def undefined_name(x):
    tl.store(x, missing)  # noqa: F821  # undefined


@triton.jit
def inner_dimensions(a):
    x = tl.zeros((16, 32), tl.float32)
    y = tl.zeros((16, 16), tl.float32)
    tl.store(a, tl.sum(tl.dot(x, y)))  # k-mismatch


@triton.jit
def incompatible_shapes(a):
    tl.store(a, tl.sum(tl.zeros((16,), tl.float32) + tl.zeros((32,), tl.float32)))  # shapes


@triton.jit
def annotated_global(x):
    for i in tl.static_range(UNROLL):  # annotated
        tl.store(x + i, 1.0)


@triton.jit
def plain_global(x):
    tl.store(x, PLAIN)  # plain


@triton.jit
def constexpr_global(x):
    tl.store(x, RIGHT)


def python_function(v):
    return v + 1


@triton.jit
def calls_python(x):
    tl.store(x, python_function(tl.load(x)))  # python-function


@triton.jit
def python_builtin(x):
    tl.store(x, round(2.5))  # builtin


@triton.jit
def _helper(x, n: tl.constexpr):
    return tl.load(x + tl.arange(0, n))  # helper


@triton.jit
def _middle(x, n: tl.constexpr):
    return _helper(x, n) * 2  # middle


@triton.jit
def calls_helper(x, y):
    tl.store(y, tl.sum(_middle(x, 12), axis=0))  # outer


@triton.jit
def asserts_statically(x, B: tl.constexpr):
    tl.static_assert(B >= 32, "B is too small")  # static-assert
    tl.store(x, 1.0)


@triton.jit
def breaks(x, n):
    for i in range(n):
        if i == 3:  # break
            break
        tl.store(x + i, 1.0)


@triton.jit
def returns_in_loop(x, n):
    for i in range(n):
        if tl.load(x + i) > 0:  # return
            return
    tl.store(x, 1.0)


@triton.jit
def changes_type_in_loop(x, n):
    total = 0
    for i in range(n):  # carried
        total += tl.load(x + i)
    tl.store(x, total)


@triton.jit
def changes_shape_in_loop(x, n):
    total = tl.zeros((1,), tl.float32)
    for i in range(n):  # carried-shape
        total = total + tl.load(x + tl.arange(0, 4))
    tl.store(x + tl.arange(0, 4), total)


@triton.jit
def changes_type_in_branch(x, n):
    v = 0.0
    if tl.program_id(0) == 0:  # branch-type
        v = n
    tl.store(x, v)


@triton.jit
def forgets_loop_names(x, n):
    for i in range(n):
        v = tl.load(x + i)
    tl.store(x, v + 1.0)  # forgotten


@triton.jit
def large_block(x):
    tl.store(x, tl.sum(tl.zeros((2048, 1024), tl.float32)))  # large


@triton.jit
def odd_block(x):
    tl.store(x, tl.sum(tl.zeros((24,), tl.float32)))  # odd


@triton.jit
def thin_dot(x):
    a = tl.zeros((16, 4), tl.float16)
    b = tl.zeros((4, 16), tl.float16)
    tl.store(x, tl.sum(tl.dot(a, b)))  # thin


@triton.jit
def vector_dot(x):
    a = tl.zeros((16,), tl.float16)
    tl.store(x, tl.sum(tl.dot(a, a)))  # vector


@triton.jit
def ambiguous(x):
    if tl.load(x + tl.arange(0, 4)) > 0:  # ambiguous
        tl.store(x, 1.0)


@triton.jit
def one_is_constant(x, n):
    tl.store(x, n.to(tl.float32))  # one


@triton.jit
def stores_to_subscript(x):
    v = tl.zeros((4,), tl.float32)
    v[0] = 1.0  # subscript
    tl.store(x + tl.arange(0, 4), v)


@triton.jit
def assembly(x, y):
    v = tl.inline_asm_elementwise(  # assembly
        "mov.b32 $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(y, v)


@triton.jit
def fill(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, 1.0, mask=o < n)


def make_kernel(width):
    BLOCK = tl.constexpr(width)

    @triton.jit
    def fill_block(x):
        tl.store(x + tl.arange(0, BLOCK), 2.0)

    return fill_block
