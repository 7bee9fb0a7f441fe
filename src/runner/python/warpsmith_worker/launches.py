"""What a call launches on a GPU, and which configuration of autotuned kernels it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar

from . import compiling
from .cuda_shim import forward
from .errors import UserFiles

_MOST_RECORDS = 4096
_MOST_FINDINGS = 200
_MOST_NAMED = 8

Place = dict[str, Any]

_unrecorded = 0


def unrecorded_launches() -> int:
    """Launches of this process outside of any session: those of timed calls."""
    return _unrecorded


class DeviceSession:
    """One call of the entry: a context manager, in the words of the protocol afterwards."""

    _active: ClassVar[list[DeviceSession]] = []

    def __init__(self, files: UserFiles, autotune: Any = "drawn", *, idle_kernels: bool = False) -> None:
        """With `idle_kernels` launches are compiled and recorded, and nothing runs."""
        self.autotune = autotune
        self.idle_kernels = idle_kernels
        self._files = files
        self._launches: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._findings: list[dict[str, Any]] = []
        self._autotuned: dict[str, list[str]] = {}
        self._tuned_afresh: set[int] = set()
        self.kernels: list[Any] = []
        """Every kernel that was to be launched, in the order of the first time."""

    @classmethod
    def current(cls) -> DeviceSession | None:
        """The session that launches are recorded in now."""
        return cls._active[-1] if cls._active else None

    def __enter__(self) -> DeviceSession:  # noqa: PYI034 - `Self` came with Python 3.11
        DeviceSession._active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        DeviceSession._active.remove(self)

    def report(self) -> dict[str, Any]:
        """Launches, findings and autotuned kernels; valid after an exception too."""
        return {
            "launches": list(self._launches.values()),
            "findings": self._findings,
            "unsupported": None,
            "autotuned": [
                {"kernel": kernel, "configurations": configurations}
                for kernel, configurations in self._autotuned.items()
            ],
        }

    def kernel_names(self) -> list[str]:
        """Names of what was launched or was to be, each once."""
        return list(dict.fromkeys(_name_of(kernel) for kernel in self.kernels))

    def told_kernels(self) -> str:
        """A list of those names for people; empty without any."""
        names = self.kernel_names()
        told = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
        return f"{told} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else told

    def written_by_single_launch(self, _tensor: Any) -> bool:
        """Every program of every launch ran."""
        return True

    def attempt(self, kernel: Any) -> None:
        """A kernel is about to be compiled or launched."""
        if not any(kernel is known for known in self.kernels):
            self.kernels.append(kernel)

    def launched(self, kernel: Any, grid: Any) -> None:
        """A launch was accepted."""
        sizes = grid_of(grid)
        key = (id(kernel), *sizes)
        if key in self._launches or len(self._launches) >= _MOST_RECORDS:
            return
        programs = sizes[0] * sizes[1] * sizes[2]
        place = definition_of(kernel, self._files)
        self._launches[key] = {
            "kernel": _name_of(kernel),
            **place,
            "grid": sizes,
            "programs": programs,
            "programs_run": programs,
            "tf32_dots": [],
            "ms": 0.0,
        }

    def add_finding(self, kind: str, message: str, place: Place | None) -> None:
        """Something that was seen after the call. Where nobody knows the line it is the first of the file."""
        names = self.kernel_names()
        if len(self._findings) < _MOST_FINDINGS:
            self._findings.append(
                {
                    "kind": kind,
                    "kernel": names[0] if len(names) == 1 else None,
                    "place": place or {"file": self._files.path, "line": 1},
                    "called_from": [],
                    "message": message,
                    "program": None,
                    "occurrences": 1,
                }
            )

    def tuned(self, tuner: Any, configs: list[Any]) -> None:
        """An autotuned kernel is called; these configurations are left of it."""
        name = getattr(tuner.base_fn, "__name__", "kernel")
        self._autotuned.setdefault(name, [described(config) for config in configs])

    def knows(self, tuner: Any) -> bool:
        """Whether its configurations are noted."""
        return getattr(tuner.base_fn, "__name__", "kernel") in self._autotuned

    def starts_tuning_afresh(self, tuner: Any) -> bool:
        """Whether what a kernel was tuned to before does not count in this call; true once for each."""
        if self.autotune != "trial" or id(tuner) in self._tuned_afresh:
            return False
        self._tuned_afresh.add(id(tuner))
        return True


def grid_of(grid: Any) -> list[int]:
    """Three sizes of a grid: a number, or a sequence of up to three."""
    sizes = [int(size) for size in grid] if isinstance(grid, tuple | list) else [int(grid)]
    return [*sizes, 1, 1, 1][:3]


def described(config: Any) -> str:
    """A configuration in one line: `BLOCK=128 num_warps=4 num_stages=2`."""
    words = [f"{name}={value}" for name, value in config.kwargs.items()]
    for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
        value = getattr(config, name, None)
        if value is not None and (name, value) != ("num_ctas", 1):
            words.append(f"{name}={value}")
    if config.pre_hook is not None:
        words.append(f"pre_hook={getattr(config.pre_hook, '__name__', 'yes')}")
    return " ".join(words)


def definition_of(kernel: Any, files: UserFiles) -> Place:
    """The file and line of a kernel's `def`, as people know them."""
    code = getattr(getattr(kernel, "fn", None), "__code__", None)
    if code is None:
        return {"file": files.path, "line": 1}
    line = int(getattr(kernel, "starting_line_number", code.co_firstlineno))
    for at, text in enumerate(getattr(kernel, "raw_src", None) or []):
        if text.lstrip().startswith("def "):
            line += at
            break
    return {"file": files.shown(code.co_filename) or code.co_filename, "line": line}


