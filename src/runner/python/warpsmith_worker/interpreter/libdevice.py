"""CUDA's libdevice functions that are cheap to compute with NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from .errors import InterpreterUnsupported


def _by_torch(name: str) -> Callable[..., np.ndarray]:
    def call_torch(*arguments: np.ndarray) -> np.ndarray:
        function = getattr(torch.special, name, None) or getattr(torch, name)
        with torch.no_grad():
            return function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arguments)).numpy()

    return call_torch


erf = _by_torch("erf")

_UNARY_NUMPY = {
    name: getattr(np, name)
    for name in (
        [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "cbrt",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "floor",
            "ceil",
            "trunc",
            "rint",
        ]
    )
}


def _leading_zeros(values: np.ndarray) -> np.ndarray:
    width = values.dtype.itemsize * 8
    unsigned = values.view(f"u{values.dtype.itemsize}")
    count = np.full(values.shape, width, np.int32)
    for bit in range(width):
        count = np.where((unsigned >> unsigned.dtype.type(bit)) & 1, width - 1 - bit, count)
    return count.astype(np.int32)


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    **_UNARY_NUMPY,
    "abs": np.abs,
    "fabs": np.abs,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x),
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "rcbrt": lambda x: (1 / np.cbrt(x)).astype(x.dtype),
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(x.dtype)),
    "fmod": np.fmod,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "hypot": np.hypot,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x - y), x - y, x.dtype.type(0))),
    "fmin": np.fmin,
    "fmax": np.fmax,
    "min": np.minimum,
    "max": np.maximum,
    "copysign": np.copysign,
    "fma": lambda x, y, z: (x.astype(np.float64) * y + z).astype(x.dtype),
    "ldexp": np.ldexp,
    "saturate": lambda x: np.fmin(np.fmax(x, x.dtype.type(0)), x.dtype.type(1)),
    "erf": erf,
    "erfc": _by_torch("erfc"),
    "erfinv": _by_torch("erfinv"),
    "erfcx": _by_torch("erfcx"),
    "normcdf": _by_torch("ndtr"),
    "normcdfinv": _by_torch("ndtri"),
    "lgamma": _by_torch("gammaln"),
    "j0": _by_torch("bessel_j0"),
    "j1": _by_torch("bessel_j1"),
    "y0": _by_torch("bessel_y0"),
    "y1": _by_torch("bessel_y1"),
    "isnan": lambda x: np.isnan(x).astype(np.int32),
    "isinf": lambda x: np.isinf(x).astype(np.int32),
    "isnand": lambda x: np.isnan(x).astype(np.int32),
    "isinfd": lambda x: np.isinf(x).astype(np.int32),
    "finite": lambda x: np.isfinite(x).astype(np.int32),
    "isfinited": lambda x: np.isfinite(x).astype(np.int32),
    "signbit": lambda x: np.signbit(x).astype(np.int32),
    "signbitd": lambda x: np.signbit(x).astype(np.int32),
    "popc": lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(np.int32),
    "popcll": lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(np.int32),
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
}
_APPROXIMATE_PREFIX = "fast_"


def call(symbol: str, arguments: Sequence[np.ndarray]) -> np.ndarray:
    """One libdevice function by its symbol (``__nv_tanhf``), elementwise over arrays of equal shape."""
    function = _FUNCTIONS.get(_bare_name(symbol))
    if function is None:
        raise InterpreterUnsupported(f"the libdevice function `{symbol}` is not known here", "libdevice")
    with np.errstate(all="ignore"):
        return np.asarray(function(*arguments))


def _bare_name(symbol: str) -> str:
    name = symbol.removeprefix("__nv_").removeprefix(_APPROXIMATE_PREFIX)
    if name in _FUNCTIONS:
        return name
    without_suffix = name.removesuffix("f")
    if without_suffix in _FUNCTIONS:
        return without_suffix
    return "powi" if name in ("powif", "powi") else name


def connect(semantic: Any) -> None:
    """Makes `tl.extra.libdevice` callable: stock stubs return ``None`` in the interpreter."""
    from triton.language.extra import libdevice as stubs

    try:
        from triton.language.extra.cuda import libdevice as implementation
    except ImportError:
        return
    for name in dir(implementation):
        function = getattr(implementation, name)
        if name.startswith("_") or isinstance(function, (type, ModuleType)) or not callable(function):
            continue
        if getattr(function, "__triton_builtin__", False):
            bound = _bind(function, semantic)
        elif getattr(function, "__module__", "") == implementation.__name__:
            bound = function
        else:
            continue
        setattr(implementation, name, bound)
        if hasattr(stubs, name):
            setattr(stubs, name, bound)


def _bind(function: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def bound(*arguments: Any, **named: Any) -> Any:
        named["_semantic"] = semantic
        return function(*arguments, **named)

    bound.__name__ = getattr(function, "__name__", "libdevice")
    bound.__triton_builtin__ = True  # type: ignore[attr-defined]
    return bound
