"""D09: neighbours are paired by their place in memory, which is right for contiguous tensors only."""
# CASE: mismatch layout=x transposed

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "rotary_embedding"


@triton.jit
def rotate_kernel(x, cos, sin, y, pairs, half, length, BLOCK: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    angle = (pair // half % length) * half + pair % half
    even = tl.load(x + 2 * pair, mask=inside, other=0.0).to(tl.float32)
    odd = tl.load(x + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(cos + angle, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + angle, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + 2 * pair, (even * c - odd * s).to(y.dtype.element_ty), mask=inside)
    tl.store(y + 2 * pair + 1, (even * s + odd * c).to(y.dtype.element_ty), mask=inside)


def kernel_fn(x, cos, sin):
    length, half = cos.shape
    # RIGHT: x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    cos, sin = cos.contiguous(), sin.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    pairs = x.numel() // 2
    if pairs:
        rotate_kernel[(triton.cdiv(pairs, 1024),)](x, cos, sin, y, pairs, half, length, BLOCK=1024)
    return y
