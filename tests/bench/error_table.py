"""How far the starters are from float64, and whether one of them is ever called wrong.

    python tests/bench/error_table.py BINARY OUT.json --seeds 101,102,… [--starters matmul,softmax] [--jobs N]

Runs `BINARY check --json --seed S` on each starter in `kernels/triton`, all stages and dtypes, and collects
for each starter, dtype and stage, over all cases of all seeds:

- the largest error against float64: absolute, in units of the expected values' root mean square, and as a
  share of what the element was allowed (1 is the border), with the case where that share was reached;
- PyTorch's own largest absolute error on the same cases;
- how many cases ran, and how many of their outputs allowed equality only.

The starters are right, so a check that does not end with 0 is a false alarm or a failure of ours: each is
listed with its cases and seed, and the script then ends with 1. What a check left out, and its warnings, are
counted as well. With more than one job, wall seconds are those of checks that ran beside one another.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STARTERS = sorted(file.stem for file in (ROOT / "kernels/triton").glob("*.py"))
STAGES = ["smoke", "sweep", "stability", "determinism", "edge"]
CHECK_LIMIT_S = 3600
CASE_SCHEMA = "warpsmith.case/1"
SUMMARY_SCHEMA = "warpsmith.summary/1"

Record = dict[str, Any]


@dataclass
class Cell:
    """Largest figures of one starter, dtype and stage."""

    cases: int = 0
    outputs: int = 0
    outputs_exact: int = 0
    max_absolute_error: float = 0.0
    max_error_over_rms: float = 0.0
    reference_max_absolute_error: float = 0.0
    max_share_of_tolerance: float = 0.0
    at: Record | None = None

    def add(self, record: Record) -> None:
        """Takes in one case record."""
        self.cases += 1
        for errors in record["errors"]:
            self.outputs += 1
            self.outputs_exact += bool(errors["exact"])
            absolute = number(errors["max_absolute_error"])
            rms = number(errors["expected_rms"])
            self.max_absolute_error = larger(self.max_absolute_error, absolute)
            self.reference_max_absolute_error = larger(
                self.reference_max_absolute_error, number(errors["reference_max_absolute_error"])
            )
            if rms > 0:
                self.max_error_over_rms = larger(self.max_error_over_rms, absolute / rms)
            share = share_of_tolerance(errors["worst"])
            if self.at is None or share > self.max_share_of_tolerance or math.isnan(share):
                self.max_share_of_tolerance = share
                self.at = place(record, errors)


@dataclass
class Run:
    """One check of one starter with one seed."""

    starter: str
    seed: int
    exit: int | None
    wall_s: float
    cases: list[Record] = field(default_factory=list)
    summary: Record | None = None
    stderr: str = ""


def number(value: object) -> float:
    """A figure of a record: non-finite ones are strings there, and a missing one is unknown."""
    if isinstance(value, (int, float, str)):
        return float(value)
    return math.nan


def larger(one: float, other: float) -> float:
    """The larger of two; an unknown one stays unknown."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def share_of_tolerance(worst: Record | None) -> float:
    """Error of the worst element over what it was allowed; 0 where it is exactly right."""
    if worst is None:
        return 0.0
    expected, got, allowed = (number(worst[key]) for key in ("expected", "got", "allowed"))
    if expected == got or (math.isnan(expected) and math.isnan(got)):
        return 0.0
    error = abs(expected - got)
    return error / allowed if allowed > 0 else math.inf


def place(record: Record, errors: Record) -> Record:
    """Which case and element a figure belongs to."""
    case = record["case"]
    worst = errors["worst"] or {}
    return {
        **{key: case[key] for key in ("definition", "axes", "layout", "profile", "coverage", "seed")},
        "output": errors["output"],
        "index": worst.get("index"),
        "decided_by": worst.get("decided_by"),
    }


def check(binary: str, starter: str, seed: int, environment: dict[str, str]) -> Run:
    """One check of everything that a starter is judged on."""
    file = str(ROOT / "kernels/triton" / f"{starter}.py")
    command = [binary, "check", "--json", "--no-setup", "--seed", str(seed), file]
    began = time.perf_counter()
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=CHECK_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        told = f"no end within {CHECK_LIMIT_S} s"
        return Run(starter, seed, None, time.perf_counter() - began, stderr=told)
    run = Run(starter, seed, process.returncode, time.perf_counter() - began, stderr=process.stderr[-2000:])
    for line in process.stdout.splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            run.stderr += f"\nnot a record: {line[:200]}"
            continue
        if record.get("schema") == CASE_SCHEMA:
            run.cases.append(record)
        elif record.get("schema") == SUMMARY_SCHEMA:
            run.summary = record
    return run


def is_clean(run: Run) -> bool:
    """Whether a check ended as that of a right kernel must: exit 0, a summary, nothing but passed cases."""
    return (
        run.exit == 0
        and run.summary is not None
        and run.summary["verdict"] == "passed"
        and len(run.cases) > 0
        and all(record["verdict"] == "passed" for record in run.cases)
    )


def failure(run: Run) -> Record:
    """What to look at when a check was not clean."""
    bad = [
        {
            **{key: record["case"][key] for key in ("stage", "dtype", "seed")},
            **{key: record["case"][key] for key in ("definition", "axes", "layout", "profile")},
            **{key: record[key] for key in ("verdict", "code", "where", "message", "errors")},
        }
        for record in run.cases
        if record["verdict"] != "passed"
    ]
    findings = run.summary["findings"] if run.summary else []
    return {
        "starter": run.starter,
        "seed": run.seed,
        "exit": run.exit,
        "cases": bad,
        "findings": findings,
        "stderr": run.stderr,
    }


