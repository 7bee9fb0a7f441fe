"""What host code around kernels asks of a GPU: autotuning, benchmarks and the active driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import tuning
from .session import Session

PLACEHOLDER_MS = 1.0
"""Every benchmark answers this. Not zero, since host code divides by it."""

_MULTIPROCESSORS = 132
_DEVICE_PROPERTIES = {
    "max_shared_mem": 232_448,
    "max_num_regs": 65_536,
    "multiprocessor_count": _MULTIPROCESSORS,
    "warpSize": 32,
    "sm_clock_rate": 1_980_000,
    "mem_clock_rate": 2_619_000,
    "mem_bus_width": 5_120,
}


def install() -> None:
    """Replaces the driver, `triton.testing.do_bench*` and the autotuner's benchmark. Once a process."""
    import triton
    import triton.testing
    from triton.runtime import autotuner
    from triton.runtime.driver import driver

    driver.set_active(_driver())
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, do_bench)
    tuning.install(autotuner.Autotuner, PLACEHOLDER_MS)
    stock_run = autotuner.Autotuner.run

    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        session = Session.current()
        config = None if session is None else _only_configuration(self, session, arguments, named)
        if config is None:
            return stock_run(self, *arguments, **named)
        self.best_config = config
        chosen = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **named, **chosen})
        return self.fn.run(*arguments, **named, **chosen)

    autotuner.Autotuner.run = run


def do_bench(
    fn: Callable[[], Any],
    *_positional: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_options: Any,
) -> Any:
    """Runs the function once and answers a placeholder in the shape that was asked for."""
    fn()
    if quantiles is not None:
        answers = [PLACEHOLDER_MS] * len(quantiles)
        return answers[0] if len(answers) == 1 else answers
    return [PLACEHOLDER_MS] if return_mode == "all" else PLACEHOLDER_MS


def _only_configuration(tuner: Any, session: Session, arguments: tuple[Any, ...], named: Any) -> Any:
    """Notes the configurations of a kernel, and gives the one that alone is to run, if one is.

    It runs as it does in every call after the tuning: with its own hook, without the tuner's.
    """
    tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
    several = len(tuner.configs) > 1
    configs = tuning.in_order(tuner, named) if several else list(tuner.configs)
    kernel = getattr(tuner.base_fn, "__name__", "kernel")
    session.autotuned.setdefault(kernel, [_described(config) for config in configs])
    if not isinstance(session.autotune, dict):
        return None
    index = session.autotune["only"]
    return configs[index if index < len(configs) else 0]


def _described(config: Any) -> str:
    """What of a configuration matters to an interpreter: its constants."""
    words = [f"{name}={value}" for name, value in config.kwargs.items()]
    if config.pre_hook is not None:
        words.append(f"pre_hook={getattr(config.pre_hook, '__name__', 'yes')}")
    return " ".join(words)


class _Utilities:
    """``driver.active.utils``."""

    @staticmethod
    def get_device_properties(device: int = 0) -> dict[str, int]:
        return dict(_DEVICE_PROPERTIES)


def _driver() -> Any:
    from triton.backends.compiler import GPUTarget

    class Sm90Driver:
        """Answers like an H100 where host code only asks; nothing is ever launched through it."""

        utils = _Utilities()

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            """There is only one."""

        def get_current_stream(self, device: int | None = None) -> int:
            return 0

        def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
            return (9, 0)

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cpu")

        def get_benchmarker(self) -> Any:
            return do_bench

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(0)

        def clear_cache(self, cache: Any) -> None:
            """Nothing is cached."""

    return Sm90Driver()
