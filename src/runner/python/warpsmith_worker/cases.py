"""The supervisor's record of prepared cases: descriptions and descriptors of their tensors, never values."""

import os
from collections.abc import Callable
from typing import Any

from .runners import Outcome, failed

TensorRecord = dict[str, Any]
"""Description of one input or output, as the judge gave it."""


class Case:
    """One case: `preparing`, then `ready`, `failed`, or `lost` when the judge ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "preparing"
        self.why_not_ready: Outcome = {}
        self.inputs: dict[str, TensorRecord] = {}
        self.outputs: list[TensorRecord] = []
        self.runs = 0
        self.busy = False
        """A candidate runs on it, or the judge compares it."""
        self._descriptors: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []
        self._waiting_for_rest: list[Callable[[], None]] = []

    def fill(self, done: dict[str, Any], descriptors: list[int]) -> None:
        """Take what the judge prepared; descriptors belong to the tensors with memory, in order."""
        self.inputs = {item["name"]: item for item in done["inputs"]}
        self.outputs = done["outputs"]
        with_memory = [item for item in done["inputs"] + done["outputs"] if item.get("has_memory")]
        self._descriptors = {
            item["key"]: descriptor for item, descriptor in zip(with_memory, descriptors, strict=True)
        }
        self.state = "ready"

    def fail(self, state: str, why: Outcome) -> None:
        """It cannot be used (any more)."""
        self.close()
        self.state = state
        self.why_not_ready = why

    def when_settled(self, action: Callable[[], None]) -> None:
        """Do it once the case is no longer being prepared."""
        if self.state == "preparing":
            self._waiting.append(action)
        else:
            action()

    def settle(self) -> None:
        """Do what waited."""
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def when_idle(self, action: Callable[[], None]) -> None:
        """Do it once nobody works on it; it is busy now."""
        self._waiting_for_rest.append(action)

    def rest(self) -> None:
        """Nobody works on it any more: do what waited for that."""
        self.busy = False
        waiting, self._waiting_for_rest = self._waiting_for_rest, []
        for action in waiting:
            action()

    def arguments_of(self, arguments: list[dict[str, Any]]) -> list[TensorRecord]:
        """The inputs that the arguments name, each once. Raises KeyError on an unknown input."""
        named = [item["input"] for item in arguments if "input" in item]
        return list({name: self.inputs[name] for name in named}.values())

    def check_outputs_of(self, arguments: list[dict[str, Any]]) -> None:
        """Raises KeyError when an argument names an output that the case has not."""
        known = {item["name"] for item in self.outputs}
        for item in arguments:
            if "output" in item and item["output"] not in known:
                raise KeyError(item["output"])

    def descriptors_of(self, items: list[TensorRecord]) -> list[int]:
        """Copies of the descriptors of the tensors with memory, in order."""
        return [os.dup(self._descriptors[item["key"]]) for item in items if item.get("has_memory")]

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}


class Cases:
    """All cases by name."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}

    def add(self, name: str) -> Case:
        """A new case, being prepared. Raises ValueError when the name is taken."""
        if name in self._cases:
            raise ValueError(f"case {name} exists already")
        case = self._cases[name] = Case(name)
        return case

    def get(self, name: str) -> Case | None:
        return self._cases.get(name)

    def prepared(self, case: Case, outcome: Outcome, descriptors: list[int]) -> None:
        """The judge answered."""
        if "done" not in outcome:
            case.fail("failed", outcome)
        elif self._cases.get(case.name) is case:
            case.fill(outcome["done"], descriptors)
            return
        else:
            case.fail("lost", failed("unknown-case", f"case {case.name} was released"))
        for descriptor in descriptors:
            os.close(descriptor)

    def remove(self, name: str) -> Case | None:
        case = self._cases.pop(name, None)
        if case is not None:
            case.close()
        return case

    def lose_all(self, why: Outcome) -> None:
        """The judge ended: what it had prepared is gone."""
        for case in self._cases.values():
            if case.state == "ready":
                case.fail("lost", why)