def collect(runs: list[Run]) -> Record:
    """The figures of all runs, each starter by dtype and stage."""
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    warnings: dict[str, Counter[str]] = {}
    not_run: dict[str, Counter[str]] = {}
    for run in runs:
        warned = warnings.setdefault(run.starter, Counter())
        left_out = not_run.setdefault(run.starter, Counter())
        for record in run.cases:
            case = record["case"]
            by_stage = cells.setdefault(run.starter, {}).setdefault(case["dtype"], {})
            by_stage.setdefault(case["stage"], Cell()).add(record)
            warned.update(finding["code"] for finding in record["findings"])
        if run.summary is not None:
            left_out.update(item["why"] for item in run.summary["not_run"])
    return {
        starter: {
            "exits": dict(Counter(str(run.exit) for run in runs if run.starter == starter)),
            "wall_s": [round(run.wall_s, 2) for run in runs if run.starter == starter],
            "cases": sum(len(run.cases) for run in runs if run.starter == starter),
            "findings": dict(warnings[starter]),
            "not_run": dict(not_run[starter]),
            "errors": {
                dtype: {stage: asdict(by_stage[stage]) for stage in STAGES if stage in by_stage}
                for dtype, by_stage in sorted(cells.get(starter, {}).items())
            },
        }
        for starter in dict.fromkeys(run.starter for run in runs)
    }


def surroundings(runs: list[Run]) -> Record:
    """What the figures depend on."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    provenances = [run.summary["provenance"] for run in runs if run.summary is not None]
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": {
            "cpu": models[0].split(":", 1)[1].strip() if models else platform.processor(),
            "cores": os.cpu_count(),
            "system": platform.platform(terse=True),
        },
        "versions": {key: value for key, value in provenances[0].items() if key != "source_hash"}
        if provenances
        else None,
    }


def table(starters: Record) -> str:
    """The figures as text, a line for each starter, dtype and stage."""
    head = ("starter", "dtype", "stage", "cases", "max |error|", "error / rms", "PyTorch's", "of tolerance")
    rows = [head]
    for starter, figures in starters.items():
        for dtype, by_stage in figures["errors"].items():
            for stage, cell in by_stage.items():
                rows.append(
                    (
                        starter,
                        dtype,
                        stage,
                        str(cell["cases"]),
                        f"{cell['max_absolute_error']:.3g}",
                        f"{cell['max_error_over_rms']:.2e}",
                        f"{cell['reference_max_absolute_error']:.3g}",
                        f"{cell['max_share_of_tolerance']:.3f}",
                    )
                )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if column < 3 else cell.rjust(width) for column, (cell, width) in cells)
        for cells in (list(enumerate(zip(row, widths))) for row in rows)
    )


def writable(value: Any) -> Any:
    """The same with non-finite numbers as strings, as the records have them: JSON knows none."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [writable(item) for item in value]
    return value


def numbers(text: str) -> list[int]:
    """`101,102` as whole numbers."""
    return [int(item) for item in text.split(",")]


def names(text: str) -> list[str]:
    """`matmul,softmax` as names of starters."""
    chosen = text.split(",")
    for name in chosen:
        if name not in STARTERS:
            raise argparse.ArgumentTypeError(f"no starter {name}; there are {', '.join(STARTERS)}")
    return chosen


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=numbers, required=True)
    parser.add_argument("--starters", type=names, default=STARTERS)
    parser.add_argument("--jobs", type=int, default=1, help="checks beside one another (1)")
    return parser.parse_args()


def main() -> int:
    """Runs everything, prints the table and writes the record; 1 when a check was not clean."""
    asked = arguments()
    binary = str(asked.binary.resolve())
    pairs = [(starter, seed) for seed in asked.seeds for starter in asked.starters]
    began = time.perf_counter()
    runs: list[Run] = []
    with (
        tempfile.TemporaryDirectory() as home,
        ThreadPoolExecutor(max_workers=max(asked.jobs, 1)) as pool,
    ):
        environment = {**os.environ, "XDG_CACHE_HOME": f"{home}/cache", "XDG_STATE_HOME": f"{home}/state"}
        for run in pool.map(lambda pair: check(binary, *pair, environment), pairs):
            runs.append(run)
            state = "" if is_clean(run) else "  NOT CLEAN"
            told = f"{run.starter} seed {run.seed}: exit {run.exit}, {len(run.cases)} cases"
            print(f"{told}, {run.wall_s:.1f} s{state}", file=sys.stderr, flush=True)
    starters = collect(runs)
    failures = [failure(run) for run in runs if not is_clean(run)]
    record = {
        "schema": "warpsmith.bench.error-table/1",
        **surroundings(runs),
        "n": {"seeds": asked.seeds, "checks": len(runs), "cases": sum(len(run.cases) for run in runs)},
        "jobs": asked.jobs,
        "wall_s": round(time.perf_counter() - began, 1),
        "clean_checks": len(runs) - len(failures),
        "failures": failures,
        "starters": starters,
    }
    asked.out.write_text(json.dumps(writable(record), indent=2, allow_nan=False) + "\n")
    print(table(starters))
    cases = record["n"]["cases"]
    print(f"{len(runs)} checks, {cases} cases, {len(failures)} not clean, {record['wall_s']} s")
    for failed in failures:
        print(f"not clean: {failed['starter']} --seed {failed['seed']}, exit {failed['exit']}")
        for case in failed["cases"]:
            told = {key: case[key] for key in ("definition", "axes", "layout", "profile")}
            print(f"  {case['stage']} {case['dtype']} {case['code']}: {case['message']} at {told}")
        for finding in failed["findings"]:
            print(f"  {finding['code']}: {finding['message']}")
        if not failed["cases"] and not failed["findings"]:
            print(f"  {failed['stderr'].strip()}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
