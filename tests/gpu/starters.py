"""Times the starters on a GPU, beside plain PyTorch, another project's starters, and a copy.

    python tests/gpu/starters.py OUT_DIR [--autokernel DIR] [--budget SECONDS] [--commit ID]
    python tests/gpu/starters.py --cpu-dry-run [--autokernel DIR]

Nine types at the sizes that AutoKernel and their Definitions time, in float16, and the first size in bfloat16
and float32. Every row has up to five sides, measured in turns in a random order so that a drifting clock
meets all alike: our starter, the strongest plain PyTorch call (`warpsmith.baseline`), the reference,
AutoKernel's starter where its folder is given, and a copy that moves as many bytes. Other dtypes are without
AutoKernel's and without a reference that is not the strongest call. A starter that is wrong is not timed.
Writes OUT_DIR/starters.json and prints a table; rows that the budget leaves no time for are listed with the
reason.

The dry run drives the same code in Triton's interpreter on the smallest sizes; its times are made up, say so,
and are never written.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if "--cpu-dry-run" in sys.argv:  # read when Triton is imported
    os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tests.gpu import measuring
from tests.gpu.measuring import STARTERS, Sizes

# Most of what a language model computes first: rows that no time is left for are the last ones.
DEFINITIONS = (
    "matmul",
    "softmax",
    "flash_attention_causal",
    "fused_mlp_silu",
    "cross_entropy",
    "rmsnorm",
    "layernorm",
    "rotary_embedding",
    "reduce_sum_last",
)
# Sizes that AutoKernel times as well; where they are given, the Definition does not time them itself.
AUTOKERNEL_SIZES: dict[str, dict[str, Sizes | None]] = {
    "matmul": {"large": None, "xlarge": None, "llm_mlp": None},
    "softmax": {"large": None, "xlarge": None, "vocab": None},
    "flash_attention_causal": {"large": None, "xlarge": None, "llm_7b": None},
    "fused_mlp_silu": {"large": None, "llama_7b": None},
    "cross_entropy": {"large": None, "xlarge": None},
    "rmsnorm": {"large": None, "llama": None},
    "layernorm": {"large": None, "xlarge": None, "llm_7b": None},
    "rotary_embedding": {
        "large": None,
        "llm_7b": {"batch": 1, "heads": 32, "seq": 2048, "half_dim": 64},
    },
    "reduce_sum_last": {"large": None, "4096": {"M": 4096, "N": 4096}},
}
# Elements of a row that AutoKernel's softmax and cross entropy take whole, which is long to compile.
LONG_ROW = 50_000
LIMITED_BY_PRODUCTS = ("matmul", "flash_attention", "fused_mlp")
ROUNDS = 5
WARMUP_MS = 3
MEASURED_MS = 12
COMPILERS = 14
# Seconds of the budget that compilation may take before anything is measured.
COMPILING_S = 40


@dataclass(frozen=True)
class Row:
    """What is measured on all sides."""

    definition: str
    size: str
    axes: tuple[tuple[str, int], ...]
    dtype: str

    @property
    def label(self) -> str:
        return f"{self.definition} {self.size} {self.dtype}"


@dataclass(frozen=True)
class Setup:
    """Where and how this run measures."""

    device: str
    autokernel: Path | None
    dry: bool

    def times_us(self, call: Callable[[], Any]) -> list[float]:
        if self.dry:
            call()
            return [1.0]  # made up: an interpreter has no times
        return measuring.times_us(call, WARMUP_MS, MEASURED_MS)


def rows(dry: bool) -> list[Row]:
    """The most important first: every type once, AutoKernel's other sizes, other dtypes, further sizes."""
    first, theirs, others, further = [], [], [], []
    for name in DEFINITIONS:
        extras = measuring.load_definition(name)["warpsmith"]
        sizes = dict(AUTOKERNEL_SIZES[name])
        sizes |= {label: None for label in extras["bench"] if label not in sizes}
        made = [
            Row(name, label, tuple((axes or extras["sizes"][label]).items()), "float16")
            for label, axes in ({"tiny": None} if dry else sizes).items()
        ]
        first.append(made[0])
        theirs.extend(row for row in made[1:] if row.size in AUTOKERNEL_SIZES[name])
        further.extend(row for row in made[1:] if row.size not in AUTOKERNEL_SIZES[name])
        # Triton's own interpreter misreads products of bfloat16.
        for dtype in ("float32",) if dry else ("bfloat16", "float32"):
            others.append(Row(name, made[0].size, made[0].axes, dtype))
    return first + theirs + sorted(others, key=lambda row: row.dtype) + further


