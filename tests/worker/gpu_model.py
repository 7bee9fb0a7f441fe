"""A GPU on paper: a host's clock, a queue of work, a side stream, and graphs; for tests without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ModelGraph:
    """Work of one capture; replaying it costs the host little."""

    def __init__(self, clock: ModelClock, works_us: list[float], returned: Any) -> None:
        self.clock = clock
        self.works_us = works_us
        self.returned = returned
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        self.clock.host(10.0)
        for work_us in self.works_us:
            self.clock.submit(work_us)


class ModelClock:
    """Implements `event_clock.Clock`; `submit` and `host` are what calls are made of."""

    def __init__(self, flush_us: float = 75.0, event_us: float = 0.0) -> None:
        self.l2_bytes = 1 << 20
        self.flush_bytes = 2 << 20
        self.flush_us = flush_us
        self.event_us = event_us
        self.host_now = 1_000.0
        self.gpu_free = 0.0
        self.side_free = 0.0
        self.flushes = 0
        self.shared_at: list[int] = []
        """After how many flushes L2 was given back."""
        self.capturing: list[float] | None = None
        self.error: Exception | None = None
        self.released = False
        self.free = 1 << 40

    def host(self, us: float) -> None:
        self.host_now += us

    def submit(self, us: float) -> None:
        """Work on the current stream."""
        if self.capturing is not None:
            self.capturing.append(us)
        else:
            self.gpu_free = max(self.gpu_free, self.host_now) + us

    def submit_aside(self, us: float) -> None:
        """Work on a stream that nobody waits for."""
        if self.capturing is not None:
            raise RuntimeError("unjoined work in a capture")
        self.side_free = max(self.side_free, self.host_now) + us

    def now_us(self) -> float:
        return self.host_now

    def free_bytes(self) -> int:
        return self.free

    def record(self) -> float:
        self.submit(self.event_us)
        return max(self.gpu_free, self.host_now)

    def elapsed_us(self, begin: float, end: float) -> float:
        return end - begin

    def forget_events(self) -> None:
        pass

    def synchronise(self) -> None:
        if self.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")
        self.host_now = max(self.host_now, self.gpu_free, self.side_free)
        if self.error is not None:
            raise self.error

    def share_l2(self) -> None:
        self.shared_at.append(self.flushes)

    def flush(self) -> None:
        self.flushes += 1
        self.host(2.0)
        self.submit(self.flush_us)

    def capture(self, body: Callable[[], Any]) -> ModelGraph:
        self.synchronise()
        self.capturing = []
        try:
            returned = body()
            return ModelGraph(self, self.capturing, returned)
        finally:
            self.capturing = None

    def release(self) -> None:
        self.released = True


def kernel(clock: ModelClock, host_us: float, gpu_us: float, returned: Any = None) -> Callable[[], Any]:
    """A call that takes that long on each."""

    def call() -> Any:
        clock.host(host_us)
        clock.submit(gpu_us)
        return returned

    return call
