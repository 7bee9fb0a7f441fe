"""Puts our builder and our way of launching into Triton's interpreter, once a process."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import triton
import triton.language as tl
from torch.multiprocessing.reductions import StorageWeakRef
from triton.runtime import interpreter as stock

from . import executor, host, libdevice, reductions
from .arguments import Signature
from .builder import CheckedBuilder
from .errors import (
    FrontEndError,
    InterpreterUnsupported,
    Place,
    StaticAssertionFailed,
    TritonCompileError,
)
from .overflow import Overflow
from .places import Places, UserPaths
from .semantics import Helpers
from .shadow import UninitialisedStorage
from .syntax import rewrite

_TRITON = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep
_FRONT_END_FILES = (os.path.join(_TRITON, "language") + os.sep, os.path.join(_TRITON, "_utils.py"))
_RANDOM_MODULE = os.path.join(_TRITON, "language", "random.py")
_DESCRIPTOR_RULES = ("validate", "materialize_pointers")
_REGISTRY_SWEEP = 256


class Runtime:
    """State of the process: one per candidate."""

    def __init__(self, paths: UserPaths) -> None:
        self.places = Places(paths)
        self.builder = CheckedBuilder()
        self.semantic = stock.interpreter_semantic
        self.launch: executor._Launch | None = None
        self.is_in_host_memory: Callable[[Any], bool] = lambda _tensor: False
        self._signatures: dict[Any, Signature] = {}
        self._rewritten: dict[Any, FunctionType] = {}
        self._uninitialised: dict[int, tuple[StorageWeakRef, UninitialisedStorage]] = {}
        self.helpers = Helpers(self.semantic, self.report_overflow)
        self.places.stop_at(executor._Launch._run_programs.__code__)

    # Kernels

    def signature_of(self, kernel: Any) -> Signature:
        """Memoised."""
        known = self._signatures.get(kernel)
        if known is None:
            known = self._signatures[kernel] = Signature(kernel.fn, kernel.kwargs)
        return known

    def rewritten(self, kernel: Any) -> FunctionType:
        """The function that is really run; raises `FrontEndError` for one without source."""
        known = self._rewritten.get(kernel)
        if known is None:
            is_library = kernel.fn.__code__.co_filename.startswith(_TRITON)
            known = self._rewritten[kernel] = rewrite(kernel.fn, self.helpers, is_library)
        return known

    def definition_of(self, kernel: Any) -> Place:
        """Where the kernel's ``def`` stands; of one made from a string, the user's line that launches it."""
        code = kernel.fn.__code__
        launch = None if os.path.exists(code.co_filename) else self.places.host()
        if launch is not None:
            return launch
        line = code.co_firstlineno
        try:
            lines, first = inspect.getsourcelines(kernel.fn)
            line = first + next(n for n, text in enumerate(lines) if text.lstrip().startswith("def "))
        except (OSError, StopIteration):
            pass  # no source: the code object's own line is the best there is
        return {"file": self.places.shown(code.co_filename)[0], "line": line}

    def call_device_function(self, kernel: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One jit function called by another."""
        if self.launch is None:
            message = f"the kernel {kernel.fn.__name__} is called without a grid outside of a kernel"
            raise TritonCompileError(message, self.places.host())
        return self.rewritten(kernel)(*arguments, **named)

    @contextmanager
    def launching(self, launch: executor._Launch) -> Iterator[None]:
        """While the programs of a launch run."""
        builder = self.builder
        previous = (self.launch, builder.checker, builder.record_finding, builder.locate, builder.record_tf32)
        self.launch = launch
        builder.checker = launch.checker
        builder.record_finding = launch.report
        builder.locate = self.places.here
        builder.record_tf32 = launch.record_tf32
        builder.overflow_armed = False
        try:
            yield
        finally:
            (self.launch, builder.checker, builder.record_finding, builder.locate, builder.record_tf32) = (
                previous
            )

    def report_overflow(self, overflow: Overflow) -> None:
        """A wrapped integer decided a branch."""
        if self.launch is not None:
            self.launch.report_overflow(overflow)

    def is_front_end(self, error: Exception) -> bool:
        """Whether the exception was raised by Triton's front end or by the kernel's own Python."""
        traceback = error.__traceback__
        if traceback is None:
            return False
        while traceback.tb_next is not None:
            traceback = traceback.tb_next
        code = traceback.tb_frame.f_code
        if code in _CALLS_FOR_THE_KERNEL:
            return isinstance(error, TypeError)  # the kernel gave arguments that the callee does not take
        file = os.path.abspath(code.co_filename)
        if file.startswith(_FRONT_END_FILES):
            return True
        if code.co_filename == stock.__file__:
            return isinstance(error, AssertionError) and code.co_name in _DESCRIPTOR_RULES
        return (
            code in {function.__code__ for function in self._rewritten.values()}
            or (self.places.shown(code.co_filename)[1])
        )

    # Uninitialised storages

    def register_uninitialised(self, tensor: Any) -> None:
        """Remembers a storage made by ``torch.empty*``; its poison is already in place."""
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return
        if len(self._uninitialised) >= _REGISTRY_SWEEP:
            alive = {key: pair for key, pair in self._uninitialised.items() if not pair[0].expired()}
            self._uninitialised = alive
        entry = UninitialisedStorage(storage.data_ptr(), storage.nbytes(), tensor.element_size())
        self._uninitialised[storage._cdata] = (StorageWeakRef(storage), entry)

    def uninitialised_storage(self, storage: Any) -> UninitialisedStorage | None:
        """What is known of a storage, when it came from ``torch.empty*``."""
        known = self._uninitialised.get(storage._cdata)
        if known is None or known[0].expired() or known[1].nbytes != storage.nbytes():
            return None
        return known[1]


