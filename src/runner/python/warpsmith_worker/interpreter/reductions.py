"""`tl.reduce` and `tl.associative_scan`, rounded like the trees of threads that compute them on a GPU."""
# ruff: noqa: A002 - the signatures are Triton's

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from .errors import AmbiguousTruth, FrontEndError
from .numerics import bfloat16_to_float32, float32_to_bfloat16, round_to_bfloat16, tree_reduce

Handle = stock.TensorHandle


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _tensor(data: np.ndarray, dtype: Any) -> Any:
    if data.ndim == 0:
        return tl.tensor(Handle(data.reshape(1), dtype), dtype)
    return tl.tensor(Handle(data, dtype), tl.block_type(dtype, list(data.shape)))


def _checked_axis(axis: Any, rank: int, what: str) -> int:
    axis = _unwrap(axis)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise FrontEndError(f"{what} axis {axis} must be < inputs rank ({rank})")
    return axis % rank


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **ignored: Any) -> Any:
    """Replaces `tl.reduce` in the interpreter."""
    if isinstance(input, tl.tensor):
        return reduce((input,), axis, combine_fn, keep_dims)[0]
    inputs = list(input)
    rank = len(inputs[0].shape)
    if rank == 0:
        raise FrontEndError("cannot reduce a scalar")
    if any(tensor.type.shape != inputs[0].type.shape for tensor in inputs):
        raise FrontEndError("all reduction inputs must have the same shape")
    arrays = [tensor.handle.data for tensor in inputs]
    dtypes = [tensor.dtype for tensor in inputs]
    whole = _unwrap(axis) is None
    if whole:
        arrays = [array.reshape(-1) for array in arrays]
        position = 0
    else:
        position = _checked_axis(axis, rank, "reduction")
    results = _reduced(arrays, dtypes, position, combine_fn)
    if _unwrap(keep_dims):
        results = [
            result.reshape((1,) * rank) if whole else np.expand_dims(result, position) for result in results
        ]
    return tuple(_tensor(np.asarray(result), dtype) for result, dtype in zip(results, dtypes, strict=False))


def _reduced(arrays: list[np.ndarray], dtypes: list[Any], axis: int, combine_fn: Any) -> list[np.ndarray]:
    if arrays[0].shape[axis] == 1:
        return [np.squeeze(array, axis) for array in arrays]
    if len(arrays) == 1:
        quick = _quick_reduction(arrays[0], dtypes[0], axis, combine_fn)
        if quick is not None:
            return [quick]
    elif len(arrays) == 2:
        found = _quick_arg_extreme(arrays, dtypes, axis, combine_fn)
        if found is not None:
            return found
    return _generic_reduction(arrays, dtypes, axis, combine_fn)


def _quick_reduction(array: np.ndarray, dtype: Any, axis: int, combine_fn: Any) -> np.ndarray | None:
    library = tl.standard
    is_float = dtype.is_floating()
    if combine_fn is library._sum_combine:
        return _sum(array, dtype, axis)
    if combine_fn in (library._elementwise_max, library._elementwise_min):
        is_max = combine_fn is library._elementwise_max
        if not is_float:
            return (np.max if is_max else np.min)(array, axis=axis)
        best = np.fmax if is_max else np.fmin
        if dtype.name == "bf16":
            return float32_to_bfloat16(best.reduce(bfloat16_to_float32(array), axis=axis))
        return best.reduce(array, axis=axis) if not dtype.name.startswith("fp8") else None
    return None


def _sum(array: np.ndarray, dtype: Any, axis: int) -> np.ndarray | None:
    name = dtype.name
    if name == "bf16":
        rounded = tree_reduce(bfloat16_to_float32(array), axis, lambda a, b: round_to_bfloat16(a + b))
        return float32_to_bfloat16(rounded)
    if name == "fp16":
        return tree_reduce(array, axis, np.add)
    if name in ("fp32", "fp64"):
        # NumPy adds pairwise, but only along the last axis of a contiguous array.
        if axis == array.ndim - 1 and array.flags.c_contiguous:
            return array.sum(axis=axis, dtype=array.dtype)
        return tree_reduce(array, axis, np.add)
    if dtype.is_int() and name != "int1":
        return array.sum(axis=axis, dtype=array.dtype)
    return None


def _quick_arg_extreme(
    arrays: list[np.ndarray], dtypes: list[Any], axis: int, combine_fn: Any
) -> list[np.ndarray] | None:
    library = tl.standard
    largest = (library._argmax_combine_tie_break_left, library._argmax_combine_tie_break_fast)
    smallest = (library._argmin_combine_tie_break_left, library._argmin_combine_tie_break_fast)
    if combine_fn not in (*largest, *smallest):
        return None
    values, indices = arrays
    comparable = bfloat16_to_float32(values) if dtypes[0].name == "bf16" else values
    if dtypes[0].name.startswith("fp8") or (dtypes[0].is_floating() and np.isnan(comparable).any()):
        return None  # where NaN ends up depends on the order of combination: the generic tree decides
    pick = np.argmax if combine_fn in largest else np.argmin
    chosen = np.expand_dims(pick(comparable, axis=axis), axis)
    return [np.squeeze(np.take_along_axis(array, chosen, axis), axis) for array in (values, indices)]


