"""The names of all tests on a GPU."""

from collections.abc import Callable
from typing import Any

ALL: dict[str, tuple[Callable[..., None], bool]] = {}
"""Each test, and whether it needs a GPU."""


def test(function: Any = None, *, anywhere: bool = False) -> Any:
    """Add a test; `anywhere`: it means the same in the interpreter."""

    def add(named: Callable[..., None]) -> Callable[..., None]:
        ALL[named.__name__] = named, not anywhere
        return named

    return add if function is None else add(function)
