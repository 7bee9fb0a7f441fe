"""Runs a Definition's reference: in float64 (the truth) and in the case's dtypes (what rounding costs)."""

import linecache
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import place
from .cuda_errors import is_broken_context
from .dtypes import ElementType
from .widening import in_float64

_LONGEST_TRACEBACK = 4096


class ReferenceFailed(Exception):
    """The reference does not compile, raised, or returned something else than its Definition says."""


class Reference:
    """A compiled reference."""

    def __init__(
        self, definition: str, source: str, source_float64: str | None, *, is_named: bool = False
    ) -> None:
        """Raises whatever the source raises while it is compiled or executed.

        `is_named`: a user named it, so nobody has looked at how it rounds.
        """
        self.definition = definition
        self.is_named = is_named
        self._run = _compile(definition, source)
        self._run_float64 = None
        if source_float64 is not None:
            self._run_float64 = _compile(f"{definition} (float64)", source_float64)

    def in_dtype(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Outputs on the inputs as they are. Raises ReferenceFailed."""
        return self._call(self._run, [_copy(value) for value in inputs])

    def in_float64(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Outputs on inputs widened to float64, all arithmetic in float64. Raises ReferenceFailed."""
        widened = [_widen(value) for value in inputs]
        if self._run_float64 is not None:
            return self._call(self._run_float64, widened)
        with in_float64():
            return self._call(self._run, widened)

    def _call(self, run: Callable[..., Any], inputs: list[Any]) -> list[torch.Tensor]:
        before = place.generator_state()
        try:
            with torch.no_grad():
                returned = run(*inputs)
        except MemoryError:
            raise
        except Exception as error:
            if place.lacks_memory(error):
                raise MemoryError(str(error)) from error
            if is_broken_context(error):
                raise
            told = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
            raise ReferenceFailed(f"the reference of {self.definition} raised:\n{told}") from error
        if not torch.equal(before, place.generator_state()):
            raise ReferenceFailed(
                f"the reference of {self.definition} draws random numbers (dropout does), so it cannot say "
                "what is right"
            )
        outputs = list(returned) if isinstance(returned, tuple | list) else [returned]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                kind = type(output).__name__
                raise ReferenceFailed(f"the reference of {self.definition} returned a {kind}, not a tensor")
        return outputs


def check_shapes(definition: str, outputs: Sequence[torch.Tensor], specs: Sequence[Any]) -> None:
    """Raises ReferenceFailed unless number and shapes of the outputs are those of the specs."""
    shapes = [list(output.shape) for output in outputs]
    expected = [list(spec.shape) for spec in specs]
    if shapes != expected:
        raise ReferenceFailed(
            f"the reference of {definition} returned shapes {shapes}, its case says {expected}"
        )


def coarsen(tensor: torch.Tensor, element: ElementType) -> torch.Tensor:
    """The values of a float tensor rounded to the coarser mantissa of its dtype, as float64."""
    if element.coarse_mantissa_bits is None:
        raise ValueError(f"{element.name} has no mantissa")
    mantissa, exponent = torch.frexp(tensor.to(torch.float64))
    # frexp's mantissa lies in [0.5, 1): one bit more than the explicit ones.
    steps = 2.0 ** (element.coarse_mantissa_bits + 1)
    return torch.ldexp(torch.round(mantissa * steps) / steps, exponent)


def _compile(name: str, source: str) -> Callable[..., Any]:
    filename = f"<reference of {name}>"
    # So that tracebacks show its lines.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "warpsmith_reference"}
    exec(compile(source, filename, "exec"), namespace)
    run = namespace.get("run")
    if not callable(run):
        raise AttributeError(f"the reference of {name} defines no function `run`")
    return run


def _copy(value: Any) -> Any:
    """A reference may write to its inputs; the judge's own stay as they are."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.to(torch.float64)
    return _copy(value)
