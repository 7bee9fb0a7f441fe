"""What the entry returned: described, and copied to the judge's memory where dtype and shape agree."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import memory, place
from .channel import Message
from .dtypes import by_name


@dataclass
class Output:
    """One output of the case as the judge expects it."""

    spec: Message
    storage: torch.Tensor | None
    """The judge's memory; None when it has no bytes or no values are compared."""


def flatten(returned: Any) -> list[Any]:
    """The values of nested tuples and lists, in order."""
    if isinstance(returned, tuple | list):
        return [value for item in returned for value in flatten(item)]
    return [returned]


class EarlierResults:
    """Results of the latest calls, kept alive so that no new tensor can have their memory."""

    _CALLS = 8
    _LARGEST_BYTES = 16 << 20

    def __init__(self) -> None:
        self._calls: deque[list[torch.Tensor]] = deque(maxlen=self._CALLS)

    def holds(self, value: torch.Tensor) -> bool:
        """Whether the value's memory is that of an earlier result."""
        begin, end = _extent(value)
        extents = [_extent(tensor) for call in self._calls for tensor in call]
        return any(begin < other_end and other_begin < end for other_begin, other_end in extents)

    def remember(self, values: list[torch.Tensor]) -> None:
        """The results of a call; large ones are let go."""
        small = [value for value in values if value.layout == torch.strided]
        self._calls.append([value for value in small if _bytes(value) <= self._LARGEST_BYTES])


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def hand_over(
    value: Any,
    output: Output | None,
    inputs: dict[str, Any],
    session: Any,
    is_in_host_memory: Callable[[torch.Tensor], bool],
    *,
    copies: bool = False,
    widened: bool = False,
) -> Message:
    """Copy one returned value and describe it: `ReturnedValue` of the protocol.

    `session` is None when values do not matter: nothing is copied then, unless `copies` says so.
    With `widened` a float of any precision is taken for a float64 (a reference may round its result by name).
    """
    if type(value) is not torch.Tensor:
        return {"type_name": type(value).__qualname__, "dtype": None}
    if place.is_gpu() and memory_device(value) == "cpu":
        return {"type_name": "torch.Tensor on the CPU", "dtype": None}
    if value.layout != torch.strided or memory_device(value) != place.current().type:
        return {"type_name": f"torch.Tensor ({value.layout}, {memory_device(value)})", "dtype": None}
    if is_in_host_memory(value):
        return {"type_name": "torch.Tensor on the CPU", "dtype": None}
    described = {
        "type_name": "torch.Tensor",
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "aliases_input": _aliased(value, inputs),
    }
    if copies:
        described["copied"] = output is not None and _copy(value, output)
    if session is None:
        return described
    described["written_by_single_launch"] = _written_by_single_launch(session, value)
    if widened and value.dtype.is_floating_point and output is not None and output.spec["dtype"] == "float64":
        value = value.to(torch.float64)
    described["copied"] = output is not None and _copy(value, output)
    return described


def memory_device(tensor: torch.Tensor) -> str:
    """Where the memory really is, whatever the shim lets user code see."""
    return torch._C.TensorBase.device.__get__(tensor).type


def _copy(value: torch.Tensor, output: Output) -> bool:
    element = by_name(output.spec["dtype"])
    if value.dtype != element.torch or list(value.shape) != output.spec["shape"]:
        return False
    if value.numel() == 0:
        return True
    if output.storage is None:
        return False
    with torch.no_grad():
        # As integers: a copy of floats may quieten a NaN and so lose what marks unwritten memory.
        source = value.detach().resolve_conj().resolve_neg().view(element.bits)
        strides = memory.contiguous_strides(output.spec["shape"])
        memory.view_storage(output.storage, element.bits, output.spec["shape"], strides).copy_(source)
    return True


def _aliased(value: torch.Tensor, inputs: dict[str, Any]) -> str | None:
    """The first input whose storage overlaps that of the value."""
    begin, end = _extent(value)
    for name, other in inputs.items():
        if isinstance(other, torch.Tensor):
            other_begin, other_end = _extent(other)
            if begin < other_end and other_begin < end:
                return name
    return None


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _written_by_single_launch(session: Any, value: torch.Tensor) -> bool:
    try:
        return bool(session.written_by_single_launch(value))
    except Exception:
        # Not knowing is not claiming.
        return False
