"""Row 6: a CUDA graph is recorded with the inputs of the first call, and replayed for all others.

Seen: KernelGuard (PARTIAL_GRAPH_KEY, SEQUENCE_BATCH_GRAPH).
Caught: other values, also in the same memory; outputs are compared after replays. Needs a GPU: the
interpreter has no graphs.
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


graphs = {}


def record(x):
    kept, y = x.clone(), torch.empty_like(x)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](kept, y, kept.stride(0), x.shape[1], BLOCK=block)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        softmax_kernel[(x.shape[0],)](kept, y, kept.stride(0), x.shape[1], BLOCK=block)
    return graph, y, kept


def kernel_fn(x):
    x = x.contiguous()
    key = x.shape, x.dtype
    if key not in graphs:
        graphs[key] = record(x)
    graph, y, _ = graphs[key]
    graph.replay()
    return y.clone()
