"""What the suites on a GPU share: Definitions, inputs, kernels from files, times, and compilation beforehand.

Nothing here touches CUDA when it is imported: `compile_beforehand` forks, and a fork after CUDA has started
has none.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
STARTERS = ROOT / "kernels" / "triton"
DEFINITIONS = ROOT / "kernels" / "definitions"
# Largest difference to the reference, as a share of its largest value: a check that a kernel is worth timing.
LOOSE = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 1e-3}

Sizes = dict[str, int]


def load_kernel(path: Path, name: str, *, keep_asserts: bool = True) -> ModuleType:
    """The module in a file, always anew. Without asserts, a kernel that insists on CUDA runs on a CPU."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if keep_asserts:
        spec.loader.exec_module(module)
    else:
        source = path.read_text("utf-8")
        exec(compile(source, str(path), "exec", optimize=1), module.__dict__)
    return module


def load_definition(name: str) -> dict[str, Any]:
    """A built-in Definition by its name."""
    (path,) = DEFINITIONS.glob(f"*/{name}.json")
    return json.loads(path.read_text("utf-8"))


def runner(definition: dict[str, Any], source: str) -> Callable[..., Any]:
    """The function `run` of a reference or a baseline."""
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{definition['name']}>", "exec"), namespace)
    return namespace["run"]


def complete(definition: dict[str, Any], sizes: Sizes) -> Sizes:
    """Sizes with the axes that follow from others."""
    derived = definition["warpsmith"].get("derived", {})
    return sizes | {axis: evaluated(text, sizes) for axis, text in derived.items()}


def evaluated(expression: str, sizes: Sizes, itemsize: int = 0) -> int:
    """The value of a Definition's expression over axes."""
    return int(eval(expression, {"__builtins__": {}}, {**sizes, "itemsize": itemsize}))


def draw_inputs(
    definition: dict[str, Any], sizes: Sizes, dtype: torch.dtype, device: str, seed: int = 17
) -> dict[str, Any]:
    """Random tensors as the Definition says, and its scalars, by name."""
    generator = torch.Generator(device=device).manual_seed(seed)
    extras = definition["warpsmith"]
    sizes = complete(definition, sizes)
    inputs: dict[str, Any] = {}
    for name, spec in definition["inputs"].items():
        if spec["shape"] is None:
            inputs[name] = extras["args"][name]
            continue
        shape = [sizes[axis] for axis in spec["shape"]]
        ((kind, (first, second)),) = extras["inputs"][name].items()
        if kind == "int":
            low, high = (evaluated(str(bound), sizes) for bound in (first, second))
            inputs[name] = torch.randint(low, high, shape, generator=generator, device=device)
            continue
        tensor = torch.empty(shape, dtype=dtype, device=device)
        if kind == "normal":
            tensor.normal_(first, second, generator=generator)
        else:
            tensor.uniform_(first, second, generator=generator)
        inputs[name] = tensor
    return inputs


def options(definition: dict[str, Any]) -> dict[str, Any]:
    """What the Definition fixes of an entry's arguments and its reference has built in."""
    arguments = definition["warpsmith"].get("args", {})
    return {name: value for name, value in arguments.items() if name not in definition["inputs"]}


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference as a share of the largest expected value; infinite for another shape or NaN."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    apart = (found.float() - expected.float()).abs().max().item()
    most = expected.float().abs().max().item()
    share = apart / most if most else apart
    return share if share == share else float("inf")


def times_us(call: Callable[[], Any], warmup_ms: float, measured_ms: float) -> list[float]:
    """Times of single calls in µs, by CUDA events, with the L2 cache overwritten before each."""
    import triton.testing

    samples = triton.testing.do_bench(call, warmup=warmup_ms, rep=measured_ms, return_mode="all")
    return [1000.0 * sample for sample in samples]


def summary(samples: Sequence[float]) -> dict[str, float]:
    """Number of samples and their 0.1, 0.5 and 0.9 quantiles (nearest rank)."""
    ordered = sorted(samples)
    at = {f"p{int(100 * q)}": ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.1, 0.5, 0.9)}
    return {"n": len(ordered), **{name: round(value, 3) for name, value in at.items()}}


def compile_beforehand(
    job: Callable[[Any], str | None], items: Sequence[Any], processes: int, timeout_s: float
) -> list[str | None]:
    """Runs `job` on every item in forked processes, so that Triton's cache holds its kernels afterwards.

    Returns what each job returned: None, or why it failed; those that were not finished in time say so. Must
    be called before this process has used CUDA.
    """
    import triton  # noqa: F401 — once, not in every process

    unfinished = f"not compiled within {timeout_s:.0f} s"
    results: list[str | None] = [unfinished] * len(items)
    end = time.monotonic() + timeout_s
    pool = multiprocessing.get_context("fork").Pool(processes)
    try:
        waiting = [pool.apply_async(job, (item,)) for item in items]
        for index, result in enumerate(waiting):
            try:
                results[index] = result.get(timeout=max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                continue
    finally:
        pool.terminate()
        pool.join()
    return results


def said_by(command: Sequence[str]) -> str | None:
    """What a command prints, or None where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=ROOT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def machine() -> dict[str, Any]:
    """GPU, driver and versions, for a record. Starts CUDA."""
    import triton

    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "driver": said_by(query),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
        },
    }
