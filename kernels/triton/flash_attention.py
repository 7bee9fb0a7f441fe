"""Attention without its matrix of scores: softmax(Q @ K.T * sm_scale) @ V for each head.

Algorithm: a program owns a tile of queries and walks over tiles of keys and values with a running maximum, a
running sum and an accumulator, both rescaled when the maximum grows (online softmax, as in FlashAttention).
Scores are kept in base 2, so that the exponential is one instruction. Only tiles of keys on the diagonal of a
causal mask or at the end of the sequence are masked, and those ahead of a causal mask are never read.
Programs start with the last queries of all sequences, which have the most to do, so that none of those is
left running alone at the end. Probabilities are rounded to the dtype of V for the second product; everything
else is float32.

Must move: 4 * batch * heads * seq * head_dim * itemsize bytes (keys and values are read again by each tile
of queries, from L2), and compute 4 * batch * heads * seq**2 * head_dim flops, half of it when causal. The
tensor cores are the limit, then the exponentials. float32 is multiplied as IEEE float32, not TF32.

Why this shape: the scores, seq**2 for each head, never leave the chip. One kernel for any strides, lengths
and head sizes up to 256; sequence and head are independent programs. 64-bit offsets.

Measured on an H200 (fp16, causal, medians of do_bench, 2026-12-01): 36.5 µs for 2 x 32 heads, 1024 positions
of 64 elements (n = 591), 31 % of the 762 TFLOP/s of a large product there; 101.5 µs for 2048 positions (n =
295), 44 %; 91.3 µs for 32 heads, 2048 positions of 128 elements (n = 374), 49 %. PyTorch's own took 37.4,
108.3 and 88.2 µs. With the product of score and scale fused into the subtraction it is 4 % faster with heads
of 64, and wrong for large scores.
"""

import math

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "flash_attention"

_LONGEST_HEAD = 256
# By the longest head: queries and keys of a tile, warps, stages of the pipeline, most registers of a thread.
# Small tiles: a multiprocessor holds four programs, two with heads of 128, and one multiplies while another
# takes exponentials.
_TILES = {64: (64, 64, 4, 3, None), 128: (64, 64, 4, 3, None), 256: (64, 64, 8, 2, None)}
# IEEE float32 products run outside the tensor cores and need more registers.
_TILES_OF_FLOAT32 = {64: (64, 32, 4, 2, None), 256: (32, 16, 4, 2, None)}
# Below every finite float32: a maximum of nothing from which -inf can still be subtracted.
_LOWEST = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def _step(
    q,
    k_tile,
    v_tile,
    start,
    row,
    key,
    inside_head,
    positions,
    scale_log2,
    largest,
    total,
    output,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    WHOLE_HEAD: tl.constexpr,
):
    """Adds one tile of keys and values to the running softmax of a tile of queries."""
    position = start + key
    inside = position < positions
    if MASKED:
        k = tl.load(k_tile, mask=inside_head[:, None] & inside[None, :], other=0.0)
        v = tl.load(v_tile, mask=inside[:, None] & inside_head[None, :], other=0.0)
    elif WHOLE_HEAD:
        k = tl.load(k_tile)
        v = tl.load(v_tile)
    else:
        k = tl.load(k_tile, mask=inside_head[:, None], other=0.0)
        v = tl.load(v_tile, mask=inside_head[None, :], other=0.0)
    scores = tl.dot(q, k, input_precision="ieee")
    if MASKED:
        allowed = inside[None, :]
        if CAUSAL:
            allowed = allowed & (position[None, :] <= row[:, None])
        # After the scale, which may be zero.
        scores = tl.where(allowed, scores * scale_log2, float("-inf"))
        grown = tl.maximum(largest, tl.max(scores, axis=1))
    else:
        grown = tl.maximum(largest, tl.max(scores, axis=1) * scale_log2)
        scores = scores * scale_log2
    weights = tl.exp2(scores - grown[:, None])
    fading = tl.exp2(largest - grown)
    total = total * fading + tl.sum(weights, axis=1)
    output = tl.dot(weights.to(v.dtype), v, output * fading[:, None], input_precision="ieee")
    return grown, total, output