def _generic_reduction(
    arrays: list[np.ndarray], dtypes: list[Any], axis: int, combine_fn: Any
) -> list[np.ndarray]:
    current = [np.moveaxis(array, axis, 0) for array in arrays]
    while current[0].shape[0] > 1:
        left = [array[0::2] for array in current]
        right = [array[1::2] for array in current]
        current = _combined(combine_fn, left, right, dtypes)
    return [array[0] for array in current]


def _combined(
    combine_fn: Callable[..., Any],
    left: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    dtypes: Sequence[Any],
) -> list[np.ndarray]:
    shape = left[0].shape
    try:
        results = _call(combine_fn, left, right, dtypes)
        return [np.broadcast_to(result, shape) for result in results]
    except AmbiguousTruth:
        # The combine function branches on its values, which the compiler allows since they are scalars.
        outputs = [np.empty(shape, array.dtype) for array in left]
        for position in np.ndindex(shape):
            scalars = _call(
                combine_fn,
                [np.asarray(a[position]) for a in left],
                [np.asarray(a[position]) for a in right],
                dtypes,
            )
            for output, scalar in zip(outputs, scalars, strict=False):
                output[position] = scalar.reshape(-1)[0]
        return outputs


def _call(
    combine_fn: Callable[..., Any],
    left: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    dtypes: Sequence[Any],
) -> list[np.ndarray]:
    arguments = [
        _tensor(np.ascontiguousarray(data), dtype) for data, dtype in zip(left, dtypes, strict=False)
    ]
    arguments += [
        _tensor(np.ascontiguousarray(data), dtype) for data, dtype in zip(right, dtypes, strict=False)
    ]
    answer = combine_fn(*arguments)
    answers = answer if isinstance(answer, (tuple, list)) else (answer,)
    if len(answers) != len(dtypes):
        raise FrontEndError(f"the combine function returns {len(answers)} values instead of {len(dtypes)}")
    results = []
    for value, dtype in zip(answers, dtypes, strict=False):
        if isinstance(value, tl.tensor):
            if value.dtype != dtype:
                raise FrontEndError(f"the combine function returns {value.dtype} where {dtype} goes in")
            results.append(value.handle.data)
        else:
            results.append(np.asarray(_unwrap(value), dtype=left[0].dtype))
    return results


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **ignored: Any) -> Any:
    """Replaces `tl.associative_scan` in the interpreter."""
    if isinstance(input, tl.tensor):
        return associative_scan((input,), axis, combine_fn, reverse)[0]
    inputs = list(input)
    rank = len(inputs[0].shape)
    position = _checked_axis(axis, rank, "scan")
    if any(tensor.type.shape != inputs[0].type.shape for tensor in inputs):
        raise FrontEndError("all scan inputs must have the same shape")
    backwards = bool(_unwrap(reverse))
    dtypes = [tensor.dtype for tensor in inputs]
    arrays = [np.moveaxis(tensor.handle.data, position, 0) for tensor in inputs]
    if backwards:
        arrays = [array[::-1] for array in arrays]
    scanned = _scanned(arrays, dtypes, combine_fn)
    if backwards:
        scanned = [array[::-1] for array in scanned]
    return tuple(
        _tensor(np.ascontiguousarray(np.moveaxis(array, 0, position)), dtype)
        for array, dtype in zip(scanned, dtypes, strict=False)
    )


def _scanned(arrays: list[np.ndarray], dtypes: list[Any], combine_fn: Any) -> list[np.ndarray]:
    """Inclusive scan along the first axis."""
    library = tl.standard
    quick = {library._sum_combine: np.cumsum, library._prod_combine: np.cumprod}.get(combine_fn)
    if quick is not None and len(arrays) == 1 and dtypes[0].name != "int1":
        name = dtypes[0].name
        if name in ("fp32", "fp64"):
            return [quick(arrays[0], axis=0, dtype=np.float64).astype(arrays[0].dtype)]
        if dtypes[0].is_int():
            return [quick(arrays[0], axis=0, dtype=arrays[0].dtype)]
    current = [np.ascontiguousarray(array) for array in arrays]
    distance, length = 1, arrays[0].shape[0]
    while distance < length:
        earlier = [np.concatenate([array[:distance], array[:-distance]]) for array in current]
        combined = _combined(combine_fn, earlier, current, dtypes)
        current = [
            np.concatenate([old[:distance], new[distance:]])
            for old, new in zip(current, combined, strict=False)
        ]
        distance *= 2
    return current
