"""Kernels that touch memory rightly and wrongly."""

import triton
import triton.language as tl


@triton.jit
def unmasked_load(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o)  # unmasked
    tl.store(y + o, v, mask=o < n)


@triton.jit
def masked_copy(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


@triton.jit
def load_before(x, y):
    tl.store(y, tl.load(x - 3))  # before


@triton.jit
def far_load(x, y):
    tl.store(y, tl.load(x + 2**40))  # far


@triton.jit
def atomic_past_the_end(counts, n, B: tl.constexpr):
    tl.atomic_add(counts + tl.arange(0, B), 1)  # atomic-oob


@triton.jit
def through_shapes(x, y, B: tl.constexpr, SHIFT: tl.constexpr):
    grid = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    pointers = tl.reshape(tl.trans(x + grid + SHIFT), (B * B,))
    v = tl.load(pointers)  # shaped
    tl.store(y + tl.arange(0, B * B), v)


@triton.jit
def chosen_pointer(x, z, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    p = tl.where(o < n, x + o, z + o)
    tl.store(y + o, tl.load(p))  # chosen


@triton.jit
def reinterpreted(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    bits = tl.load(x.to(tl.pointer_type(tl.int32)) + o)  # bits
    tl.store(y + o, bits)


@triton.jit
def by_address(table, y, B: tl.constexpr):
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o))  # by-address


@triton.jit
def through_descriptor(x, y, M, N, ROWS, TM: tl.constexpr, TN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [ROWS, N], [N, 1], [TM, TN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [TM, TN])
    row = tl.program_id(0) * TM
    for column in range(0, N, TN):
        target.store([row, column], source.load([row, column]))  # descriptor


@triton.jit
def transpose_without_mask(x, y, M, N, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    column = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + row[:, None] * N + column[None, :])  # transpose-load
    tl.store(y + column[None, :] * M + row[:, None], v)  # transpose-store


@triton.jit
def sum_without_atomics(x, y):
    v = tl.load(y)  # racy-load
    tl.store(y, v + tl.load(x + tl.program_id(0)))  # racy-store


@triton.jit
def sum_with_atomics(x, y):
    tl.atomic_add(y, tl.load(x + tl.program_id(0)))


@triton.jit
def everyone_stores(y, VALUE: tl.constexpr):
    if VALUE is None:
        tl.store(y, tl.program_id(0))  # everyone
    else:
        tl.store(y, VALUE)  # everyone-same


@triton.jit
def shift_in_place(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o + 1, mask=o + 1 < n)
    tl.store(x + o, v, mask=o + 1 < n)  # shift


@triton.jit
def scale_in_place(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)
    tl.store(x + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)


@triton.jit
def zero_then_add(y):
    if tl.program_id(0) == 0:
        tl.store(y, 0.0)
    tl.atomic_add(y, 1.0)  # zero-then-add


@triton.jit
def with_a_lock(x, y, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(y, tl.load(y) + tl.load(x + tl.program_id(0)))
    tl.atomic_xchg(lock, 0)


@triton.jit
def last_program_adds_up(x, partial, counter, y, n: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.load(x + pid) * 2)
    if tl.atomic_add(counter, 1) == n - 1:
        tl.store(y, tl.sum(tl.load(partial + tl.arange(0, n)), axis=0))


@triton.jit
def reads_partials_without_counter(x, partial, y, n: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.load(x + pid) * 2)
    tl.store(y + pid, tl.sum(tl.load(partial + tl.arange(0, n)), axis=0))  # partials


@triton.jit
def waits_for_the_next_program(flags, y):
    pid = tl.program_id(0)
    while tl.atomic_cas(flags + pid + 1, 1, 1) != 1:
        pass
    tl.store(y + pid, 1.0)


@triton.jit
def duplicate_addresses(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o // 2, tl.load(x + o))  # duplicates


@triton.jit
def read_modify_write(y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(y + o, mask=o < n) + 1, mask=o < n)  # read-unset


@triton.jit
def split_sum(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y, tl.sum(tl.load(x + o, mask=o < n, other=0.0), axis=0))  # split


@triton.jit
def row_copy(rows, x, y, C, B: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    o = tl.arange(0, B)
    v = tl.load(x + row * C + o, mask=o < C)  # overflow
    tl.store(y + tl.program_id(0) * B + o, v, mask=o < B)


@triton.jit
def row_copy_in_64_bits(rows, x, y, C, B: tl.constexpr):
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    o = tl.arange(0, B)
    v = tl.load(x + row * C + o, mask=o < C)
    tl.store(y + tl.program_id(0) * B + o, v, mask=o < B)


@triton.jit
def loop_variable_overflows(x, y, n, STEP: tl.constexpr):
    for i in range(n):
        v = tl.load(x + i * STEP, mask=i * STEP >= 0, other=0.0)
        tl.store(y + i, tl.load(x + i * STEP) + v)  # loop-overflow


@triton.jit
def masked_lanes_overflow(x, y, n, B: tl.constexpr):
    o = 2147483000 + tl.arange(0, B) * 64
    inside = (tl.arange(0, B) < n) & (o < n)
    tl.store(y + tl.arange(0, B), tl.load(x + o, mask=inside, other=1.0))


@triton.jit
def hashes(y, B: tl.constexpr):
    o = tl.arange(0, B)
    h = (o + 12345) * 1103515245
    u = (o.to(tl.uint32) + 7) * 2654435769
    tl.store(y + o, h ^ u.to(tl.int32, bitcast=True))
    tl.store(y + B + o, tl.randint(42, o).to(tl.int32))


@triton.jit
def asserts(x, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.device_assert(v >= 0, "values must not be negative")  # device-assert


@triton.jit
def ragged_rows(x, y, starts, lengths, B: tl.constexpr):
    segment = tl.program_id(0)
    length = tl.load(lengths + segment)
    if length == 0:
        return
    start = tl.load(starts + segment)
    o = tl.arange(0, B)
    tl.store(y + segment * B + o, tl.load(x + start + o, mask=o < length, other=0.0))


@triton.jit
def row_norm(x, y, columns, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + row * columns + o, mask=o < columns, other=0.0)
    tl.store(y + row * columns + o, v / tl.sqrt(tl.sum(v * v, axis=0)), mask=o < columns)


@triton.jit
def gemm_without_k_mask(a, b, c, M, N, K, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    column = tl.program_id(1) * B + tl.arange(0, B)
    depth = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        x = tl.load(a + row[:, None] * K + (k + depth)[None, :], mask=row[:, None] < M, other=0.0)  # k-tail
        y = tl.load(b + (k + depth)[:, None] * N + column[None, :], mask=column[None, :] < N, other=0.0)
        total += tl.dot(x, y, input_precision="ieee")
    tl.store(c + row[:, None] * N + column[None, :], total, mask=(row[:, None] < M) & (column[None, :] < N))
