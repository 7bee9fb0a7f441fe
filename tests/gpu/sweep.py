"""Times variants of the starters on a GPU: what their module-level constants should be.

    python tests/gpu/sweep.py OUT_DIR [--only DEFINITION[/SIZE],…] [--budget SECONDS]
    python tests/gpu/sweep.py --cpu-dry-run

A variant is a starter with some constants set, always the first one as the file has it. All variants of a
size are measured in turns in a random order; one that fails or is wrong is listed with the reason. Writes
OUT_DIR/sweep.json and prints a table, the fastest first. The dry run drives the same code in Triton's
interpreter on the smallest sizes with times that are made up.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if "--cpu-dry-run" in sys.argv:  # read when Triton is imported
    os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tests.gpu import measuring

Constants = dict[str, Any]
Group = tuple[str, str, list[Constants]]

ROUNDS = 3
WARMUP_MS = 2
MEASURED_MS = 8
COMPILERS = 14
COMPILING_S = 40


def _long_rows(*pairs: tuple[int, int]) -> list[Constants]:
    return [{"_UNITS_A_STEP": units, "_WARPS_OF_LONG_ROW": warps} for units, warps in pairs]


def _short_rows(*pairs: tuple[int, int]) -> list[Constants]:
    return [{"_ELEMENTS_A_PROGRAM": program, "_ELEMENTS_A_WARP": warp} for program, warp in pairs]


def _products(*tiles: tuple[int, int, int, int, int]) -> list[Constants]:
    return [{"_TILES": (tile,)} for tile in tiles]


def _attention(elements: int, *tiles: tuple[int, int, int, int, int | None]) -> list[Constants]:
    return [{"_TILES": {elements: tile}} for tile in tiles]


NORM_ROWS = _short_rows((2048, 512), (4096, 512), (4096, 1024), (8192, 1024), (16384, 1024), (8192, 2048))
PRODUCTS = _products(
    (128, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 4, 4),
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (256, 128, 64, 8, 3),
    (64, 256, 64, 4, 4),
)
# Heads of 64 and of 128 elements.
SHORT_HEADS = (
    (64, 64, 4, 3, 128),
    (64, 64, 4, 2, None),
    (128, 64, 8, 3, 128),
    (128, 64, 8, 3, None),
    (128, 128, 8, 2, None),
)
LONG_HEADS = (
    (64, 64, 4, 2, None),
    (128, 64, 8, 3, None),
    (128, 64, 8, 4, None),
    (128, 128, 8, 2, None),
    (128, 32, 8, 3, 128),
)
LONG_ROWS = _long_rows((512, 8), (1024, 8), (1024, 16), (2048, 16), (2048, 32), (4096, 32))
ENTROPY_ROWS = _long_rows((512, 4), (1024, 4), (512, 8), (1024, 8), (2048, 8), (2048, 16))
REDUCED = [
    {"_TILE_ELEMENTS": elements, "_LONGEST_TILE_DEPTH": depth}
    for elements, depth in ((1024, 1024), (4096, 2048), (4096, 4096), (8192, 4096), (8192, 8192))
]
TURNED = [
    {"_HEADS_A_PROGRAM": heads, "_PAIRS_A_TILE": pairs}
    for heads, pairs in ((1, 1024), (2, 512), (2, 1024), (2, 2048), (4, 512), (8, 512), (8, 1024))
]
# By Definition and size; the most doubtful first.
GROUPS: list[Group] = [
    ("flash_attention_causal", "large", _attention(64, *SHORT_HEADS)),
    ("flash_attention_causal", "llm_7b", _attention(128, *LONG_HEADS)),
    ("fused_mlp_silu", "large", PRODUCTS[:7]),
    ("softmax", "vocab", LONG_ROWS),
    ("cross_entropy", "large", ENTROPY_ROWS),
    ("matmul", "large", PRODUCTS),
    ("matmul", "xlarge", PRODUCTS),
    ("layernorm", "large", NORM_ROWS),
    ("rmsnorm", "large", NORM_ROWS),
    ("reduce_sum_last", "large", REDUCED),
    ("rotary_embedding", "large", TURNED),
    ("softmax", "large", _short_rows((2048, 512), (8192, 1024), (8192, 2048))),
    ("flash_attention_causal", "xlarge", _attention(64, *SHORT_HEADS)),
    ("matmul", "llm_mlp", PRODUCTS),
    ("fused_mlp_silu", "llama_7b", PRODUCTS[:7]),
    ("layernorm", "xlarge", NORM_ROWS),
    ("layernorm", "llm_7b", NORM_ROWS),
    ("rmsnorm", "llama", NORM_ROWS),
    ("softmax", "xlarge", _short_rows((2048, 512), (2048, 2048))),
    ("cross_entropy", "xlarge", ENTROPY_ROWS),
]


def variants(group: Group) -> list[Constants]:
    """The file's own constants, and those to try."""
    return [{}, *group[2]]


