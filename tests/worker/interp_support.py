"""Loads the interpreter once for all of its tests. Import before anything that imports Triton."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = os.path.join(ROOT, "tests", "worker", "fixtures", "interp")
STARTERS = os.path.join(ROOT, "kernels", "triton")
RENAMED_COPY = os.path.join(KERNELS, "places.py")
SHOWN_PATH = "/home/user/project/places.py"
sys.path.insert(0, os.path.join(ROOT, "src", "runner", "python"))

from warpsmith_worker import interpreter  # noqa: E402 - the environment is set first

interpreter.install(
    interpreter.UserPaths(text_path=RENAMED_COPY, path=SHOWN_PATH, folders=[KERNELS, STARTERS])
)

import torch  # noqa: E402
import triton.language as tl  # noqa: E402, F401 - tests take it from here, so that nothing imports it earlier
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402, F401

torch.set_num_threads(1)

_loaded: dict[str, ModuleType] = {}


def load(name: str, folder: str = KERNELS) -> ModuleType:
    """A file of kernels, imported once."""
    key = os.path.join(folder, name + ".py")
    if key not in _loaded:
        spec = importlib.util.spec_from_file_location("interp_kernels_" + name, key)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _loaded[key] = module
    return _loaded[key]


def session(
    max_programs: int | None = None, compare_values: bool = True, sampling_seed: int = 1, **options: Any
) -> interpreter.Session:
    """A session that runs everything unless told otherwise."""
    return interpreter.Session(
        max_programs=max_programs,
        compare_values=compare_values,
        sampling_seed=sampling_seed,
        on_progress=lambda *_: None,
        **options,
    )


def poisoned_empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`torch.empty` as the candidate's process makes it: filled with NaN or a pattern, and registered."""
    tensor = torch.empty(shape, dtype=dtype)
    tensor.untyped_storage().fill_(0xFF)
    interpreter.register_uninitialised(tensor)
    return tensor


def kinds(report: dict[str, Any]) -> list[str]:
    """The kinds of the findings."""
    return [finding["kind"] for finding in report["findings"]]


def line_of(module: ModuleType, marker: str) -> int:
    """1-based number of the line that ends with the comment ``# <marker>``."""
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if text.rstrip().endswith("# " + marker):
                return number
    raise AssertionError(f"no line is marked {marker}")
