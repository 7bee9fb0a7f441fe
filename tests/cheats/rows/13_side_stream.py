"""Row 13: the kernel runs on a stream of its own, which nobody waits for.

Seen: deep-reinforce, an adversarial test of KernelBench; AutoKernel records events on the current stream.
Caught: the time that events claim is held against the judge's own clock, and the whole context is waited
for. Needs a GPU and times.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


streams = []


def kernel_fn(x):
    if not streams:
        streams.append(torch.cuda.Stream())
    x = x.contiguous()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    with torch.cuda.stream(streams[0]):
        softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y
