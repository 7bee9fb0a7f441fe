"""What is recorded while the user's entry runs once, in the words of the protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from .errors import InterpreterUnsupported, Place, TritonCompileError
from .shadow import Region

_MAX_FINDINGS = 200


@dataclass
class LaunchRecord:
    """One launch; `as_dict` is ``Launch`` of the protocol."""

    kernel: str
    file: str
    line: int
    grid: tuple[int, int, int]
    programs: int
    programs_run: int = 0
    tf32_dots: list[Place] = field(default_factory=list)
    ms: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "kernel": self.kernel,
            "file": self.file,
            "line": self.line,
            "grid": list(self.grid),
            "programs": self.programs,
            "programs_run": self.programs_run,
            "tf32_dots": self.tf32_dots,
            "ms": self.ms,
        }


class Session:
    """Context manager around one call of the user's entry; several may follow each other in a process."""

    _active: ClassVar[list[Session]] = []

    def __init__(
        self,
        *,
        max_programs: int | None,
        compare_values: bool,
        sampling_seed: int,
        on_progress: Callable[[int, int], None],
        program_order: str = "forward",
        autotune: Any = "drawn",
        idle_kernels: bool = False,
    ) -> None:
        """``on_progress(done, total)`` counts programs of the running launch.

        ``program_order`` is ``forward``, ``reverse`` or ``random``. ``autotune`` says which configuration of
        autotuned kernels runs: ``first``; ``trial``, where an untuned kernel runs all of them once before, as
        on a GPU; or ``{"only": index}``. With ``idle_kernels`` launches are recorded and run no program.
        """
        self.max_programs = max_programs
        self.compare_values = compare_values
        self.sampling_seed = sampling_seed
        self.on_progress = on_progress
        self.program_order = program_order
        self.autotune = autotune
        self.idle_kernels = idle_kernels
        self.autotuned: dict[str, list[str]] = {}
        self.launches: list[LaunchRecord] = []
        self._findings: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._unsupported: dict[str, Any] | None = None
        self._stored: dict[int, tuple[Any, Region, int]] = {}

    @classmethod
    def current(cls) -> Session | None:
        """The session that launches are recorded in now."""
        return cls._active[-1] if cls._active else None

    def __enter__(self) -> Session:  # noqa: PYI034 - `Self` came with Python 3.11
        Session._active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        Session._active.remove(self)

    def report(self) -> dict[str, Any]:
        """Launches, findings and the unsupported feature, if any; valid after an exception too."""
        return {
            "launches": [launch.as_dict() for launch in self.launches],
            "findings": list(self._findings.values()),
            "unsupported": self._unsupported,
            "autotuned": [
                {"kernel": kernel, "configurations": configurations}
                for kernel, configurations in self.autotuned.items()
            ],
        }

    def add_finding(
        self,
        kind: str,
        message: str,
        place: Place,
        called_from: list[Place],
        kernel: str | None,
        program: tuple[int, int, int] | None,
    ) -> None:
        """Counts a finding; the first one of a kind and line keeps its message."""
        key = (kind, kernel, place["file"], place["line"])
        known = self._findings.get(key)
        if known is not None:
            known["occurrences"] += 1
        elif len(self._findings) < _MAX_FINDINGS:
            self._findings[key] = {
                "kind": kind,
                "kernel": kernel,
                "place": place,
                "called_from": called_from,
                "message": message,
                "program": list(program) if program is not None else None,
                "occurrences": 1,
            }

    def mark(self) -> tuple[int, frozenset[tuple[Any, ...]]]:
        """What was recorded up to now, for `forget_since`."""
        return len(self.launches), frozenset(self._findings)

    def forget_since(self, mark: tuple[int, frozenset[tuple[Any, ...]]]) -> None:
        """Drops launches and findings that came after the mark."""
        launches, known = mark
        del self.launches[launches:]
        self._findings = {key: finding for key, finding in self._findings.items() if key in known}

    def add_compile_error(self, error: TritonCompileError, kernel: str | None) -> None:
        """Records an error that ends the launch, in case the user's code swallows the exception."""
        if error.place is not None:
            self.add_finding("compile-error", str(error), error.place, error.called_from, kernel, None)

    def set_unsupported(self, error: InterpreterUnsupported) -> None:
        """The first missing feature decides."""
        if self._unsupported is None:
            self._unsupported = {"code": error.code, "message": str(error), "place": error.place}

    def remember_stores(self, tensors: list[tuple[Any, Region]]) -> None:
        """Keeps what a launch stored, while it is the only launch."""
        # Programs that hand each other work leave what the programs that were not run would have changed.
        hand_over = any(region.atomic is not None for _, region in tensors)
        if len(self.launches) > 1 or hand_over:
            self._stored.clear()
            return
        for tensor, region in tensors:
            # The tensor is kept, so that no later storage can be taken for it.
            self._stored[tensor.untyped_storage()._cdata] = (tensor, region, _version(tensor))

    def written_by_single_launch(self, tensor: Any) -> bool:
        """Whether one launch ran in this session and all that the tensor's storage holds was stored by it.

        Elements that still hold the poison of ``torch.empty`` hold nothing. Atomics do not count: what they
        leave also depends on programs that may not have run.
        """
        ran = [launch for launch in self.launches if launch.programs_run]
        if len(ran) != 1 or len(self.launches) != 1:
            return False
        stored = self._stored.get(tensor.untyped_storage()._cdata)
        if stored is None:
            return False
        _, region, version = stored
        if region.writer is None or region.atomic is not None or _version(tensor) != version:
            return False
        if region.low != tensor.untyped_storage().data_ptr():
            return False
        if region.uninitialised is not None:
            return region.uninitialised.only_stored_by(region, region.writer)
        return all(np.all(values != 0) for _, values in _whole(region))


def _whole(region: Region) -> list[tuple[int, np.ndarray]]:
    assert region.writer is not None
    chunks = list(region.writer.chunks())
    covered = sum(len(values) for _, values in chunks)
    # A page that was never touched is not among the chunks.
    return chunks if covered == region.length else [(0, np.zeros(1, np.int32))]


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except (RuntimeError, AttributeError):
        return sys.maxsize  # inference tensors have no counter
