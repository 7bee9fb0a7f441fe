"""A matrix product with bias and relu in one kernel."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _linear_relu(x, w, b, y, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        left_inside = (m < rows)[:, None] & (k < inner)[None, :]
        left = tl.load(x + m[:, None] * inner + k[None, :], mask=left_inside, other=0.0)
        right_inside = (k < inner)[:, None] & (n < cols)[None, :]
        right = tl.load(w + n[None, :] * inner + k[:, None], mask=right_inside, other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    total += tl.load(b + n, mask=n < cols, other=0.0)[None, :]
    inside = (m < rows)[:, None] & (n < cols)[None, :]
    tl.store(y + m[:, None] * cols + n[None, :], tl.maximum(total, 0.0), mask=inside)


# warpsmith: ref=./linear_model.py::Model batch_size=33 in_features=40,100 out_features=70
class ModelNew(nn.Module):
    """relu(x W^T + b)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One row for each of `x`."""
        weight, bias = self.linear.weight, self.linear.bias
        (rows, inner), cols = x.shape, weight.shape[0]
        y = x.new_empty(rows, cols)
        grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 32))
        _linear_relu[grid](x, weight, bias, y, rows, cols, inner, BM=32, BN=32, BK=32)
        return y


def get_inputs() -> list[torch.Tensor]:
    """Inputs on which every kernel is right; nobody may ask for them."""
    return [torch.zeros(1, 1)]


def get_init_inputs() -> list[int]:
    """The same of the constructor."""
    return [1, 1]
