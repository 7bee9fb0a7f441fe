"""Timing on a GPU, by the worker's protocol. Numbers are printed; what must hold on any run is asserted.

`CASES` are pairs of a name and a function of a `tests.worker.client.Worker` that was started on a GPU.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

from tests.worker.client import DOUBLE, SOFTMAX, Worker, output, tensor

from .registry import ALL
from .support import Bench

# On the host; a process with a context of its own maps much.
OPENING = {"resident_bytes": 32 << 30}
WALL_S = 10.0
PAIRS = 30

TRITON_SOFTMAX = """
import torch
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)

def kernel_fn(x):
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=4096, num_warps=8)
    return y
"""
TORCH_SOFTMAX = "import torch\ndef kernel_fn(x):\n    return torch.softmax(x, -1)\n"
TORCH_ADD = "import torch\ndef kernel_fn(x):\n    return torch.add(x, x)\n"
HIDDEN = """
import torch
streams = []
def kernel_fn(x):
    if not streams:
        streams.append(torch.cuda.Stream())
    y = torch.empty_like(x)
    with torch.cuda.stream(streams[0]):
        for _ in range(4):
            torch.mul(x, 2, out=y)
    return y
"""
SLOW_HOST = """
import time, torch
def kernel_fn(x):
    began = time.perf_counter()
    while time.perf_counter() - began < 5e-4:
        pass
    return torch.add(x, x)
"""
REMEMBERING = """
import torch
results = []
def kernel_fn(x):
    if not results:
        results.append(x * 2)
    return results[0].clone()
