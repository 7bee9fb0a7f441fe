"""What host code around kernels asks of a GPU: autotuning, benchmarks and the active driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import tuning

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


def _no_benchmark(
    _kernel_call: Callable[[], Any], quantiles: Sequence[float] = (), **_options: Any
) -> list[float]:
    return [PLACEHOLDER_MS] * max(1, len(quantiles))


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
            return _no_benchmark

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(0)

        def clear_cache(self, cache: Any) -> None:
            """Nothing is cached."""

    return Sm90Driver()