def beside_autokernel(row: Row) -> bool:
    """Whether AutoKernel's starter is timed in a row: in float16 at its own sizes, and in a dry run."""
    return row.dtype == "float16" and (row.size in AUTOKERNEL_SIZES[row.definition] or row.size == "tiny")


@functools.cache
def starter(folder: Path, op_type: str, keep_asserts: bool) -> Callable[..., Any]:
    """The entry of a folder's starter, loaded once in a process."""
    name = f"{folder.name}_{op_type}"
    module = measuring.load_kernel(folder / f"{op_type}.py", name, keep_asserts=keep_asserts)
    return module.kernel_fn


def sides_of(row: Row, setup: Setup) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """What is called on each side, and the Definition. The other project's starters know no options."""
    definition = measuring.load_definition(row.definition)
    op_type = definition["op_type"]
    dtype = getattr(torch, row.dtype)
    inputs = measuring.draw_inputs(definition, dict(row.axes), dtype, setup.device)
    tensors = {name: value for name, value in inputs.items() if torch.is_tensor(value)}
    reference = measuring.runner(definition, definition["reference"])
    ours = starter(STARTERS, op_type, True)
    sides = {
        "ours": functools.partial(ours, **inputs, **measuring.options(definition)),
        "eager": functools.partial(reference, **inputs),
    }
    baseline = definition["warpsmith"].get("baseline")
    if baseline is not None:
        sides["torch"] = functools.partial(measuring.runner(definition, baseline), **inputs)
    if setup.autokernel is not None and beside_autokernel(row):
        theirs = starter(setup.autokernel, op_type, not setup.dry)
        sides["autokernel"] = functools.partial(theirs, **tensors)
    return sides, definition


def compile_row(setup: Setup, item: tuple[Row, str]) -> str | None:
    """Calls one side of a row once, in a process of its own."""
    row, side = item
    try:
        sides, _ = sides_of(row, setup)
        sides[side]()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


def takes_long(row: Row, side: str) -> bool:
    """Whether a compiler is busy with a side of a row long after it has done all others."""
    return side == "autokernel" and max(length for _, length in row.axes) >= LONG_ROW


def compiled_beforehand(planned: list[Row], setup: Setup, end: float) -> dict[tuple[Row, str], str | None]:
    """Every Triton kernel of the plan, compiled side by side; why one is not, where it is not."""
    items = [(row, "ours") for row in planned]
    if setup.autokernel is not None:
        items += [(row, "autokernel") for row in planned if beside_autokernel(row)]
    # What takes longest begins first, and then in the order of rows.
    place = {row: index for index, row in enumerate(planned)}
    items.sort(key=lambda item: (not takes_long(*item), place[item[0]]))
    timeout_s = min(COMPILING_S, end - time.monotonic())
    results = measuring.compile_beforehand(
        functools.partial(compile_row, setup), items, min(COMPILERS, os.cpu_count() or 1), timeout_s
    )
    return dict(zip(items, results))


