"""What a GPU reaches at best, measured by the judge: bandwidth by bytes moved, matrix rates, launch floor.

Bandwidth is timed as kernels are (`sampler`): L2 flushed before each call, below 20 µs by graphs. So a kernel
and a copy of the same bytes are held against each other on the same scale.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .channel import Message
from .event_clock import Clock, CudaClock
from .sampler import Sampler

# 8 MB to 4.3 GB.
BANDWIDTH_BYTES = tuple(1 << power for power in (23, 24, 25, 26, 27, 28, 29, 30, 32))
MATRIX_SIDES = (4096, 8192)
MATRIX_KINDS = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "tf32": torch.float32,
    "float32": torch.float32,
    "float64": torch.float64,
}
_SHARE_OF_FREE = 4
_BANDWIDTH_SAMPLES = 9
_BANDWIDTH_CALLS = 5
_MATRIX_SAMPLES = 7
_MATRIX_WARM_UPS = 3
_LAUNCHES = 100
_LAUNCH_SAMPLES = 9
# Of the wall clock, after which nothing new is begun.
_PLANNED_SHARE = 0.85


def measure(wall_s: float, only_bytes: int | None = None, clock: Clock | None = None) -> Message:
    """`MeasuredCeilings` of the protocol; what does not fit into the time or the memory is left out.

    With ``only_bytes`` nothing but a copy and a sum that move so many bytes, rounded to whole elements.
    Raises NoGpu.
    """
    return Ceilings(clock or CudaClock(), wall_s).measure(only_bytes)


class Ceilings:
    """One measurement of everything. Its tensors lie where `device` says; tests say the CPU."""

    def __init__(self, clock: Clock, wall_s: float, device: str = "cuda") -> None:
        self.clock = clock
        self.device = device
        self.began_us = clock.now_us()
        self.until_us = self.began_us + wall_s * 1e6 * _PLANNED_SHARE
        self.most_bytes = clock.free_bytes() // _SHARE_OF_FREE

    def measure(self, only_bytes: int | None = None) -> Message:
        launch_floor_us, matrix = None, []
        if only_bytes is None:
            launch_floor_us = self.launch_floor_us()
            copy, read = self.bandwidth()
            matrix = self.matrix()
        else:
            # A copy of float32 moves each element twice.
            copy, read = self.bandwidth((max(only_bytes // 8 * 8, 8),))
        found = {"copy": copy, "read": read, "matrix": matrix, "launch_floor_us": launch_floor_us}
        self.clock.release()
        return {**found, "took_s": (self.clock.now_us() - self.began_us) / 1e6}

    @property
    def has_time(self) -> bool:
        return self.clock.now_us() < self.until_us

    # --- bandwidth ---

    def bandwidth(self, sizes: tuple[int, ...] = BANDWIDTH_BYTES) -> tuple[list[Message], list[Message]]:
        """Points of a copy and of a sum."""
        fitting = [size for size in sizes if size + size // 2 <= self.most_bytes]
        if not fitting:
            return [], []
        largest = max(fitting)
        # Random values: a GPU may store zeros in less room.
        source = torch.empty(largest // 4, dtype=torch.float32, device=self.device).normal_()
        target = torch.empty(largest // 8, dtype=torch.float32, device=self.device)
        copy, read = [], []
        for size in fitting:
            moved, summed = source[: size // 8], source[: size // 4]
            into = target[: size // 8]
            copy += self._point(size, lambda into=into, moved=moved: into.copy_(moved))
            read += self._point(size, lambda summed=summed: summed.sum())
        return copy, read

    def _point(self, size: int, call: Callable[[], Any]) -> list[Message]:
        if not self.has_time:
            return []
        sampler = Sampler(self.clock, [call])
        sampler.warm_up(lambda: 0)
        sampler.decide()
        taken = [sampler.sample(_BANDWIDTH_CALLS, 1)["cold_us"] for _ in range(_BANDWIDTH_SAMPLES)]
        return [{"bytes": size, "time_us": statistics.median(taken)}]

    # --- matrix products ---

    def matrix(self, sides: tuple[int, ...] = MATRIX_SIDES) -> list[Message]:
        """The best rate of each kind over the sides."""
        rates = []
        for kind, dtype in MATRIX_KINDS.items():
            tried = [rate for side in sides if (rate := self._rate(kind, dtype, side)) is not None]
            if tried:
                rates.append(max(tried, key=lambda rate: rate["flops_per_s"]))
        return rates

    def _rate(self, kind: str, dtype: torch.dtype, side: int) -> Message | None:
        if not self.has_time or 3 * side * side * dtype.itemsize > self.most_bytes:
            return None
        one, other = (torch.randn(side, side, device=self.device, dtype=dtype) for _ in range(2))
        product = torch.empty_like(one)
        with _tf32(kind == "tf32"):
            for _ in range(_MATRIX_WARM_UPS):
                torch.mm(one, other, out=product)
            taken_us = [
                self._once_us(lambda: torch.mm(one, other, out=product)) for _ in range(_MATRIX_SAMPLES)
            ]
        self.clock.forget_events()
        took_us = statistics.median(taken_us)
        # Each of side² elements is a sum of side products.
        return {"kind": kind, "flops_per_s": 2 * side**3 / (took_us * 1e-6), "side": side}

    def _once_us(self, call: Callable[[], Any]) -> float:
        begin = self.clock.record()
        call()
        end = self.clock.record()
        self.clock.synchronise()
        return self.clock.elapsed_us(begin, end)

    # --- launches ---

    def launch_floor_us(self) -> float | None:
        """µs of a launch in a graph of launches of a kernel on one element; None without graphs."""
        one = torch.zeros(1, device=self.device)

        def launches() -> None:
            for _ in range(_LAUNCHES):
                one.add_(1)

        one.add_(1)
        try:
            graph = self.clock.capture(launches)
        except Exception:
            return None
        taken_us = []
        for _ in range(_LAUNCH_SAMPLES):
            # The host submits the replay while the GPU is busy with this.
            self.clock.flush()
            taken_us.append(self._once_us(graph.replay) / _LAUNCHES)
        self.clock.forget_events()
        return statistics.median(taken_us)


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Whether products of float32 may be computed in TF32."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_tf32
    settings.allow_tf32 = allowed
    try:
        yield
    finally:
        settings.allow_tf32 = before