_CALLS_FOR_THE_KERNEL = {Runtime.call_device_function.__code__}


def install(paths: UserPaths) -> Runtime:
    """Patches Triton for the rest of the process; raises `InterpreterUnsupported` when it does not fit."""
    if not hasattr(stock, "InterpretedFunction") or not hasattr(stock.InterpretedFunction, "run"):
        raise InterpreterUnsupported(f"triton {triton.__version__} has another interpreter than expected")
    if not isinstance(tl.standard.sum, stock.InterpretedFunction):
        raise InterpreterUnsupported("TRITON_INTERPRET=1 was not set when triton was imported")
    runtime = Runtime(paths)
    stock.interpreter_builder = runtime.builder
    runtime.semantic.builder = runtime.builder
    # The whole of `tl` is patched once, instead of at every launch and every nested call.
    stock._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    stock._patch_lang = lambda _: _NOTHING_TO_RESTORE
    _bind_builtins(runtime.semantic)
    _patch_language()
    _patch_functions(runtime)
    _arm_overflow_checks(runtime)
    _check_hints(runtime)
    libdevice.connect(runtime.semantic)
    host.install()
    return runtime


_NOTHING_TO_RESTORE = SimpleNamespace(restore=lambda: None, set_attr=lambda *_: None)


def _bind_builtins(semantic: Any) -> None:
    """Gives every builtin our semantic directly: cheaper than the stock closures, same in all versions."""
    owners = [tl, tl.core, tl.math, tl.tensor]
    names = ("tensor_descriptor_base", "tensor_descriptor")
    owners.extend(getattr(tl.core, name) for name in names if hasattr(tl.core, name))
    for owner in owners:
        for name, patched in list(vars(owner).items()):
            member = (getattr(patched, "__kwdefaults__", None) or {}).get("member")
            if member is not None:
                setattr(owner, name, _bound(member, semantic))