def copy_of(bytes_moved: int, device: str) -> Callable[[], Any]:
    """A copy that reads half of these bytes and writes the other half."""
    source = torch.empty(max(1, bytes_moved // 2), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def checked(row: Row, sides: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, str]]:
    """How far each side is from the reference, and the sides that must not be timed, with the reason."""
    expected = sides["eager"]()
    apart, left_out = {}, {}
    for side in [side for side in sides if side != "eager"]:
        try:
            found = sides[side]()
            if side == "autokernel":
                found = found.to(expected.dtype).reshape(expected.shape)
            apart[side] = measuring.difference(found, expected)
        except Exception as error:
            left_out[side] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        if side != "autokernel" and apart[side] > measuring.LOOSE[row.dtype]:
            left_out[side] = f"wrong: {apart[side]:.2e} of the largest value away from the reference"
    return apart, left_out


def measured(row: Row, setup: Setup, not_compiled: dict[tuple[Row, str], str | None]) -> dict[str, Any]:
    """One row of the record."""
    sides, definition = sides_of(row, setup)
    left_out = {}
    reason = not_compiled.get((row, "autokernel"))
    if "autokernel" in sides and reason:
        left_out["autokernel"] = reason
        del sides["autokernel"]
    apart, wrong = checked(row, sides)
    left_out |= wrong
    sides = {side: call for side, call in sides.items() if side not in left_out}
    if row.dtype != "float16" and "torch" in sides:
        del sides["eager"]
    extras = definition["warpsmith"]
    axes = measuring.complete(definition, dict(row.axes))
    itemsize = getattr(torch, row.dtype).itemsize
    bytes_moved = measuring.evaluated(extras["bytes"], axes, itemsize)
    flops = measuring.evaluated(extras["flops"], axes, itemsize)
    sides["copy"] = copy_of(bytes_moved, setup.device)
    samples: dict[str, list[list[float]]] = {side: [] for side in sides}
    order = random.Random(row.label)
    for _ in range(ROUNDS):
        for side in order.sample(sorted(sides), len(sides)):
            samples[side].append(setup.times_us(sides[side]))
    return {
        "definition": row.definition,
        "size": row.size,
        "axes": axes,
        "dtype": row.dtype,
        "bytes": bytes_moved,
        "flops": flops,
        "sides": {side: statistics_of(taken) for side, taken in samples.items()},
        "left_out": left_out,
        # JSON has no infinity.
        "apart": {side: share if math.isfinite(share) else None for side, share in apart.items()},
        "torch_is": "baseline" if "baseline" in extras else "reference",
    }


def statistics_of(taken: list[list[float]]) -> dict[str, Any]:
    """The median of the rounds' medians in µs, every round's own, and the spread of all samples."""
    medians = [round(statistics.median(samples), 3) for samples in taken]
    pooled = measuring.summary([sample for samples in taken for sample in samples])
    return {"us": statistics.median(medians), "rounds_us": medians, **pooled}


def matrix_rates(setup: Setup) -> dict[str, float]:
    """TFLOP/s of PyTorch's own product of large square matrices of random values, by dtype."""
    rates = {}
    for dtype, length in (("float16", 8192), ("bfloat16", 8192), ("float32", 4096)):
        shape = (64, 64) if setup.dry else (length, length)
        left, right = (torch.randn(shape, device=setup.device).to(getattr(torch, dtype)) for _ in "ab")
        samples = setup.times_us(functools.partial(torch.matmul, left, right))
        rates[dtype] = round(2e-6 * shape[0] ** 3 / statistics.median(samples), 1)
    return rates


def shares(record: dict[str, Any], rates: dict[str, float]) -> dict[str, float]:
    """Ratios of a row. Above one, the starter is faster than that side; of a limit, it can hardly be."""
    us = {side: figures["us"] for side, figures in record["sides"].items()}
    if "ours" not in us:
        return {}
    if "torch" not in us and "eager" in us:
        us["torch"] = us["eager"]
    found = {f"over_{side}": us[side] / us["ours"] for side in ("torch", "eager", "autokernel") if side in us}
    found["of_copy"] = us["copy"] / us["ours"]
    if measuring.load_definition(record["definition"])["op_type"] in LIMITED_BY_PRODUCTS:
        found["of_matrix_rate"] = record["flops"] / (1e6 * us["ours"]) / rates[record["dtype"]]
    return {name: round(value, 3) for name, value in found.items()}


def table(records: list[dict[str, Any]]) -> str:
    """The record for people."""
    columns = ("ours", "torch", "eager", "autokernel", "copy")
    ratios = ("over_torch", "over_autokernel", "of_copy", "of_matrix_rate")
    lines = [f"{'µs':<42}" + "".join(f"{name:>16}" for name in columns + ratios)]
    for record in records:
        label = f"{record['definition']} {record['size']} {record['dtype']}"
        cells = [record["sides"].get(side, {}).get("us") for side in columns]
        cells += [record["shares"].get(name) for name in ratios]
        texts = ["–" if cell is None else f"{cell:.2f}" for cell in cells]
        lines.append(f"{label:<42}" + "".join(f"{text:>16}" for text in texts))
        lines.extend(f"    {side}: {why}" for side, why in record["left_out"].items())
    return "\n".join(lines)


def run(setup: Setup, budget_s: float) -> dict[str, Any]:
    """All rows that the budget allows."""
    end = time.monotonic() + budget_s
    planned = rows(setup.dry)
    not_compiled = {} if setup.dry else compiled_beforehand(planned, setup, end)
    compiled_s = round(budget_s - (end - time.monotonic()), 1)
    rates = matrix_rates(setup)
    records, skipped = [], []
    longest = 0.0
    for row in planned:
        began = time.monotonic()
        if end - began < longest:
            skipped.append({"row": row.label, "why": f"the budget of {budget_s:.0f} s is used up"})
            continue
        try:
            record = measured(row, setup, not_compiled)
        except Exception as error:
            skipped.append({"row": row.label, "why": f"{type(error).__name__}: {str(error)[:300]}"})
            continue
        records.append(record | {"shares": shares(record, rates)})
        longest = max(longest, time.monotonic() - began)
    failed = {f"{row.label} {side}": why for (row, side), why in not_compiled.items() if why}
    return {
        "compiling_s": compiled_s,
        "not_compiled": failed,
        "matrix_tflops": rates,
        "rows": records,
        "skipped": skipped,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Times the starters on a GPU.")
    parser.add_argument("out", nargs="?", type=Path, help="folder of the record, starters.json")
    parser.add_argument("--autokernel", type=Path, help="folder of AutoKernel's Triton starters")
    parser.add_argument("--budget", type=float, default=95, help="seconds for everything")
    parser.add_argument("--commit", default=None, help="where git cannot be asked")
    parser.add_argument("--cpu-dry-run", action="store_true", help="try the code, without a GPU or a record")
    asked = parser.parse_args()
    if not asked.cpu_dry_run and asked.out is None:
        parser.error("OUT_DIR is missing")
    setup = Setup("cpu" if asked.cpu_dry_run else "cuda", asked.autokernel, asked.cpu_dry_run)
    found = run(setup, asked.budget)
    if setup.dry:
        print("DRY RUN: every time below is made up")
    else:
        record = {
            "schema": "warpsmith.gpu.starters/1",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": asked.commit or measuring.said_by(["git", "rev-parse", "HEAD"]),
            "method": f"do_bench, L2 overwritten before each call; {ROUNDS} rounds, sides in random order",
            **measuring.machine(),
            **found,
        }
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "starters.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(table(found["rows"]))
    print("matrix TFLOP/s:", found["matrix_tflops"], "· compiling", found["compiling_s"], "s")
    for name, why in found["not_compiled"].items():
        print(f"not compiled: {name}: {why}")
    for row in found["skipped"]:
        print(f"skipped: {row['row']}: {row['why']}")
    wrong = any("ours" in record["left_out"] for record in found["rows"])
    return 1 if wrong or (setup.dry and found["skipped"]) else 0


if __name__ == "__main__":
    sys.exit(main())
