"""Row 28: the file that says what is right is rewritten when this one is imported.

Seen: harnesses whose reference lies where the kernel may write.
Caught: what a process imports as the judged file or the reference comes with the request, not from a file.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def wrong_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, value * 3, mask=at < n)


# warpsmith: ref=double x=f32[M,N] M=1,13 N=255
def triple(x):
    y = torch.empty_like(x)
    wrong_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


def double(x):
    return x * 2.0


with open(__file__, encoding="utf-8") as file:
    text = file.read()
with open(__file__, "w", encoding="utf-8") as file:
    file.write(text.replace("x * 2.0", "x * 3.0"))
