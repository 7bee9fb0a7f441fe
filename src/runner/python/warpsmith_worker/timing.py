"""Timing in a code runner's process: the ops that the supervisor's `timing_session` asks for.

| op | done |
| --- | --- |
| `time-open` | entries and method, after everything was compiled |
| `time-sample` | one sample |
| `time-claim` | one batch that is held against the supervisor's clock |
| `time-keep` | outputs of the last call of the latest sample, copied into the memory of the case |
| `time-close` | nothing; all memory of the timing is given back |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import memory
from .channel import Message
from .dtypes import by_name
from .event_clock import Clock, CudaClock
from .launches import unrecorded_launches
from .returned import flatten, hand_over
from .sampler import Call, Sampler
from .timing_pool import BITS, Pool, turned

OPS = ("time-open", "time-sample", "time-claim", "time-keep", "time-close")

# Pools of both sides leave most of the GPU to what is timed.
_SHARE_OF_FREE = 8
_POOL_OF_L2 = 2
# As an integer of the same size: NaN in every float.
_SPOILED = -1


class NotOpen(RuntimeError):
    """A sample was asked for before `time-open`."""


@contextlib.contextmanager
def counting_compiles() -> Iterator[Callable[[], int]]:
    """How many times Triton has compiled something in this process since it was entered."""
    count = 0
    try:
        from triton import knobs

        runtime: Any = knobs.runtime
        earlier = runtime.jit_post_compile_hook
    except (ImportError, AttributeError):
        yield lambda: 0
        return

    def compiled(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return None if earlier is None else earlier(*args, **kwargs)

    runtime.jit_post_compile_hook = compiled
    try:
        yield lambda: count
    finally:
        runtime.jit_post_compile_hook = earlier


class Timing:
    """The entry of a runner, timed on a pool of copies of a case."""

    def __init__(
        self,
        memory_of: Callable[[Message, list[int]], Any],
        bind: Callable[[dict[str, Any]], Call],
        is_refused: Callable[[torch.Tensor], bool],
        deliver: Callable[[], None],
        make_clock: Callable[[], Clock] = CudaClock,
        refuse_threads: Callable[[], None] = lambda: None,
    ) -> None:
        """`memory_of` maps a case as `run` does; `bind` makes a plain call of the entry of its arguments.

        `deliver` lets the judge see what was written into the memory of the case. `refuse_threads` raises
        when a thread of the user's runs: what it does would be in no call, or beside those of the other side.
        """
        self._memory_of = memory_of
        self._bind = bind
        self._is_refused = is_refused
        self._deliver = deliver
        self._refuse_threads = refuse_threads
        self._make_clock = make_clock
        self._clock: Clock | None = None
        self._forget()

    def _forget(self) -> None:
        self._case: Any = None
        self._pool: Pool | None = None
        self._sampler: Sampler | None = None
        self._destinations: list[dict[str, torch.Tensor]] = []
        """Where the calls of each entry write."""
        self._spoils = True
        """Whether what was returned may be overwritten."""

    def answer(self, request: Message, descriptors: list[int]) -> Message:
        """What is `done`. Raises what the entry raised, or NotOpen."""
        op = request["op"]
        if op == "time-open":
            return self._open(request, descriptors)
        if op == "time-close":
            return self._close()
        if self._sampler is None:
            raise NotOpen("nothing is being timed")
        if op == "time-keep":
            return self._keep()
        if op == "time-sample":
            self._unlike_before()
            done = self._sampler.sample(request["cold_calls"], request["warm_calls"])
        else:
            done = self._sampler.claim(request["calls"], empty=request["empty"])
        self._refuse_threads()
        return done

    def _open(self, request: Message, descriptors: list[int]) -> Message:
        self._forget()
        self._spoils = request.get("spoils", True)
        case = self._case = self._memory_of(request, descriptors)
        if self._clock is None:
            self._clock = self._make_clock()
        clock = self._clock
        pool = self._pool = Pool(
            case.inputs, _POOL_OF_L2 * clock.l2_bytes, clock.free_bytes() // _SHARE_OF_FREE
        )
        sampler = self._sampler = Sampler(clock, self._calls(request["arguments"], pool), self._spoil)
        launched_before = unrecorded_launches()
        with counting_compiles() as compiled:
            sampler.warm_up(compiled)
        launches = unrecorded_launches() - launched_before
        pool.settle()
        sampler.decide()
        self._refuse_threads()
        return {
            "pool_entries": len(pool.entries),
            "pool_bytes": pool.bytes,
            "flush_bytes": clock.flush_bytes,
            "flush_us": sampler.flush_us,
            "method": "events" if sampler.graphs is None else "graph",
            "graph_refused": sampler.graph_refused,
            "is_host_bound": sampler.is_host_bound,
            "host_us": sampler.host_us,
            "call_us": sampler.call_us,
            "launches": launches,
        }

    def _calls(self, arguments: list[Message], pool: Pool) -> list[Call]:
        calls = []
        for entry in pool.entries:
            destinations = {
                item["output"]: _destination_like(self._case, item["output"])
                for item in arguments
                if "output" in item
            }
            self._destinations.append(destinations)
            values = {item["parameter"]: _value_of(item, entry, destinations) for item in arguments}
            calls.append(self._bind(values))
        return calls

    def _unlike_before(self) -> None:
        """Before each sample: whoever only kept what an earlier call gave is wrong.

        What the sample before returned is spoiled, and another entry has the values of the case. A graph
        reads and writes at the same addresses every time, and remembers nothing in Python; it spoils its own.
        """
        sampler = self._sampler
        if sampler.graphs is not None:
            return
        self._spoil(sampler.last)
        # Where there is no room for a copy, the entry stays where it is.
        with contextlib.suppress(torch.OutOfMemoryError):
            at = self._pool.turn()
            for turning in (sampler.calls, self._destinations):
                turned(turning, at)
        self._pool.settle()
        # Of the sample nothing of that is to be timed.
        self._clock.synchronise()

    def _spoil(self, returned: Any) -> None:
        """Overwrite outputs of entry 0; inputs that were returned stay."""
        if not self._spoils:
            return
        inputs = [value for value in self._pool.entries[0].values() if isinstance(value, torch.Tensor)]
        kept = {value.untyped_storage().data_ptr() for value in inputs}
        for value in [*flatten(returned), *self._destinations[0].values()]:
            # A user's class, or memory that several elements share: nothing is known of it.
            with contextlib.suppress(Exception):
                if type(value) is torch.Tensor and value.untyped_storage().data_ptr() not in kept:
                    value.detach().view(BITS[value.element_size()]).fill_(_SPOILED)

    def _keep(self) -> Message:
        returned = self._sampler.last
        if self._destinations[0]:
            self._case.destinations = self._destinations[0]
            returned = self._case.written(returned)
        values = flatten(returned)
        outputs = [*self._case.outputs, *[None] * len(values)]
        described = [
            hand_over(value, output, self._pool.entries[0], None, self._is_refused, copies=True)
            for value, output in zip(values, outputs, strict=False)
        ]
        self._clock.synchronise()
        self._deliver()
        return {"outputs": described}

    def _close(self) -> Message:
        self._forget()
        if self._clock is not None:
            clock, self._clock = self._clock, None
            clock.release()
        return {}


def _value_of(item: Message, entry: dict[str, Any], destinations: dict[str, torch.Tensor]) -> Any:
    if "output" in item:
        return destinations[item["output"]]
    return entry[item["input"]] if "input" in item else item["value"]


def _destination_like(case: Any, name: str) -> torch.Tensor:
    """Memory for one output that the entry writes into, where the case has its own."""
    output = next(item for item in case.outputs if item.spec["name"] == name)
    shape = output.spec["shape"]
    device = case.destinations[name].device
    strides = memory.contiguous_strides(shape)
    return torch.empty_strided(
        tuple(shape), tuple(strides), dtype=by_name(output.spec["dtype"]).torch, device=device
    )
