"""Runs launches: all programs or a sample of them, one after another, under the checks."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .arguments import Arguments, base_of, resolved_grid
from .checks import Base, MemoryChecker
from .errors import (
    DeviceAssertFailed,
    FrontEndError,
    InterpreterUnsupported,
    Place,
    StaticAssertionFailed,
    TritonCompileError,
)
from .overflow import Overflow
from .session import LaunchRecord, Session

if TYPE_CHECKING:
    from .runtime import Runtime

# User code may replace what the module `time` holds.
_now_s = time.perf_counter
_PROGRESS_INTERVAL_S = 0.05
Program = tuple[int, int, int]


class StandIn:
    """Stands for the compiled kernel that a launch or a warm-up returns on a GPU."""

    n_regs = 32
    n_spills = 0

    class metadata:  # noqa: N801 - Triton's word
        """Only what host code sizes its grid by."""

        shared = 0
        num_warps = 4
        num_stages = 3
        num_ctas = 1

    def __init__(self, kernel: Any, named: dict[str, Any]) -> None:
        self._kernel = kernel
        self._named = named

    def _init_handles(self) -> None:
        """Loads nothing."""

    def __getitem__(self, grid: Any) -> Any:
        """Launches again; all arguments are given by position, as on a GPU."""
        return lambda *arguments: self._kernel.run(*arguments, grid=grid, warmup=False)


def launch(
    runtime: Runtime, kernel: Any, arguments: tuple[Any, ...], grid: Any, named: dict[str, Any]
) -> None:
    """One launch of a ``@triton.jit`` function. Raises what a launch may raise, after recording it."""
    session = Session.current()
    if session is not None:
        _launch_in(session, runtime, kernel, arguments, grid, named)
        return
    # At import, outside the judged call: runs, but nobody asks for the findings.
    unwatched = Session(max_programs=None, compare_values=True, sampling_seed=0, on_progress=lambda *_: None)
    _launch_in(unwatched, runtime, kernel, arguments, grid, named)


def _launch_in(
    session: Session,
    runtime: Runtime,
    kernel: Any,
    arguments: tuple[Any, ...],
    grid: Any,
    named: dict[str, Any],
) -> None:
    name = kernel.fn.__name__
    try:
        _Launch(session, runtime, kernel).run(arguments, grid, named)
    except TritonCompileError as error:
        if error.place is None:
            error.place = runtime.places.host() or runtime.definition_of(kernel)
        session.add_compile_error(error, name)
        raise
    except InterpreterUnsupported as error:
        if error.place is None:
            error.place = runtime.definition_of(kernel)
        session.set_unsupported(error)
        raise


class _Launch:
    def __init__(self, session: Session, runtime: Runtime, kernel: Any) -> None:
        self.session = session
        self.runtime = runtime
        self.kernel = kernel
        self.name = kernel.fn.__name__
        self.checker: MemoryChecker | None = None
        self.record: LaunchRecord | None = None
        self._converted: Arguments | None = None

    def run(self, arguments: tuple[Any, ...], grid: Any, named: dict[str, Any]) -> None:
        """Binds, checks what the launcher checks, and runs the programs."""
        signature = self.runtime.signature_of(self.kernel)
        bound = signature.bind(arguments, named)
        for hook in getattr(self.kernel, "pre_run_hooks", ()):
            hook(*arguments, **named)
        sizes = resolved_grid(grid, dict(bound))
        function = self._rewritten()
        record = self.record = self._new_record(sizes)
        self.session.launches.append(record)
        converted = self._converted = Arguments(
            self.runtime.uninitialised_storage, self.runtime.is_in_host_memory
        )
        values = {name: converted.convert(signature.parameters[name], value) for name, value in bound.items()}
        self.checker = MemoryChecker(
            converted.bases, self._report, self._report_overflow, self._other_tensors
        )
        start = _now_s()
        try:
            with np.errstate(all="ignore"), self.runtime.launching(self):
                if not self.session.idle_kernels:
                    self._run_programs(function, values, record)
        except DeviceAssertFailed:
            # Recorded. A GPU stops the kernel here too, and the launch itself has long returned.
            pass
        except Exception as error:
            explained = self._classified(error)
            if explained is error:
                raise
            raise explained from error
        finally:
            record.ms = (_now_s() - start) * 1e3
            self.session.remember_stores(converted.tensors)

    def _rewritten(self) -> FunctionType:
        try:
            return self.runtime.rewritten(self.kernel)
        except FrontEndError as error:
            raise TritonCompileError(str(error), self.runtime.definition_of(self.kernel)) from error

    def _new_record(self, grid: Program) -> LaunchRecord:
        place = self.runtime.definition_of(self.kernel)
        return LaunchRecord(self.name, place["file"], place["line"], grid, grid[0] * grid[1] * grid[2])

    def _run_programs(self, function: FunctionType, values: dict[str, Any], record: LaunchRecord) -> None:
        builder, checker = self.runtime.builder, self.checker
        assert checker is not None
        total, programs = self._selection(record)
        builder.set_grid_dim(*record.grid)
        next_report = _now_s() + _PROGRESS_INTERVAL_S
        for program in programs:
            builder.set_grid_idx(*program)
            checker.start_program(program)
            record.programs_run += 1
            function(**values)
            if _now_s() >= next_report:
                self.session.on_progress(record.programs_run, total)
                next_report = _now_s() + _PROGRESS_INTERVAL_S

    def _selection(self, record: LaunchRecord) -> tuple[int, Iterator[Program]]:
        limit = self.session.max_programs
        seed = f"{self.session.sampling_seed}/{len(self.session.launches)}"
        if limit is None or record.programs <= limit:
            return record.programs, self._ordered(record.grid, seed)
        chosen = sampled_programs(record.grid, limit, random.Random(seed))
        return len(chosen), iter(chosen)

    def _ordered(self, grid: Program, seed: str) -> Iterator[Program]:
        """All programs in the order that the session asks for; any order is right for a right kernel."""
        if self.session.program_order == "forward":
            return _all_programs(grid)
        programs = list(_all_programs(grid))
        if self.session.program_order == "reverse":
            programs.reverse()
        else:
            random.Random(seed).shuffle(programs)
        return iter(programs)

    # What the checks report

    def _report(self, kind: str, message: str) -> None:
        place, called_from = self.runtime.places.here()
        self._add(kind, message, place, called_from)

    def _report_overflow(self, overflow: Overflow) -> None:
        origin = overflow.origin
        callers = [{"file": file, "line": line} for file, line in origin.called_from]
        self._add("integer-overflow", origin.message, origin.place, callers)

    def _add(self, kind: str, message: str, place: Place | None, called_from: list[Place]) -> None:
        program = self.checker.program if self.checker is not None else None
        place = place or self.runtime.definition_of(self.kernel)
        self.session.add_finding(kind, message, place, called_from, self.name, program)

    def report(self, kind: str, message: str) -> None:
        """A finding of the builder at the running line."""
        self._report(kind, message)

    def report_overflow(self, overflow: Overflow) -> None:
        """A wrapped value decided an address or a branch."""
        self._report_overflow(overflow)

    def record_tf32(self) -> None:
        """The running line computes a float32 product in TF32."""
        place, _ = self.runtime.places.here()
        assert self.record is not None
        if place is not None and place not in self.record.tf32_dots:
            self.record.tf32_dots.append(place)

    def _other_tensors(self) -> list[Base]:
        assert self._converted is not None
        regions = {(base.region.low, base.region.nbytes): base.region for base in self._converted.bases}
        known = set(regions)
        others = []
        for candidate in gc.get_objects():
            if not issubclass(type(candidate), torch.Tensor) or candidate.layout != torch.strided:
                continue
            if candidate.device.type != "cpu":
                continue
            try:
                base = base_of(candidate, "another tensor", regions, self.runtime.uninitialised_storage)
            except (RuntimeError, NotImplementedError):
                continue  # fake and functional tensors have no memory
            if (base.region.low, base.region.nbytes) not in known:
                known.add((base.region.low, base.region.nbytes))
                others.append(base)
        return others

    # Errors

    def _classified(self, error: Exception) -> Exception:
        """Whose fault an exception from a kernel's body is."""
        if isinstance(error, TritonCompileError):
            return error
        place, called_from = self.runtime.places.of_traceback(error.__traceback__)
        place = place or self.runtime.definition_of(self.kernel)
        if isinstance(error, InterpreterUnsupported):
            error.place = error.place or place
            return error
        if isinstance(error, (MemoryError, RecursionError)):
            return error
        if isinstance(error, FrontEndError) or self.runtime.is_front_end(error):
            text = str(error) or type(error).__name__
            is_static_assertion = isinstance(error, StaticAssertionFailed)
            return TritonCompileError(text, place, called_from, is_static_assertion)
        return InterpreterUnsupported(f"{type(error).__name__}: {error} ({_raised_at(error)})", place=place)


def _raised_at(error: Exception) -> str:
    traceback: TracebackType | None = error.__traceback__
    last = traceback
    while traceback is not None:
        last, traceback = traceback, traceback.tb_next
    if last is None:
        return "unknown place"
    code = last.tb_frame.f_code
    return f"in {code.co_name} of {code.co_filename.rsplit('/', 1)[-1]}:{last.tb_lineno}"


def _all_programs(grid: Program) -> Iterator[Program]:
    """All programs, the first axis fastest, as a GPU hands them out."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                yield x, y, z


def sampled_programs(grid: Program, limit: int, generator: random.Random) -> list[Program]:
    """The corners of the grid and random programs, in launch order; corners even when over the limit."""
    chosen = {(x, y, z) for x in {0, grid[0] - 1} for y in {0, grid[1] - 1} for z in {0, grid[2] - 1}}
    total = grid[0] * grid[1] * grid[2]
    while len(chosen) < min(limit, total):
        number = generator.randrange(total)
        chosen.add((number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])))
    return sorted(chosen, key=lambda program: program[::-1])
