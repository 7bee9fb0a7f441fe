"""Which functions of PyTorch's libraries the entry calls: products, attention, norms, softmax, losses.

What the modes see that run around a call is noted by its plain name, whichever way it was reached:
`softmax` for `torch.softmax`, `x.softmax`, `torch.nn.functional.softmax` and `torch.ops.aten._softmax`. It is
a claim, as everything is that a candidate's process says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMES = frozenset(
    {
        *("matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "linear", "bilinear", "einsum", "tensordot"),
        *("mv", "addmv", "dot", "vdot", "inner", "scaled_mm", "grouped_mm", "chain_matmul", "multi_dot"),
        *(
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
            "convolution",
        ),
        *("scaled_dot_product_attention", "multi_head_attention_forward"),
        *("softmax", "log_softmax", "softmin", "logsumexp"),
        *("layer_norm", "native_layer_norm", "rms_norm", "fused_rms_norm", "group_norm", "native_group_norm"),
        *("batch_norm", "native_batch_norm", "instance_norm"),
        *("cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd"),
    }
)
_SYNONYMS = {"rmatmul": "matmul", "safe_softmax": "softmax", "nll_loss_forward": "nll_loss"}

_called: dict[str, None] = {}


def forget() -> None:
    """A call begins."""
    _called.clear()


def note(function: Callable[..., Any]) -> None:
    """A function of PyTorch is called."""
    name = plain_name(function)
    if name in NAMES:
        _called[name] = None


def called() -> list[str]:
    """What was noted since, each once."""
    return list(_called)


def plain_name(function: Callable[..., Any]) -> str:
    """Without underscores around it or the overload behind it."""
    name = str(getattr(function, "__name__", "")).partition(".")[0].strip("_")
    name = name.removeprefix("special_").removeprefix("linalg_")
    if name.startswith("scaled_dot_product_"):
        return "scaled_dot_product_attention"
    return _SYNONYMS.get(name, name)
