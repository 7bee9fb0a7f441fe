#!/usr/bin/env python3
"""Runs the whole cheat suite through the binary: `python tests/gpu/cheats.py OUT_DIR [--binary PATH]`.

Every file of `tests/cheats` is checked on a GPU, with times where times decide, several files in one call.
What matters most comes first, and nothing is begun that does not fit into the budget. OUT_DIR/cheats.json
gets what was expected and found of each. The status is 1 when a cheat got through or an honest kernel did
not pass. `--device cpu` tries the script in the interpreter, without what only a GPU tells.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None

ROOT = Path(__file__).resolve().parents[2]
CHEATS = ROOT / "tests" / "cheats"
BINARIES = (ROOT / "target" / "release" / "warpsmith", ROOT / "target" / "debug" / "warpsmith")
USUAL_STAGES, USUAL_DTYPE = "smoke,determinism", "f32"
# One call that ends early takes no more than so many answers with it.
MOST_FILES = 24
MOST_TIMED_FILES = 4
# Longest time of one file, in seconds: an honest one with all stages and three sizes takes a fifth of it.
FILE_S = 25.0
TIMED_FILE_S = 60.0
# Until a call has started, and one case that hangs.
CALL_S = 90.0
FEWEST_S = 20.0
# Honest kernels that are also timed: cheats must not be told by having no time.
TIMED_HONEST = ("plain.py", "autotuned.py", "slow_first_call.py", "two_kernels.py")


@dataclass
class Item:
    """One file, what is expected, and what was found."""

    entry: dict[str, Any]
    is_honest: bool
    has_times: bool
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return CHEATS / ("honest" if self.is_honest else "rows") / self.entry["file"]

    @property
    def importance(self) -> int:
        """What only a GPU tells comes first, then what must pass, then what CI has seen already."""
        if self.is_honest:
            return 1 if self.has_times else 3
        return {"timing": 0, "gpu": 2, "cpu": 4}[self.entry["needs"]]

    @property
    def options(self) -> tuple[str, ...]:
        """With `--stage` nothing is timed."""
        dtype = self.entry.get("dtype", USUAL_DTYPE)
        if self.has_times:
            return "--dtype", dtype
        return "--no-timing", "--stage", self.entry.get("stages", USUAL_STAGES), "--dtype", dtype


def read_table() -> dict[str, list[dict[str, Any]]]:
    """expect.toml; without a reader of TOML, what it uses of it."""
    text = (CHEATS / "expect.toml").read_text("utf-8")
    if tomllib is not None:
        return tomllib.loads(text)
    table: dict[str, list[dict[str, Any]]] = {"row": [], "honest": []}
    entry: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("[["):
            entry = {}
            table[line.strip("[]")].append(entry)
        elif line and not line.startswith("#"):
            key, _, value = line.partition(" = ")
            entry[key] = json.loads(value)
    return table


def items_of(table: dict[str, list[dict[str, Any]]], *, on_gpu: bool) -> list[Item]:
    """All files, the most important first."""
    items = [
        Item(entry, is_honest=False, has_times=on_gpu and entry["needs"] == "timing")
        for entry in table["row"]
        if on_gpu or entry["needs"] == "cpu"
    ]
    items += [
        Item(entry, is_honest=True, has_times=on_gpu and entry["file"] in TIMED_HONEST)
        for entry in table["honest"]
    ]
    return sorted(items, key=lambda item: item.importance)


def calls_of(items: list[Item]) -> list[list[Item]]:
    """Groups of files that one call checks, in the order of what is most important."""
    calls: list[list[Item]] = []
    for item in items:
        most = MOST_TIMED_FILES if item.has_times else MOST_FILES
        for call in calls:
            same = call[0].options == item.options and call[0].importance == item.importance
            if same and len(call) < most:
                call.append(item)
                break
        else:
            calls.append([item])
    return calls


def check(call: list[Item], command: list[str], environment: dict[str, str], limit_s: float) -> str:
    """Fill in what was found; what went wrong with the call itself, or nothing."""
    files = [str(item.path) for item in call]
    process = subprocess.Popen(
        [*command, *call[0].options, *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    trouble = ""
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        trouble = f"did not end within {limit_s:.0f} s"
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    by_path = {str(item.path): item for item in call}
    codes: dict[str, list[str]] = {}
    for line in out.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        item = by_path.get(record.get("file", ""))
        if item is None:
            continue
        told = codes.setdefault(record["file"], [])
        if record["schema"] == "warpsmith.case/1":
            told += [finding["code"] for finding in record["findings"]]
        elif record["schema"] == "warpsmith.summary/1":
            told += [finding["code"] for finding in record["findings"]]
            item.found = found_in(record, told)
    if not trouble and process.returncode not in (0, 1, 2):
        trouble = f"status {process.returncode}"
    return f"{trouble}: {err.strip()[-500:]}" if trouble else ""


def found_in(summary: dict[str, Any], codes: list[str]) -> dict[str, Any]:
    """What counts of a summary."""
    messages = [missing["why"] for missing in summary["not_timed"]]
    return {
        "verdict": summary["verdict"],
        "codes": list(dict.fromkeys(codes)),
        "cases": summary["cases"],
        "not_run": [line for line in summary["not_run"] if line["why"] != "not asked for"],
        "not_timed": [{"code": missing["code"], "why": missing["why"]} for missing in summary["not_timed"]],
        "times": [
            {
                "shape": timing["shape"],
                "cold_us": timing["latency"]["cold_us"]["median"],
                "speedup": (timing["speedup"] or {}).get("cold", {}).get("median"),
                "claim_error": timing["claim_error"],
            }
            for timing in summary["timings"]
        ],
        "why": messages[0] if messages else "",
        "seconds": round((summary["timeline_ms"].get("end") or 0.0) / 1e3, 2),
        "provenance": summary["provenance"],
    }


def judged(item: Item) -> tuple[str, bool]:
    """`rejected`, `accepted`, `open` or `not run`, and whether that is what is expected."""
    found, expected = item.found, item.entry
    if not found:
        return "not run", False
    refused = {missing["code"] for missing in found["not_timed"]}
    if item.is_honest:
        others = set(found["codes"]) - set(expected.get("warnings", []))
        has_time = bool(found["times"]) or not item.has_times
        passes = found["verdict"] == "passed" and not others
        # A machine that is not ours alone gives no times; that rejects nobody.
        return ("accepted" if passes else "rejected"), passes and (has_time or refused <= {"gpu-busy"})
    if found["verdict"] != "passed":
        wanted = {*expected.get("codes", []), *expected.get("gpu", [])}
        return "rejected", bool(wanted & set(found["codes"]))
    if expected["needs"] != "timing" or found["times"]:
        is_open = "open" in expected
        return ("open" if is_open else "accepted"), is_open
    return "rejected", bool(refused & set(expected.get("not_timed", []))) or "open" in expected


def record_of(item: Item) -> dict[str, Any]:
    """One entry of the JSON."""
    outcome, ok = judged(item)
    expected = {key: value for key, value in item.entry.items() if key not in ("file", "row")}
    found = {key: value for key, value in item.found.items() if key not in ("seconds", "provenance")}
    return {
        "row": item.entry.get("row"),
        "file": item.entry["file"],
        "honest": item.is_honest,
        "expected": expected,
        "found": found,
        "outcome": outcome,
        "ok": ok,
        "seconds": item.found.get("seconds"),
    }


def counts_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Covered, rejected and missed rows of the catalogue, and honest kernels."""
    cheats = [record for record in records if not record["honest"]]
    honest = [record for record in records if record["honest"]]

    def rows(outcomes: tuple[str, ...]) -> list[int]:
        return sorted({record["row"] for record in cheats if record["outcome"] in outcomes})

    missed = rows(("accepted",))
    return {
        "files": len(cheats),
        "files_rejected": sum(record["outcome"] == "rejected" for record in cheats),
        "files_rejected_for_the_expected_reason": sum(
            record["outcome"] == "rejected" and record["ok"] for record in cheats
        ),
        "rows_covered": len(rows(("rejected", "accepted", "open"))),
        "rows_rejected": len([row for row in rows(("rejected",)) if row not in missed]),
        "rows_missed": missed,
        "rows_open": rows(("open",)),
        "not_run": [record["file"] for record in records if record["outcome"] == "not run"],
        "honest": len(honest),
        "honest_accepted": sum(record["outcome"] == "accepted" for record in honest),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the cheat suite through the binary.")
    parser.add_argument("out", type=Path, help="folder of the record, cheats.json")
    parser.add_argument("--binary", type=Path, default=next((b for b in BINARIES if b.exists()), BINARIES[0]))
    parser.add_argument("--python", default=sys.executable, help="with torch and Triton")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--budget", type=float, default=400, help="seconds for everything")
    parser.add_argument("--only", default="", help="files whose names hold this")
    parser.add_argument("--commit", default=None, help="where git cannot be asked")
    asked = parser.parse_args()
    began = time.monotonic()
    items = items_of(read_table(), on_gpu=asked.device != "cpu")
    items = [item for item in items if asked.only in item.entry["file"]]
    troubles = []
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": f"{scratch}/cache",
            "XDG_STATE_HOME": f"{scratch}/state",
            "WARPSMITH_PYTHON": asked.python,
            "NO_COLOR": "1",
        }
        command = [str(asked.binary), "check", "--json", "--no-setup", "--device", asked.device]
        for call in calls_of(items):
            left_s = asked.budget - (time.monotonic() - began)
            if left_s < FEWEST_S:
                troubles.append(f"no time was left for {', '.join(item.entry['file'] for item in call)}")
                continue
            file_s = TIMED_FILE_S if call[0].has_times else FILE_S
            trouble = check(call, command, environment, min(left_s, CALL_S + file_s * len(call)))
            troubles += [trouble] if trouble else []
            for item in call:
                show(item)
    records = [record_of(item) for item in items]
    counts = counts_of(records)
    provenance = next((item.found["provenance"] for item in items if item.found), {})
    record = {
        "schema": "warpsmith.gpu.cheats/1",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": asked.commit or commit(),
        "device": asked.device,
        "seconds": round(time.monotonic() - began, 1),
        "provenance": {key: value for key, value in provenance.items() if key != "source_hash"},
        "counts": counts,
        "troubles": troubles,
        "files": records,
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "cheats.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    for trouble in troubles:
        print(f"trouble: {trouble}")
    for key, value in counts.items():
        print(f"{key.replace('_', ' ')}: {value}")
    return 0 if all(entry["ok"] for entry in records) else 1


def show(item: Item) -> None:
    outcome, ok = judged(item)
    found = item.found
    told = [
        *found.get("codes", []),
        *(f"no time: {missing['code']}" for missing in found.get("not_timed", [])),
    ]
    told += [f"{timed['cold_us']:.2f} µs" for timed in found.get("times", [])]
    mark = "ok  " if ok else "FAIL"
    kind = "honest" if item.is_honest else "cheat"
    name = item.entry["file"]
    print(f"{mark} {found.get('seconds', 0):6.1f} s  {kind:6} {name:32} {outcome:9} {told}", flush=True)


def commit() -> str:
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