@triton.jit
def _attention_tile(
    Q,
    K,
    V,
    y,
    heads,
    positions,
    head_dim,
    scale_log2,
    q_batch_stride,
    q_head_stride,
    q_position_stride,
    q_element_stride,
    k_batch_stride,
    k_head_stride,
    k_position_stride,
    k_element_stride,
    v_batch_stride,
    v_head_stride,
    v_position_stride,
    v_element_stride,
    CAUSAL: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    ELEMENTS: tl.constexpr,
    WHOLE_HEAD: tl.constexpr,
    NEGATED: tl.constexpr,
):
    program = tl.program_id(0)
    tiles = tl.cdiv(positions, QUERIES)
    sequences = tl.num_programs(0) // tiles
    first = (tiles - 1 - program // sequences) * QUERIES
    head = (program % sequences % heads).to(tl.int64)
    batch = (program % sequences // heads).to(tl.int64)

    # Positions are 32 bits, which spares registers; where they become offsets they are widened.
    row = first + tl.arange(0, QUERIES)
    key = tl.arange(0, KEYS)
    element = tl.arange(0, ELEMENTS).to(tl.int64)
    inside_head = element < head_dim
    inside_tile = (row[:, None] < positions) & inside_head[None, :]
    q_base = Q + batch * q_batch_stride + head * q_head_stride
    q_tile = q_base + row[:, None].to(tl.int64) * q_position_stride + element[None, :] * q_element_stride
    k_base = K + batch * k_batch_stride + head * k_head_stride
    v_base = V + batch * v_batch_stride + head * v_head_stride
    # Only one base moves with the tile of keys: offsets within a tile are computed once.
    wide_key = key.to(tl.int64)
    k_step = tl.full((), KEYS, tl.int64) * k_position_stride
    v_step = tl.full((), KEYS, tl.int64) * v_position_stride
    k_within = wide_key[None, :] * k_position_stride + element[:, None] * k_element_stride
    v_within = wide_key[:, None] * v_position_stride + element[None, :] * v_element_stride

    q = tl.load(q_tile, mask=inside_tile, other=0.0)
    # A negative scale turns the order of the scores around; -q with its opposite gives the same, exactly.
    if NEGATED:
        q = -q
    largest = tl.full((QUERIES,), _LOWEST, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    output = tl.zeros((QUERIES, ELEMENTS), tl.float32)
    # Keys before the diagonal tiles are seen by all queries of this tile; only the last tile may end within.
    unmasked = first // KEYS * KEYS if CAUSAL else positions // KEYS * KEYS
    last = tl.minimum(first + QUERIES, positions) if CAUSAL else positions
    for start in range(0, unmasked, KEYS):
        largest, total, output = _step(
            q,
            k_base + k_within,
            v_base + v_within,
            start,
            row,
            key,
            inside_head,
            positions,
            scale_log2,
            largest,
            total,
            output,
            CAUSAL=CAUSAL,
            MASKED=False,
            WHOLE_HEAD=WHOLE_HEAD,
        )
        k_base += k_step
        v_base += v_step
    for start in range(unmasked, last, KEYS):
        largest, total, output = _step(
            q,
            k_base + k_within,
            v_base + v_within,
            start,
            row,
            key,
            inside_head,
            positions,
            scale_log2,
            largest,
            total,
            output,
            CAUSAL=CAUSAL,
            MASKED=True,
            WHOLE_HEAD=WHOLE_HEAD,
        )
        k_base += k_step
        v_base += v_step

    result = output / total[:, None]
    where = y + ((batch * heads + head) * positions + row[:, None]) * head_dim + element[None, :]
    tl.store(where, result.to(y.dtype.element_ty), mask=inside_tile)


def _tile(elements: int, dtype: torch.dtype) -> tuple[int, int, int, int, int | None]:
    """Queries and keys of a tile, warps, stages and most registers, for a head of so many elements."""
    tiles = _TILES_OF_FLOAT32 if dtype == torch.float32 else _TILES
    return next(tile for longest, tile in tiles.items() if elements <= longest)


def kernel_fn(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    causal: bool = True,
    sm_scale: float | None = None,
) -> torch.Tensor:
    """Attention of Q, K, V[batch, heads, seq, head_dim], head_dim up to 256; any strides, one dtype (float32,
    float16 or bfloat16). The scale of the scores is head_dim ** -0.5 unless given."""
    batch, heads, positions, head_dim = Q.shape
    if head_dim > _LONGEST_HEAD:
        raise ValueError(f"a head has {head_dim} elements; at most {_LONGEST_HEAD} fit")
    y = torch.empty(Q.shape, dtype=Q.dtype, device=Q.device)
    if y.numel() == 0:
        return y
    scale = head_dim**-0.5 if sm_scale is None else sm_scale
    elements = max(16, triton.next_power_of_2(head_dim))
    queries, keys, num_warps, num_stages, registers = _tile(elements, Q.dtype)
    _attention_tile[(batch * heads * triton.cdiv(positions, queries),)](
        Q,
        K,
        V,
        y,
        heads,
        positions,
        head_dim,
        abs(scale) * math.log2(math.e),
        *Q.stride(),
        *K.stride(),
        *V.stride(),
        CAUSAL=causal,
        QUERIES=queries,
        KEYS=keys,
        ELEMENTS=elements,
        WHOLE_HEAD=elements == head_dim,
        NEGATED=scale < 0,
        num_warps=num_warps,
        num_stages=num_stages,
        maxnreg=registers,
        # Fused with its subtraction, the product of a score and the scale is not rounded as in the maximum:
        # of scores around 1e30 what is left above it overflows in the exponential.
        enable_fp_fusion=False,
    )
    return y
