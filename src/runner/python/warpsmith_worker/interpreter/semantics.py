"""The helpers that rewritten kernels call: what Triton's compiler means where Python means something else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from .errors import AmbiguousTruth, FrontEndError
from .overflow import Overflow

_COMPARISONS = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}
_CONSTANT_CONDITIONS = (bool, int, type(None))
_SCALARS = (bool, int, float)


class Before:
    """What a loop or a branch finds: the types of the tensors that it assigns, and which names exist."""

    __slots__ = ("is_dynamic", "live", "taken", "types")

    def __init__(self, taken: bool, is_dynamic: bool, names: dict[str, Any], assigned: Sequence[str]) -> None:
        self.taken = taken
        self.is_dynamic = is_dynamic
        self.types: dict[str, Any] | None = None
        self.live: frozenset[str] = frozenset()
        if is_dynamic:
            self.live = frozenset(
                name for name in assigned if name in names and not isinstance(names[name], Undefined)
            )
            self.types = {name: names[name].type for name in self.live if isinstance(names[name], tl.tensor)}


class Undefined:
    """The value of a name that the compiler no longer knows."""

    def __init__(self, name: str) -> None:
        self._undefined_name = name

    def __getattr__(self, attribute: str) -> NoReturn:
        self._refuse()

    def _refuse(self, *_rest: Any) -> NoReturn:
        name = self.__dict__.get("_undefined_name", "this name")
        raise FrontEndError(
            f"{name} is not defined: it was first assigned inside a loop or one branch of an `if`, and "
            "Triton forgets such names afterwards"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __getitem__ = __bool__ = __index__ = _refuse
    __eq__ = __ne__ = _refuse  # type: ignore[assignment]
    __hash__ = object.__hash__


class Helpers:
    """Bound into rewritten modules under `syntax.HELPERS`."""

    def __init__(self, semantic: Any, report_overflow: Callable[[Overflow], None]) -> None:
        self.semantic = semantic
        self._report_overflow = report_overflow

    # Values

    def assigned(self, value: Any) -> Any:
        """The right side of ``name = value``: Python numbers become tensors, as in compiled code."""
        if isinstance(value, tl.tensor):
            return value
        if isinstance(value, tl.constexpr):
            value = value.value
        return self.semantic.to_tensor(value) if type(value) in _SCALARS else value

    def unpacked(self, value: Any) -> Any:
        """The right side of ``a, b = value``."""
        if isinstance(value, (tuple, list)):
            return (
                type(value)(self.unpacked(item) for item in value) if type(value) in (tuple, list) else value
            )
        return self.assigned(value)

    @staticmethod
    def value_of(value: Any) -> Any:
        """``x.value``: what it says, but a constant is its own value."""
        if value is None or isinstance(value, (*_SCALARS, str, tl.dtype)):
            return value
        return value.value

    @staticmethod
    def reject(message: str) -> NoReturn:
        """Stands where the compiler would refuse the code."""
        raise FrontEndError(message)

    @staticmethod
    def host_call(name: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """A call of a function that computes with Python numbers when the kernel is compiled."""
        if any(isinstance(value, tl.tensor) for value in (*arguments, *named.values())):
            raise FrontEndError(
                f"`{name}` cannot be called with a value that is only known when the kernel runs"
            )
        return function(*arguments, **named)

    @staticmethod
    def comprehended(value: Any) -> Any:
        """What a list comprehension goes through."""
        if not isinstance(value, (tuple, list)):
            raise FrontEndError("only tuples can be gone through in a comprehension")
        return value

    # Conditions

    def truth(self, value: Any, forbidden: str | None, strict: bool) -> bool:
        """A condition as a Python bool. ``forbidden``: why its branches may not depend on a tensor."""
        if isinstance(value, tl.tensor):
            return self._tensor_truth(value, forbidden)
        if isinstance(value, tl.constexpr):
            value = value.value
        if strict and type(value) not in _CONSTANT_CONDITIONS:
            raise FrontEndError(
                "conditions can only be of type bool, int or NoneType, not objects of type "
                + type(value).__name__
            )
        return bool(value)

    def _tensor_truth(self, value: Any, forbidden: str | None) -> bool:
        data = value.handle.data
        if data.size != 1:
            raise AmbiguousTruth("the truth of a tensor with more than one element is ambiguous")
        if forbidden is not None:
            raise FrontEndError(forbidden)
        mark = value.handle.overflow
        if mark is not None and mark.lanes.any():
            self._report_overflow(mark)
        return bool(data.reshape(-1)[0])

    def branch(
        self, value: Any, forbidden: str | None, strict: bool, names: dict[str, Any], assigned: Sequence[str]
    ) -> Before:
        """As `truth`, and remembers what `after_branch` needs when the compiler merges both branches."""
        taken = self.truth(value, forbidden, strict)
        return Before(taken, isinstance(value, tl.tensor), names, assigned)

    @staticmethod
    def after_branch(
        before: Before, names: dict[str, Any], assigned: Sequence[str], in_both: Sequence[str]
    ) -> list[Any]:
        """Values after an ``if`` on a tensor, by name; types must not have changed."""
        for name, old in (before.types or {}).items():
            value = names.get(name)
            if isinstance(value, tl.tensor) and value.type != old:
                raise FrontEndError(
                    f"{name} is of type {old} before this `if`, but a branch redefines it as {value.type}"
                )
        return _survivors(before.live.union(in_both), names, assigned)

    def boolean(self, is_and: bool, *delayed: Callable[[], Any]) -> Any:
        """``a and b`` or ``a or b``: elementwise on tensors, short-circuit on constants."""
        return self._boolean(is_and, (operand() for operand in delayed))

    def boolean_of_values(self, is_and: bool, *values: Any) -> Any:
        """As `boolean` where the operands bind names and are evaluated at once."""
        return self._boolean(is_and, iter(values))

    def _boolean(self, is_and: bool, values: Iterator[Any]) -> Any:
        tensors = []
        value: Any = None
        for value in values:
            if isinstance(value, tl.tensor):
                tensors.append(value)
            elif bool(value) is not is_and:
                return value
        if not tensors:
            return value
        result = tensors[-1]
        for tensor in reversed(tensors[:-1]):
            result = tensor.logical_and(result) if is_and else tensor.logical_or(result)
        return result

    def negation(self, value: Any) -> Any:
        """``not value``."""
        if isinstance(value, tl.tensor):
            return self.semantic.not_(value)
        return not value

    def comparison_chain(self, operators: Sequence[str], *operands: Any) -> Any:
        """``a < b < c`` with each operand evaluated once."""
        results = (
            _COMPARISONS[name](left, right)
            for name, left, right in zip(operators, operands, operands[1:], strict=False)
        )
        return self._boolean(True, results)

    def device_assert(self, condition: Any, message: Any = "") -> None:
        """``assert`` in a kernel is `tl.device_assert`."""
        text = str(message.value if isinstance(message, tl.constexpr) else message)
        self.semantic.device_assert(self.semantic.to_tensor(condition), text, None)

    def builtin_min(self, *values: Any) -> Any:
        """Python's ``min``, which works on tensors in compiled code."""
        return self._extreme(values, min, tl.minimum)

    def builtin_max(self, *values: Any) -> Any:
        """Python's ``max``, which works on tensors in compiled code."""
        return self._extreme(values, max, tl.maximum)

    @staticmethod
    def _extreme(
        values: Sequence[Any], of_numbers: Callable[..., Any], of_tensors: Callable[..., Any]
    ) -> Any:
        if not any(isinstance(value, tl.tensor) for value in values):
            return of_numbers(*(v.value if isinstance(v, tl.constexpr) else v for v in values))
        if len(values) == 1:
            raise FrontEndError(
                "`min` and `max` of Python need at least two values; use `tl.min` or `tl.max`"
            )
        result = values[0]
        for value in values[1:]:
            result = of_tensors(result, value)
        return result

    # Loops

    def loop(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """The iterator of a ``for``: tensors for `range` and `tl.range`, constants for `tl.static_range`."""
        if function is tl.static_range or function is tl.core.static_range:
            return _static_range(*arguments, **options)
        if function is not range and function is not tl.range and function is not tl.core.range:
            raise FrontEndError("only `range` and `static_range` iterators are supported")
        named = [options[name] for name in ("arg1", "arg2", "step") if name in options]
        bounds = [self.semantic.to_tensor(bound) for bound in (*arguments, *named) if bound is not None]
        return self._induction(bounds)

    def _induction(self, bounds: list[Any]) -> Iterator[Any]:
        dtype = None
        for bound in bounds:
            if not bound.dtype.is_int():
                raise FrontEndError(f"loop bounds and step must all be ints, got {bound.dtype}")
            if bound.handle.data.size != 1:
                raise FrontEndError(f"loop bounds must be scalars, got {bound.type}")
            mark = bound.handle.overflow
            if mark is not None and mark.lanes.any():
                self._report_overflow(mark)
            dtype = bound.dtype if dtype is None else self.semantic.integer_promote_impl(dtype, bound.dtype)
        held = stock._get_np_dtype(dtype)
        numbers = [int(bound.handle.data.reshape(-1)[0]) for bound in bounds]
        if len(numbers) == 3 and numbers[2] == 0:
            raise FrontEndError("the step of a loop must not be zero")
        handle, tensor = stock.TensorHandle, tl.tensor
        for number in range(*numbers):
            yield tensor(handle(np.array([number], dtype=held), dtype), dtype)

    @staticmethod
    def before_loop(names: dict[str, Any], assigned: Sequence[str]) -> Before:
        """Remembers what `after_first_round` and `after_loop` need."""
        return Before(True, True, names, assigned)

    @staticmethod
    def after_first_round(before: Before, names: dict[str, Any]) -> None:
        """Compares the types of loop-carried tensors with those before the loop."""
        for name, old in (before.types or {}).items():
            value = names.get(name)
            if isinstance(value, tl.tensor) and value.type != old:
                raise FrontEndError(
                    f"loop-carried variable {name} has initial type {old} but is re-assigned to "
                    f"{value.type} in the loop; the type must stay the same"
                )
        before.types = None

    @staticmethod
    def after_loop(before: Before, names: dict[str, Any], assigned: Sequence[str]) -> list[Any]:
        """Values after a loop, by name."""
        return _survivors(before.live, names, assigned)


def _survivors(live: frozenset[str], names: dict[str, Any], assigned: Sequence[str]) -> list[Any]:
    return [names[name] if name in live and name in names else Undefined(name) for name in assigned]


def _static_range(arg1: Any, arg2: Any = None, step: Any = None, **_options: Any) -> range:
    first, second, stride = (
        bound.value if isinstance(bound, tl.constexpr) else bound for bound in (arg1, arg2, step)
    )
    for bound in (first, second, stride):
        if isinstance(bound, tl.tensor):
            raise FrontEndError("the bounds of `tl.static_range` must be constants")
    stride = 1 if stride is None else stride
    return range(first, second, stride) if second is not None else range(0, first, stride)
