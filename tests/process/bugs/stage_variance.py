"""The variance as the mean of squares minus the square of the mean: nothing is left of it far from zero."""

# STAGE: stability mismatch
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "layernorm"


@triton.jit
def layernorm_kernel(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    # RIGHT: variance = tl.sum(centred * centred, axis=0) / columns
    variance = tl.sum(values * values, axis=0) / columns - mean * mean
    factor = tl.load(weight + offsets, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + offsets, mask=inside, other=0.0).to(tl.float32)
    result = centred * tl.rsqrt(variance + eps) * factor + shift
    tl.store(y + row * columns + offsets, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x, weight, bias, eps=1e-5):
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(max(columns, 1))
    layernorm_kernel[(rows,)](x, weight, bias, y, columns, eps, BLOCK=block)
    return y
