"""References that are not ours: what they return, and whether that can be called right.

They run in a process of their own, on cases derived from the candidate's, and only after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from . import poison
from .channel import Message
from .compare import Truth
from .dtypes import BY_TORCH, by_name
from .reference import Reference, ReferenceFailed

if TYPE_CHECKING:
    from .judge import Case
    from .shared import SharedTensor

# Of the values' root mean square: a reference that is further off in the case's dtype says nothing about it.
_LARGEST_ERROR_OF_RMS = 0.5
# Relative, of float64 sums that are added up in another order.
_REPEATED_ERROR = 1e-9


def inferred_outputs(reference: Reference, inputs: list[Message]) -> list[Message]:
    """Dtypes and shapes that a reference returns, without computing a value. Raises ReferenceFailed."""
    arguments = [_without_values(spec) for spec in inputs]
    try:
        # What it makes itself is on the CPU, as without a GPU.
        with torch.device("cpu"):
            returned = reference.in_dtype(arguments)
    except ReferenceFailed as error:
        raise ReferenceFailed(
            f"{error}(it was called without values, to learn what it returns; say it in the comment, "
            "such as `y=out:f32[M,N]`)"
        ) from error
    names = ["out"] if len(returned) == 1 else [f"out{at}" for at in range(1, len(returned) + 1)]
    return [
        {"name": name, "dtype": _name_of(value.dtype), "shape": list(value.shape)}
        for name, value in zip(names, returned, strict=True)
    ]


def widened(spec: Message) -> Message:
    """The output as float64, when it is a float."""
    return {**spec, "dtype": "float64"} if by_name(spec["dtype"]).is_float else spec


def truths(wide: Case, narrow: Case, again: Case | None, perturbed: list[Case]) -> list[Truth]:
    """What the outputs should hold, from the reference's run in float64 and its run in the case's dtypes.

    `again` is the run in float64 once more, `perturbed` are runs on inputs that are off by one rounding.

    Raises ReferenceFailed when its values cannot decide over a kernel.
    """
    expected, in_dtype = values(wide), values(narrow)
    if again is not None:
        _check_repeated(narrow.outputs, expected, values(again))
    moved = [values(case) for case in perturbed]
    found = []
    for at, (output, truth, rounded) in enumerate(zip(narrow.outputs, expected, in_dtype, strict=True)):
        if output.element.is_float:
            check_rounded(output, truth, rounded)
        found.append(Truth(truth, rounded, tuple(outputs[at] for outputs in moved)))
    return found


def values(case: Case) -> list[torch.Tensor]:
    """What a reference left in its outputs, copied. Raises ReferenceFailed."""
    for item in case.tensors():
        if item.is_changed:
            raise ReferenceFailed(f"the reference changes its input `{item.name}`; it must work on a copy")
    return [_values_of(output) for output in case.outputs]


def _values_of(output: SharedTensor) -> torch.Tensor:
    held = output.view(output.shared).clone()
    unwritten = poison.mask(held.view(output.element.bits), output.element)
    if output.element.poison_is_distinctive and unwritten is not None and bool(unwritten.any()):
        count = int(unwritten.sum())
        raise ReferenceFailed(f"the reference leaves {count} elements of `{output.name}` unwritten")
    return held.to(torch.float64) if output.element.is_float else held.to(torch.int64)


def _check_repeated(
    outputs: list[SharedTensor], first: list[torch.Tensor], second: list[torch.Tensor]
) -> None:
    """Called again on the same inputs it must say the same, but for the order of its sums."""
    for output, one, other in zip(outputs, first, second, strict=True):
        finite = one[one.isfinite()].to(torch.float64)
        size = float(finite.abs().max()) if finite.numel() else 0.0
        if torch.allclose(one, other, rtol=_REPEATED_ERROR, atol=_REPEATED_ERROR * size, equal_nan=True):
            continue
        raise ReferenceFailed(
            f"the reference gives other values for `{output.name}` when it is called again on the same "
            "inputs: it draws random numbers or keeps something from call to call, so it cannot say what is "
            "right"
        )


def check_rounded(output: SharedTensor, truth: torch.Tensor, rounded: torch.Tensor) -> None:
    """Raises ReferenceFailed unless it is, in the case's dtype, a rounding of what it is in float64.

    Both are given in float64.
    """
    name, dtype = output.name, output.element.name
    spoiled = int((rounded.isnan() & ~truth.isnan()).sum())
    if spoiled:
        raise ReferenceFailed(
            f"in {dtype} the reference gives NaN for {spoiled} elements of `{name}` where float64 gives "
            "none: it cannot say what is right in this dtype"
        )
    usable = truth.isfinite() & rounded.isfinite()
    if not bool(usable.any()):
        return
    rms = math.sqrt(float(truth[usable].square().mean()))
    error = float((rounded - truth)[usable].abs().max())
    if error > _LARGEST_ERROR_OF_RMS * rms and error > 0:
        raise ReferenceFailed(
            f"in {dtype} the reference itself is off by {error:.3e} in `{name}`, whose values are "
            f"about {rms:.3e}: it cannot say what is right in this dtype"
        )


def _without_values(spec: Message) -> Any:
    if spec["kind"] == "scalar":
        return spec["value"]
    dtype = by_name(spec["dtype"]).torch
    return torch.empty_strided(spec["shape"], spec["strides"], dtype=dtype, device="meta")


def _name_of(dtype: torch.dtype) -> str:
    element = BY_TORCH.get(dtype)
    if element is None or dtype == torch.float64:
        raise ReferenceFailed(f"the reference returns {dtype}, which is not judged; convert it")
    return element.name