def entry(definition: dict[str, Any], constants: Constants) -> Callable[..., Any]:
    """The starter of a Definition with constants set. Raises AttributeError for a constant it has not."""
    op_type = definition["op_type"]
    module = measuring.load_kernel(measuring.STARTERS / f"{op_type}.py", f"sweep_{op_type}")
    for name, value in constants.items():
        if not hasattr(module, name):
            raise AttributeError(f"{op_type}.py has no {name}")
        setattr(module, name, value)
    return functools.partial(module.kernel_fn, **measuring.options(definition))


def inputs_of(group: Group, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Definition, and its inputs in float16; of the smallest size for a dry run."""
    definition = measuring.load_definition(group[0])
    sizes = definition["warpsmith"]["sizes"]["tiny" if device == "cpu" else group[1]]
    return definition, measuring.draw_inputs(definition, sizes, torch.float16, device)


def compile_variant(item: tuple[Group, Constants]) -> str | None:
    """Calls a variant once, in a process of its own."""
    group, constants = item
    try:
        definition, inputs = inputs_of(group, "cuda")
        entry(definition, constants)(**inputs)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


def measured(group: Group, device: str) -> list[dict[str, Any]]:
    """Every variant of a group and the strongest plain PyTorch call, the fastest first."""
    definition, inputs = inputs_of(group, device)
    plain = definition["warpsmith"].get("baseline", definition["reference"])
    calls = {"torch": functools.partial(measuring.runner(definition, plain), **inputs)}
    expected = calls["torch"]()
    found, samples = [], {"torch": []}
    for constants in variants(group):
        name = ", ".join(f"{key} = {value}" for key, value in constants.items()) or "as it is"
        try:
            call = functools.partial(entry(definition, constants), **inputs)
            apart = measuring.difference(call(), expected)
            if apart > measuring.LOOSE["float16"]:
                raise ValueError(f"wrong: {apart:.2e} of the largest value away")
            calls[name], samples[name] = call, []
        except Exception as error:
            found.append({"variant": name, "error": f"{type(error).__name__}: {str(error)[:300]}"})
    order = random.Random(group[0] + group[1])
    for _ in range(ROUNDS):
        for name in order.sample(sorted(calls), len(calls)):
            made_up = device == "cpu"
            taken = [1.0] if made_up else measuring.times_us(calls[name], WARMUP_MS, MEASURED_MS)
            samples[name].append(taken)
    for name, taken in samples.items():
        us = statistics.median(statistics.median(part) for part in taken)
        pooled = measuring.summary([sample for part in taken for sample in part])
        found.append({"variant": name, "us": round(us, 3), **pooled})
    return sorted(found, key=lambda variant: variant.get("us", float("inf")))


def run(groups: list[Group], device: str, budget_s: float) -> list[dict[str, Any]]:
    """All groups that the budget allows."""
    end = time.monotonic() + budget_s
    if device == "cuda":
        items = [(group, constants) for group in groups for constants in variants(group)]
        timeout_s = min(COMPILING_S, 0.7 * budget_s)
        measuring.compile_beforehand(compile_variant, items, min(COMPILERS, os.cpu_count() or 1), timeout_s)
    results = []
    for group in groups:
        result: dict[str, Any] = {"definition": group[0], "size": group[1]}
        try:
            if time.monotonic() > end:
                raise TimeoutError(f"the budget of {budget_s:.0f} s is used up")
            result["variants"] = measured(group, device)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        results.append(result)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Times variants of the starters on a GPU.")
    parser.add_argument("out", nargs="?", type=Path, help="folder of the record, sweep.json")
    parser.add_argument(
        "--only", default="", help="Definitions or DEFINITION/SIZE, comma-separated; all without it"
    )
    parser.add_argument("--budget", type=float, default=60, help="seconds for everything")
    parser.add_argument("--cpu-dry-run", action="store_true", help="try the code, without a GPU or a record")
    asked = parser.parse_args()
    if not asked.cpu_dry_run and asked.out is None:
        parser.error("OUT_DIR is missing")
    only = [name for name in asked.only.split(",") if name]
    groups = [group for group in GROUPS if not only or {group[0], f"{group[0]}/{group[1]}"} & set(only)]
    if not groups:
        parser.error(f"nothing of {asked.only} is listed")
    results = run(groups, "cpu" if asked.cpu_dry_run else "cuda", asked.budget)
    if asked.cpu_dry_run:
        print("DRY RUN: every time below is made up")
    else:
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        record = {
            "schema": "warpsmith.gpu.sweep/1",
            "date": date,
            "dtype": "float16",
            **measuring.machine(),
            "groups": results,
        }
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "sweep.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    for result in results:
        print(f"{result['definition']} {result['size']} {result.get('error', '')}")
        for variant in result.get("variants", []):
            us = variant.get("us", float("nan"))
            print(f"  {us:10.2f} µs  {variant['variant']}  {variant.get('error', '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
