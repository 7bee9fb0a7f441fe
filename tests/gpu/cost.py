"""What each step of a case costs on a GPU: `python tests/gpu/cost.py OUT_DIR`.

Prints, for small and large cases, the median milliseconds of making the inputs, the call, the comparison and
the release, as the server sees them, and writes them to OUT_DIR/cost.json with date, versions and GPU.
Nothing is asserted.
"""

import datetime
import importlib.metadata
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.kernels import SOFTMAX_KERNEL
from tests.worker.client import SOFTMAX, TOLERANCE, Worker, output, tensor

CASES = (
    ([5, 67], "float32", 0.0),
    ([5, 67], "float16", 1.0),
    ([123, 128], "bfloat16", 0.0),
    ([1024, 1024], "float16", 0.0),
    ([8192, 8192], "float16", 0.0),
    ([65536, 2048], "float32", 0.0),
)
REPEATS = 7


def main(out: Path) -> None:
    """Measure and write."""
    worker = Worker(device=("cuda:0", uuid()))
    began = time.perf_counter()
    worker.define("softmax", SOFTMAX)
    worker.open_source(SOFTMAX_KERNEL, "runner")
    print(f"ready after {time.perf_counter() - began:.2f} s")
    rows = [measured(worker, *case) for case in CASES]
    opened = [timed(lambda at=at: worker.open_source(SOFTMAX_KERNEL, f"again{at}")) for at in range(3)]
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "triton", "numpy")},
        "gpu": worker.event("warm").get("device"),
        "n": REPEATS,
        "unit": "ms",
        "rows": rows,
        "open_ms": opened,
    }
    (out / "cost.json").write_text(json.dumps(record, indent=1) + "\n")
    for row in rows:
        print(row)
    print("open", opened)
    worker.close()


def uuid() -> str:
    """What CUDA calls the first GPU."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def measured(worker: Worker, shape: list[int], dtype: str, condition: float) -> dict[str, object]:
    """Medians of the steps of one case; the first call, which compiles, is told by itself."""
    first, *rest = [steps_of(worker, shape, dtype, condition) for _ in range(REPEATS + 1)]
    medians = [round(statistics.median(values), 2) for values in zip(*rest, strict=True)]
    steps = dict(zip(("prepare", "run", "compare", "release"), medians, strict=True))
    told = {"shape": shape, "dtype": dtype, "condition": condition}
    return {**told, **steps, "first": [round(step, 1) for step in first]}


def steps_of(worker: Worker, shape: list[int], dtype: str, condition: float) -> list[float]:
    """Milliseconds of each step of one case."""
    began = time.perf_counter()
    case = worker.prepare("softmax", [tensor("x", shape, dtype)], [output("y", shape, dtype)])
    prepared = (time.perf_counter() - began) * 1e3
    tolerance = {**TOLERANCE, "condition_factor": condition, "absolute_ulp": 2.0**-6}
    return [
        prepared,
        timed(lambda: done(worker.run_case("runner", case))),
        timed(lambda: done(worker.compare(case, tolerance=tolerance))),
        timed(lambda: worker.ask("release", case=case)),
    ]


def done(reply: dict[str, object]) -> None:
    """Raises AssertionError when a step failed."""
    if "done" not in reply:
        raise AssertionError(str(reply)[:2000])


def timed(step) -> float:
    """Milliseconds of one step."""
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main(Path(sys.argv[1]))