"""
RAISING = "def kernel_fn(x):\n    raise ValueError('no baseline today')\n"

LARGE_ADD = 1 << 25
SMALL_ADD = 1 << 20
# `do_bench` and we differ by less from 30 µs on; below, two modes of `do_bench` itself are 0.8 µs apart.
AGREEMENT = 0.03
AGREEMENT_FROM_US = 30.0
SHORT_AGREEMENT_US = 1.0
CLAIM_TOLERANCE = 0.05

# GB/s of a copy by bytes moved, once measured on an H200 with events.
H200_COPY = {1 << 28: 3783, 1 << 29: 4025, 1 << 30: 4162}


def opened(worker: Worker, source: str) -> str:
    runner = worker.fresh("timed")
    reply = worker.open_source(source, runner, **OPENING)
    check("done" in reply, f"open: {reply}")
    return runner


def side(runner: str) -> dict[str, Any]:
    return {"runner": runner, "arguments": [{"parameter": "x", "input": "x"}]}


def fields(case: str, candidate: str, baseline: str | None, **changes: Any) -> dict[str, Any]:
    given = {
        "case": case,
        "candidate": side(candidate),
        "baseline": None if baseline is None else side(baseline),
        "pairs": PAIRS,
        "seed": 11,
        "wall_s": WALL_S,
    }
    return {**given, **changes}


def doubled(worker: Worker, elements: int) -> str:
    """A case of `y = 2x` on float32."""
    worker.define("timing-double", DOUBLE)
    return worker.prepare("timing-double", [tensor("x", [elements])], [output("y", [elements])])


def timed(
    worker: Worker, case: str, source: str, baseline: str | None = None, **changes: Any
) -> dict[str, Any]:
    """Time a file; its runners are closed afterwards, the case stays."""
    runners = [opened(worker, source), *([opened(worker, baseline)] if baseline else [])]
    began = time.monotonic()
    reply = worker.ask("time", **fields(case, runners[0], runners[1] if baseline else None, **changes))
    took_s = time.monotonic() - began
    for runner in runners:
        worker.ask("close", runner=runner)
    check("done" in reply, f"time: {reply}")
    return {**reply["done"], "took_s": took_s}


def claim_error(series: dict[str, Any]) -> float:
    return abs(series["claimed_us"] - series["wall_us"]) / series["wall_us"]


def check(holds: bool, told: str) -> None:
    if not holds:
        raise AssertionError(told)


def check_right(worker: Worker, case: str) -> None:
    """The outputs of the call that was kept lie in the case."""
    reply = worker.compare(case)
    (errors,) = reply["done"]["outputs"]
    check(errors["violations"] == 0 and errors["elements_compared"] > 0, f"compare: {reply}")


def do_bench_us(worker: Worker, source: str, shape: list[int], dtype: str) -> float:
    """The median that Triton's own benchmark gives for the same file, in this process."""
    import torch
    import triton

    path = worker.write(source)
    spec = importlib.util.spec_from_file_location("benched", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.randn(shape, device="cuda").to(getattr(torch, dtype))
    call = functools.partial(module.kernel_fn, x)
    return triton.testing.do_bench(call, return_mode="median") * 1e3


def check_agrees(name: str, done: dict[str, Any], expected_us: float) -> None:
    series = done["candidate"]
    found_us = statistics.median(series["cold_us"])
    print(
        f"    {name}: {found_us:.2f} µs ({series['method']}), do_bench {expected_us:.2f} µs, warm "
        f"{statistics.median(series['warm_us']):.2f}, host {series['host_us']:.1f}, empty "
        f"{series['empty_us']:.2f}, claimed {series['claimed_us']:.2f}, wall {series['wall_us']:.2f}; "
        f"{len(series['cold_us'])} pairs in {done['took_s']:.2f} s",
        flush=True,
    )
    most = AGREEMENT * expected_us if expected_us >= AGREEMENT_FROM_US else SHORT_AGREEMENT_US
    check(abs(found_us - expected_us) <= most, f"{name}: {found_us} against {expected_us} µs")
    check(claim_error(series) < CLAIM_TOLERANCE, f"{name}: {series['claimed_us']}, {series['wall_us']}")


def softmax_agrees(worker: Worker) -> None:
    worker.define("timing-softmax", SOFTMAX)
    # The first is a little too short for 3 %, the second is not.
    for rows in (4096, 16384):
        shape = [rows, 4096]
        case = worker.prepare(
            "timing-softmax", [tensor("x", shape, "float16")], [output("y", shape, "float16")]
        )
        done = timed(worker, case, TRITON_SOFTMAX, TORCH_SOFTMAX)
        check_agrees(f"softmax {rows}×4096", done, do_bench_us(worker, TRITON_SOFTMAX, shape, "float16"))
        check(len(done["baseline"]["cold_us"]) == len(done["candidate"]["cold_us"]) == PAIRS, "pairs")
        check(done["pool_bytes"] > 2 * 62_914_560, f"pool of {done['pool_bytes']} bytes")
        check_right(worker, case)
        worker.ask("release", case=case)


def add_agrees(worker: Worker) -> None:
    case = doubled(worker, LARGE_ADD)
    done = timed(worker, case, TORCH_ADD)
    check_agrees("add of 268 MB", done, do_bench_us(worker, TORCH_ADD, [LARGE_ADD], "float32"))
    check(done["candidate"]["method"] == "events", str(done["candidate"]["method"]))
    check_right(worker, case)
    worker.ask("release", case=case)


def short_kernel_by_graph(worker: Worker) -> None:
    case = doubled(worker, SMALL_ADD)
    done = timed(worker, case, TORCH_ADD, TORCH_ADD)
    series = done["candidate"]
    cold_us = statistics.median(series["cold_us"])
    print(
        f"    add of 8 MB: {cold_us:.2f} µs cold, {statistics.median(series['warm_us']):.2f} warm", flush=True
    )
    check(series["method"] == "graph", f"refused: {series['graph_refused']}")
    check(0.5 < cold_us < 20, f"{cold_us} µs")
    check(claim_error(series) < CLAIM_TOLERANCE, f"{series['claimed_us']}, {series['wall_us']}")
    ratios = [one / other for one, other in zip(series["cold_us"], done["baseline"]["cold_us"], strict=True)]
    # The same on both sides.
    check(abs(statistics.median(ratios) - 1) < 0.05, f"{statistics.median(ratios)}")
    check_right(worker, case)
    worker.ask("release", case=case)


def hidden_work_shows(worker: Worker) -> None:
    case = doubled(worker, LARGE_ADD)
    done = timed(worker, case, HIDDEN, pairs=5)
    series = done["candidate"]
    print(f"    hidden: claimed {series['claimed_us']:.1f}, wall {series['wall_us']:.1f} µs", flush=True)
    check(claim_error(series) > CLAIM_TOLERANCE, f"{series}")
    check(series["method"] == "events", f"{series['method']}")
    worker.ask("release", case=case)


def slow_host_is_told(worker: Worker) -> None:
    case = doubled(worker, SMALL_ADD)
    series = timed(worker, case, SLOW_HOST, pairs=5)["candidate"]
    check(series["is_host_bound"], f"{series}")
    check(series["host_us"] > 400, f"{series['host_us']}")
    # By a graph the host plays no part.
    check(series["method"] == "graph", f"refused: {series['graph_refused']}")
    check(statistics.median(series["cold_us"]) < 20, f"{series['cold_us']}")
    worker.ask("release", case=case)


def remembered_results_are_wrong(worker: Worker) -> None:
    case = doubled(worker, SMALL_ADD)
    timed(worker, case, REMEMBERING, pairs=5)
    (errors,) = worker.compare(case)["done"]["outputs"]
    check(errors["violations"] > 0, f"{errors}")
    worker.ask("release", case=case)


def raising_baseline(worker: Worker) -> None:
    case = doubled(worker, SMALL_ADD)
    done = timed(worker, case, TORCH_ADD, RAISING, pairs=5)
    check(done["baseline"] is None, f"{done['baseline']}")
    check("no baseline today" in done["baseline_failed"], f"{done['baseline_failed']}")
    check(len(done["candidate"]["cold_us"]) == 5, f"{done['candidate']}")
    check_right(worker, case)
    worker.ask("release", case=case)


def cancelled_in_the_middle(worker: Worker) -> None:
    case = doubled(worker, LARGE_ADD)
    candidate, baseline = opened(worker, TORCH_ADD), opened(worker, TORCH_ADD)
    request = worker.send("time", **fields(case, candidate, baseline, pairs=100_000))
    time.sleep(0.7)
    began = time.monotonic()
    closed = worker.ask("close", runner=candidate)
    took_s = time.monotonic() - began
    died = worker.reply_to(request)
    check(closed.get("done") == {}, f"{closed}")
    check(died.get("died", {}).get("reason") == "killed", f"{died}")
    check(took_s < 2.5, f"{took_s} s")
    print(f"    cancelled in {took_s:.2f} s", flush=True)
    # The other side and the case are free.
    ran = worker.run_case(baseline, case)
    check("done" in ran, f"{ran}")
    check_right(worker, case)
    worker.ask("close", runner=baseline)
    worker.ask("release", case=case)


def ceilings_are_plausible(worker: Worker) -> None:
    reply = worker.ask("ceilings", wall_s=20.0)
    check("done" in reply, f"{reply}")
    found = reply["done"]
    rates = {
        kind: {point["bytes"]: point["bytes"] / point["time_us"] / 1e3 for point in found[kind]}
        for kind in ("copy", "read")
    }
    matrix = {rate["kind"]: rate["flops_per_s"] / 1e12 for rate in found["matrix"]}
    for kind, points in rates.items():
        told = ", ".join(f"{size / 1e6:.0f} MB {rate:.0f}" for size, rate in points.items())
        print(f"    {kind} in GB/s: {told}", flush=True)
    print(
        f"    TFLOP/s: {matrix}; launch {found['launch_floor_us']} µs; took {found['took_s']} s", flush=True
    )
    check(len(rates["copy"]) == len(rates["read"]) == 9, f"{found}")
    check(found["took_s"] < 20, f"{found['took_s']} s")
    check(found["launch_floor_us"] is not None and 0.3 < found["launch_floor_us"] < 10, "launch floor")
    check(set(matrix) == {"float16", "bfloat16", "tf32", "float32", "float64"}, f"{matrix}")
    check(matrix["float16"] > matrix["tf32"] > matrix["float32"], f"{matrix}")
    if "H200" in worker.event("warm").get("device", {}).get("name", ""):
        for size, expected in H200_COPY.items():
            got = rates["copy"][size]
            check(abs(got / expected - 1) < 0.10, f"copy of {size} bytes: {got} against {expected} GB/s")


CASES: list[tuple[str, Callable[[Worker], None]]] = [
    ("timing: softmax agrees with do_bench", softmax_agrees),
    ("timing: add agrees with do_bench", add_agrees),
    ("timing: a short kernel by a graph", short_kernel_by_graph),
    ("timing: work on a hidden stream shows", hidden_work_shows),
    ("timing: a slow host is told", slow_host_is_told),
    ("timing: remembered results are wrong", remembered_results_are_wrong),
    ("timing: a baseline that raises", raising_baseline),
    ("timing: cancelled in the middle", cancelled_in_the_middle),
    ("timing: ceilings", ceilings_are_plausible),
]


def _on_bench(function: Callable[[Worker], None]) -> Callable[[Bench], None]:
    return lambda bench: function(bench.worker)


ALL.update({name: (_on_bench(function), True) for name, function in CASES})