def user_place(files: UserFiles) -> Place | None:
    """The innermost line of the user's that is being run."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        shown = files.shown(frame.f_code.co_filename)
        if shown is not None:
            return {"file": shown, "line": frame.f_lineno}
        frame = frame.f_back
    return None


def _name_of(kernel: Any) -> str:
    return str(getattr(kernel, "__name__", None) or getattr(kernel, "name", None) or "kernel")


def _count_one(counts: bool) -> None:
    global _unrecorded
    _unrecorded += counts


def record_launches(jit_function: type, compiled_kernel: type | None = None) -> None:
    """Wrap how kernels are launched, once a process: `JITFunction.run` and `CompiledKernel[grid]`."""
    true_run: Callable[..., Any] = jit_function.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if compiling.is_active():
            return forward(true_run, (self, *arguments), {"grid": grid, "warmup": True, **named})
        session = DeviceSession.current()
        if session is None:
            _count_one(not warmup)
            return forward(true_run, (self, *arguments), {"grid": grid, "warmup": warmup, **named})
        session.attempt(self)
        if warmup:
            return forward(true_run, (self, *arguments), {"grid": grid, "warmup": warmup, **named})
        seen: list[Any] = []

        def told_grid(constants: Any) -> Any:
            seen.append(forward(grid, (constants,), {}))
            return seen[-1]

        used = told_grid if callable(grid) else grid
        if session.idle_kernels:
            result = forward(true_run, (self, *arguments), {"grid": used, "warmup": True, **named})
            # The grid is not asked for then.
            session.launched(self, (1,) if callable(grid) else grid)
            return result
        result = forward(true_run, (self, *arguments), {"grid": used, "warmup": warmup, **named})
        if seen or not callable(grid):
            session.launched(self, seen[-1] if seen else grid)
        return result

    jit_function.run = run
    if compiled_kernel is None or not hasattr(compiled_kernel, "__getitem__"):
        return
    true_item: Callable[..., Any] = compiled_kernel.__getitem__

    def item(self: Any, grid: Any) -> Callable[..., Any]:
        runner = forward(true_item, (self, grid), {})

        def launch(*arguments: Any, **named: Any) -> Any:
            if compiling.is_active():
                return None
            session = DeviceSession.current()
            kernel = getattr(getattr(self, "src", None), "fn", None) or self
            if session is not None:
                session.attempt(kernel)
            idles = session is not None and session.idle_kernels
            result = None if idles else forward(runner, arguments, named)
            _count_one(session is None)
            if session is not None:
                session.launched(kernel, grid)
            return result

        return launch

    compiled_kernel.__getitem__ = item


def choose_configurations(autotuner: type) -> None:
    """Let a session say which configuration of an `Autotuner` runs, once a process."""
    true_run: Callable[..., Any] = autotuner.run

    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        if compiling.is_active():
            return compiling.every_configuration(self, arguments, named)
        session = DeviceSession.current()
        if session is None:
            return forward(true_run, (self, *arguments), named)
        config = _only_configuration(self, session, arguments, named)
        if config is None:
            if session.starts_tuning_afresh(self):
                self.cache.clear()
            return forward(true_run, (self, *arguments), named)
        self.best_config = config
        chosen = config.all_kwargs()
        if config.pre_hook is not None:
            forward(config.pre_hook, ({**self.nargs, **named, **chosen},), {})
        result = forward(self.fn.run, arguments, {**named, **chosen})
        self.nargs = None
        return result

    autotuner.run = run


def _only_configuration(tuner: Any, session: DeviceSession, arguments: tuple[Any, ...], named: Any) -> Any:
    """Notes the configurations of a kernel, and gives the one that alone is to run, if one is.

    It runs as it does in every call after the tuning: with its own hook, without the tuner's.
    """
    if not isinstance(session.autotune, dict) and session.knows(tuner) and not session.idle_kernels:
        return None
    tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
    several = len(tuner.configs) > 1
    configs = list(forward(tuner.prune_configs, (named,), {})) if several else list(tuner.configs)
    session.tuned(tuner, configs)
    if session.idle_kernels:
        # There is nothing to time, and Triton may keep on disk what it chose.
        return configs[0]
    if not isinstance(session.autotune, dict):
        return None
    index = session.autotune["only"]
    return configs[index if index < len(configs) else 0]
