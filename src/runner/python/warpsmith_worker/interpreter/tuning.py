"""What `triton.autotune` does where nothing can be timed.

On a GPU any of the configurations may win, so each of them has to be right. Here one is drawn for each
tuning from what the kernel is called with, so that a check goes through many of them and a replay through
the same ones. As on a GPU it has run before it is chosen: a kernel that adds to what it finds is then as
wrong as it would be there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from .errors import TritonCompileError
from .session import Session

_ROUND = "_warpsmith_round"
_IN_ORDER = "_warpsmith_prune"


class _Round:
    """One tuning: the configurations in the order in which they are tried."""

    def __init__(self) -> None:
        self.chosen = False


def install(autotuner: Any, placeholder_ms: float) -> None:
    """Replaces how an `Autotuner` prunes and measures. Once a process."""
    prune = autotuner.prune_configs
    setattr(autotuner, _IN_ORDER, prune)

    def prune_configs(self: Any, kwargs: dict[str, Any]) -> list[Any]:
        configs = list(prune(self, kwargs))
        vars(self)[_ROUND] = _Round()
        first = _first_choice(self, configs)
        return configs[first:] + configs[:first]

    def measure_of(self: Any) -> Callable[..., list[float]]:
        def measure(kernel_call: Callable[[], Any], quantiles: Sequence[float] = (), **_options: Any) -> Any:
            fits = _try(vars(self).setdefault(_ROUND, _Round()), kernel_call)
            # Of equal times the first one wins, which is the one that was run.
            return [placeholder_ms if fits else float("inf")] * max(1, len(quantiles))

        return measure

    autotuner.prune_configs = prune_configs
    autotuner.do_bench = property(measure_of)


def in_order(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The configurations that pruning leaves, in the user's order."""
    return list(getattr(tuner, _IN_ORDER)(kwargs))


def _try(tuning: _Round, kernel_call: Callable[[], Any]) -> bool:
    """Runs the configuration unless one is chosen already; false when it refuses these arguments."""
    session = Session.current()
    if session is not None and session.autotune == "trial":
        kernel_call()
        return True
    if tuning.chosen or session is None or session.max_programs is not None:
        # A sample of programs must be the only launch, or its values cannot be compared.
        return True
    mark = session.mark()
    try:
        kernel_call()
    except TritonCompileError as error:
        if not error.is_static_assertion:
            raise
        session.forget_since(mark)
        return False
    tuning.chosen = True
    return True


def _first_choice(tuner: Any, configs: Sequence[Any]) -> int:
    session = Session.current()
    if session is not None and session.autotune != "drawn":
        return 0
    accepted = getattr(tuner, "best_config", None)
    if session is None or session.max_programs is not None:
        return next((at for at, config in enumerate(configs) if config is accepted), 0)
    described = repr([_described(value) for value in tuner.nargs.values()])
    return zlib.crc32(described.encode()) % max(1, len(configs))


def _described(value: Any) -> Any:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(value.shape), str(value.dtype)
    return value if isinstance(value, (bool, int, float, str)) else None