def _bound(member: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    inner = getattr(member, "__wrapped__", member)

    def call(*arguments: Any, **named: Any) -> Any:
        named["_semantic"] = semantic
        return inner(*arguments, **named)

    _CALLS_FOR_THE_KERNEL.add(call.__code__)
    call.__name__ = getattr(member, "__name__", "builtin")
    call.__doc__ = member.__doc__
    call.__triton_builtin__ = True  # type: ignore[attr-defined]
    return call


def _patch_language() -> None:
    # Up to Triton 3.6 this breaks with NumPy 2.4, which converts only 0-d arrays.
    tl.tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
    for module in (tl, tl.core):
        module.reduce = reductions.reduce
        module.associative_scan = reductions.associative_scan
        module.static_assert = _static_assert
        module.static_range = _StaticRange
        module.range = _Range
        for name in ("reduce", "associative_scan", "static_assert"):
            getattr(module, name).__triton_builtin__ = True


class _StaticRange:
    """Marks `tl.static_range` for `Helpers.loop`."""

    __triton_builtin__ = True


class _Range:
    """Marks `tl.range` for `Helpers.loop`."""

    __triton_builtin__ = True


def _static_assert(cond: Any, msg: Any = "", **_ignored: Any) -> None:
    """`tl.static_assert`: the condition must be known when the kernel is compiled."""
    if isinstance(cond, tl.constexpr):
        cond = cond.value
    if not isinstance(cond, bool):
        raise FrontEndError("the condition of `tl.static_assert` is not known at compile time")
    if not cond:
        text = str(msg.value if isinstance(msg, tl.constexpr) else msg)
        raise StaticAssertionFailed(f"static assertion failed: {text}" if text else "static assertion failed")


def _patch_functions(runtime: Runtime) -> None:
    interpreted = stock.InterpretedFunction

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
        if not warmup:
            executor.launch(runtime, self, arguments, grid, named)
        return executor.StandIn(self, named)

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return runtime.call_device_function(self, arguments, named)

    interpreted.run = run
    interpreted.__call__ = call
    interpreted.rewrite = lambda self: runtime.rewritten(self)  # noqa: PLW0108 - binds as a method


def _arm_overflow_checks(runtime: Runtime) -> None:
    builder = runtime.builder

    def watch(lhs: Any, _rhs: Any, _operation: Any) -> None:
        """Called before each int add, sub and mul that may not wrap silently."""
        scalar = lhs.type.scalar
        if scalar.name == "int32" and not _in_random_module():
            builder.overflow_armed = True

    runtime.semantic.binary_op_sanitize_overflow_impl = watch


def _check_hints(runtime: Runtime) -> None:
    """`tl.multiple_of` is a promise: the compiler makes wide accesses of it, which fault when it is false."""
    promise = tl.multiple_of

    def multiple_of(input: Any, values: Any, **named: Any) -> Any:  # noqa: A002 - the name is Triton's
        result = promise(input, values, **named)
        factors = values if isinstance(values, (list, tuple)) else [values]
        broken = _broken_multiple(input, [int(tl.core._unwrap_if_constexpr(factor)) for factor in factors])
        if broken is not None:
            value, factor = broken
            sentence = f"`tl.multiple_of` promises a multiple of {factor}, but the value is {value}"
            runtime.builder.record_finding("device-assert", f"{sentence}: the GPU may do anything")
        return result

    multiple_of.__triton_builtin__ = True  # type: ignore[attr-defined]
    for module in (tl, tl.core):
        module.multiple_of = multiple_of


def _broken_multiple(x: Any, factors: list[int]) -> tuple[int, int] | None:
    """A value that is not what was promised. Of consecutive values the promise is about the first one."""
    if not isinstance(x, tl.tensor) or not x.dtype.is_int() or len(factors) != 1 or factors[0] < 1:
        return None
    values = x.handle.data.reshape(-1).astype(np.int64)
    starts = np.concatenate([[True], np.diff(values) != 1])
    bad = values[starts & (values % factors[0] != 0)]
    return (int(bad[0]), factors[0]) if len(bad) else None


def _in_random_module() -> bool:
    """Whether Triton's own random numbers are being computed: they wrap on purpose."""
    frame = sys._getframe(2)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_filename == _RANDOM_MODULE:
            return True
        if not frame.f_code.co_filename.startswith(_TRITON):
            return False
        frame = frame.f_back
    return False
