"""What the tests on a GPU share: one worker, and short words for what they ask of it."""

import time
from typing import Any

from tests.worker import client
from tests.worker.client import DOUBLE, NORMAL, SOFTMAX, TOLERANCE, Worker, output, tensor

DEVICE_LIMITS = {"device_bytes": 64 << 30, "resident_bytes": 32 << 30}
IDENTITY = "def run(x):\n    return x.clone()\n"
HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


# A worker that says nothing for so long hangs; time on a GPU is dear.
client._PATIENCE_S = 60.0


class Bench:
    """One worker for all tests that need none of their own."""

    def __init__(self, device: tuple[str, str] | None) -> None:
        self.device = device
        self.warm: dict[str, Any] = {}
        self._worker: Worker | None = None
        self._others: list[Worker] = []
        self._cases: list[str] = []
        self._runners: list[str] = []

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            self._worker = self._started({})
            self.warm = self._worker.event("warm")
        return self._worker

    def own_worker(self, **environment: str) -> Worker:
        """Another one, ended after the test."""
        worker = self._started(environment)
        self._others.append(worker)
        return worker

    def _started(self, environment: dict[str, str]) -> Worker:
        worker = Worker(environment=environment, device=self.device)
        for name, source in (("double", DOUBLE), ("softmax", SOFTMAX), ("identity", IDENTITY)):
            reply = worker.define(name, source)
            if reply.get("done") != {}:
                told = worker.stderr()
                worker.close()
                raise AssertionError(f"define {name}: {reply}\n{told}")
        return worker

    def stderr(self) -> str:
        return self._worker.stderr() if self._worker is not None else ""

    def clean(self) -> None:
        """After a test: close what it opened."""
        for worker in self._others:
            worker.close()
        if self._worker is not None and self._worker.process.poll() is None:
            for runner in self._runners:
                self._worker.ask("close", runner=runner)
            for case in self._cases:
                self._worker.ask("release", case=case)
        self._others, self._cases, self._runners = [], [], []

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    # --- words ---

    def try_open(self, source: str, **changes: Any) -> tuple[str, dict[str, Any]]:
        runner = self.worker.fresh("runner")
        self._runners.append(runner)
        return runner, self.worker.open_source(source, runner, **{**DEVICE_LIMITS, **changes})

    def opened(self, source: str, **changes: Any) -> str:
        runner, reply = self.try_open(source, **changes)
        check("done" in reply, f"open: {reply}")
        return runner

    def case(
        self,
        shape: list[int],
        dtype: str = "float32",
        definition: str = "double",
        seed: int = 7,
        outputs: list[dict[str, Any]] | None = None,
        **changes: Any,
    ) -> str:
        made = [output("y", shape, dtype)] if outputs is None else outputs
        case = self.worker.prepare(definition, [tensor("x", shape, dtype, **changes)], made, seed=seed)
        self._cases.append(case)
        return case

    def run(self, runner: str, case: str, **changes: Any) -> dict[str, Any]:
        """What a run said that must not raise."""
        reply = self.worker.run_case(runner, case, **changes)
        check("done" in reply, f"run: {reply}")
        return reply["done"]

    def raised(self, source: str, shape: list[int] | None = None, **changes: Any) -> dict[str, Any]:
        """How a call raises; afterwards another kernel must work."""
        opens = {key: changes.pop(key) for key in ("blocking", "device_bytes") if key in changes}
        runner = self.opened(source, **opens)
        reply = self.worker.run_case(runner, self.case(shape or [1024]), **changes)
        check("raised" in reply, f"nothing was raised: {reply}")
        self.still_works()
        return reply["raised"] | {"runner": runner}

    def compare(self, case: str, **changes: Any) -> dict[str, Any]:
        reply = self.worker.compare(case, **changes)
        check("done" in reply, f"compare: {reply}")
        return reply["done"]

    def errors(self, source: str, case: str, **changes: Any) -> dict[str, Any]:
        """What is measured on the only output after a run."""
        self.run(self.opened(source), case, **changes)
        return self.compare(case)["outputs"][0]

    def still_works(self) -> None:
        errors = self.errors("def kernel_fn(x):\n    return x * 2\n", self.case([64]))
        equal((errors["violations"], errors["elements_compared"]), (0, 64))

    def ask_done(self, op: str, **fields: Any) -> dict[str, Any]:
        reply = self.worker.ask(op, **fields)
        check("done" in reply, f"{op}: {reply}")
        return reply["done"]


def check(holds: bool, told: str) -> None:
    if not holds:
        raise AssertionError(told)


def equal(got: Any, expected: Any) -> None:
    check(got == expected, f"got {got!r}, expected {expected!r}")


def contains(text: str, *words: str) -> None:
    for word in words:
        check(word in text, f"{word!r} is not in {text!r}")


def timed(function: Any) -> float:
    began = time.monotonic()
    function()
    return time.monotonic() - began


__all__ = [
    "DEVICE_LIMITS",
    "HEADER",
    "NORMAL",
    "TOLERANCE",
    "Bench",
    "check",
    "contains",
    "equal",
    "output",
    "tensor",
    "timed",
]
