"""Checks what a candidate says before it is handed on: known fields, expected types, bounded text.

A candidate process ran user code, so its messages are rebuilt field by field; whatever does not fit is a
`Malformed` message, and its sender is stopped.
"""

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], Any]

_LONGEST_TEXT = 64 << 10
_MOST_ITEMS = 100_000

FINDING_KINDS = (
    "out-of-bounds-load",
    "out-of-bounds-store",
    "out-of-bounds-atomic",
    "race",
    "benign-race",
    "duplicate-store",
    "integer-overflow",
    "device-assert",
    "uninitialised-read",
    "compile-error",
)


class Malformed(Exception):
    """A message that does not follow the protocol."""


def clean_text(text: str) -> str:
    """Text that survives JSON: lone surrogates become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise Malformed(f"expected text, got {type(value).__name__}")
    return clean_text(value[:_LONGEST_TEXT])


def boolean(value: Any) -> bool:
    """True or false, and no number."""
    if not isinstance(value, bool):
        raise Malformed(f"expected true or false, got {type(value).__name__}")
    return value


def milliseconds(value: Any) -> float:
    """A finite duration."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Malformed(f"expected milliseconds, got {value!r:.40}")
    return value


def microseconds(value: Any) -> float:
    """A finite duration."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Malformed(f"expected microseconds, got {value!r:.40}")
    return value


def scalar(value: Any) -> Any:
    """A number, true, false, or nothing."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    raise Malformed(f"expected a finite number, got {value!r:.40}")


def whole(low: int, high: int) -> Check:
    """Whole numbers from `low` up to, not including, `high`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
            raise Malformed(f"expected a whole number, got {value!r:.40}")
        return value

    return check


def optional(check: Check) -> Check:
    """What ``check`` takes, or nothing."""
    return lambda value: None if value is None else check(value)


def list_of(check: Check, length: int | None = None) -> Check:
    """A list of what ``check`` takes, of a given length if there is one."""

    def check_list(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            raise Malformed("expected a list")
        if length is not None and len(value) != length:
            raise Malformed(f"expected {length} items, got {len(value)}")
        return [check(item) for item in value]

    return check_list


def record(required: dict[str, Check], defaulted: dict[str, Check] | None = None) -> Check:
    """An object; `defaulted` fields may be missing, unknown fields are dropped."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Malformed(f"expected an object, got {type(value).__name__}")
        checked = {}
        for name, field in required.items():
            if name not in value:
                raise Malformed(f"`{name}` is missing")
            checked[name] = field(value[name])
        for name, field in (defaulted or {}).items():
            if name in value:
                checked[name] = field(value[name])
        return checked

    return check


def one_of(words: tuple[str, ...]) -> Check:
    """One of these strings."""

    def check(value: Any) -> str:
        if value not in words:
            raise Malformed(f"unknown word {value!r:.40}")
        return value

    return check


U32 = whole(0, 1 << 32)
U64 = whole(0, 1 << 64)
I64 = whole(-(1 << 63), 1 << 63)

PLACE = record({"file": text, "line": U32})
GRID = list_of(U64, length=3)
LAUNCH = record(
    {"kernel": text, "file": text, "line": U32, "grid": GRID, "programs": U64, "programs_run": U64},
    {"tf32_dots": list_of(PLACE), "ms": milliseconds},
)
FINDING = record(
    {"kind": one_of(FINDING_KINDS), "place": PLACE, "message": text},
    {"kernel": optional(text), "called_from": list_of(PLACE), "program": optional(GRID), "occurrences": U64},
)
AUTOTUNED = record({"kernel": text, "configurations": list_of(text)})
UNSUPPORTED = record({"code": text, "message": text}, {"place": optional(PLACE)})
RETURNED = record(
    {"type_name": text},
    {
        "dtype": optional(text),
        "shape": list_of(U64),
        "strides": list_of(I64),
        "aliases_input": optional(text),
        "returned_before": boolean,
        "written_by_single_launch": boolean,
        "copied": boolean,
    },
)
SHAPED = record(
    {"name": text},
    {
        "dtype": text,
        "shape": list_of(U64),
        "strides": list_of(U64),
        "scalar": scalar,
    },
)
PROBLEM = record(
    {"inputs": list_of(SHAPED), "state": list_of(SHAPED), "outputs": list_of(SHAPED), "init": text},
    {"flops": optional(U64), "has_constant_parameters": boolean},
)
OPENED = record(
    {"parameters": list_of(record({"name": text, "has_default": boolean})), "import_ms": milliseconds},
    {"problem": optional(PROBLEM)},
)
RAN = record(
    {
        "outputs": list_of(RETURNED),
        "launches": list_of(LAUNCH),
        "findings": list_of(FINDING),
        "run_ms": milliseconds,
    },
    {"unsupported": optional(UNSUPPORTED), "autotuned": list_of(AUTOTUNED), "library": list_of(text)},
)
RAISED = record(
    {"exception": text, "message": text, "code": text},
    {
        "missing": optional(text),
        "place": optional(PLACE),
        "column": optional(U32),
        "called_from": list_of(PLACE),
        "traceback": text,
        "launches": list_of(LAUNCH),
        "findings": list_of(FINDING),
    },
)
PROGRESS = record({"programs_done": U64, "programs": U64})
RECOPIED = record({"copied": list_of(boolean)})
PROBED = record({}, {"refused": optional(text)})
TIME_OPENED = record(
    {
        "pool_entries": U32,
        "pool_bytes": U64,
        "flush_bytes": U64,
        "flush_us": microseconds,
        "method": one_of(("events", "graph")),
        "graph_refused": text,
        "is_host_bound": boolean,
        "host_us": microseconds,
        "call_us": microseconds,
        "launches": U64,
    }
)
TIME_SAMPLED = record({"cold_us": microseconds, "warm_us": microseconds, "empty_us": microseconds})
TIME_CLAIMED = record({"calls": whole(1, 1 << 32), "claimed_us": microseconds})
EXPECTED_DONE = {
    "open": OPENED,
    "run": RAN,
    "compile": record({}),
    "recopy": RECOPIED,
    "probe": PROBED,
    "time-open": TIME_OPENED,
    "time-sample": TIME_SAMPLED,
    "time-claim": TIME_CLAIMED,
    "time-keep": record({"outputs": list_of(RETURNED)}),
    "time-close": record({}),
}


def candidate_answer(op: str, message: dict[str, Any]) -> dict[str, Any]:
    """The answer to `op` with only known fields: `{"done": …}` or `{"raised": …}`.

    Raises Malformed.
    """
    if "done" in message and op in EXPECTED_DONE:
        return {"done": EXPECTED_DONE[op](message["done"])}
    if "raised" in message:
        return {"raised": RAISED(message["raised"])}
    raise Malformed("neither `done` nor `raised`")
