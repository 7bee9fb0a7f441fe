"""The part of every repro that is the same."""

import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"


class CannotRun(Exception):
    """It says nothing of the bug."""


def trying(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns; CannotRun when it raises."""
    try:
        return function(*args)
    except Exception as error:
        raise CannotRun(f"{what}: {type(error).__name__}: {error}") from error


def judging(raised_before: bool, function: Callable[[], Any]) -> Any:
    """What the judged function returns. An exception is the bug only where the bug was one."""
    try:
        return function()
    except Exception as error:
        if not raised_before:
            raise CannotRun(f"the kernel raised here: {type(error).__name__}: {error}") from error
        print(f"the kernel raised {type(error).__name__}: {error}")
        raise SystemExit(1) from error


def status_of(function: Callable[[], int]) -> int:
    """1 while the bug is there, 0 when it is not, 2 when that cannot be said here."""
    try:
        return function()
    except CannotRun as error:
        print(f"cannot be run here, so this says nothing of the bug: {error}")
        return 2


def philox(seed: int, stream: int, blocks: int) -> list[Any]:
    """Four arrays of 32-bit words: Philox 4x32-10 (Salmon and others, SC 2011), block by block."""
    index = np.arange(blocks, dtype=np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [index & low, index >> shift, np.full(blocks, stream, np.uint64), np.zeros(blocks, np.uint64)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> shift) ^ c[1] ^ np.uint64(key[0]),
            b & low,
            (a >> shift) ^ c[3] ^ np.uint64(key[1]),
            a & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn(fill: dict[str, Any], seed: int, stream: int, count: int) -> torch.Tensor:
    """The values of one input, in row-major order."""
    ((kind, how),) = fill.items()
    if kind == "normal":
        halves = [
            (word & np.uint64(0xFFFF)) + (word >> np.uint64(16))
            for word in philox(seed, stream, -(-count // 2))
        ]
        sums = np.stack([halves[0] + halves[1], halves[2] + halves[3]], axis=1).reshape(-1)[:count]
        z = (sums.astype(np.float64) - 131070) / float(np.sqrt(4 * (65536.0**2 - 1) / 12))
        return torch.from_numpy((float(how["mean"]) + float(how["std"]) * z).astype(np.float32))
    word = np.stack(philox(seed, stream, -(-count // 4)), axis=1).reshape(-1)[:count]
    low, high = how["low"], how["high"]
    if kind == "uniform":
        return torch.from_numpy(
            (float(low) + (float(high) - float(low)) * (word / 2.0**32)).astype(np.float32)
        )
    return torch.from_numpy(np.int64(low) + (word * np.uint64(high - low) >> np.uint64(32)).astype(np.int64))


def made_inputs(case: dict[str, Any]) -> dict[str, Any]:
    """The inputs of the case by name."""
    made = {}
    for position, spec in enumerate(case["inputs"]):
        if spec["kind"] == "scalar":
            made[spec["name"]] = spec["value"]
            continue
        dtype = getattr(torch, spec["dtype"])
        count = int(np.prod(spec["shape"], dtype=np.int64))
        values = drawn(spec["fill"], case["seed"], position, count).to(dtype).reshape(spec["shape"])
        reach = sum(
            (length - 1) * stride for length, stride in zip(spec["shape"], spec["strides"], strict=True)
        )
        storage = torch.empty(spec["offset"] + (reach + 1 if count else 0), dtype=dtype)
        tensor = storage.as_strided(spec["shape"], spec["strides"], spec["offset"])
        target = tensor
        for dim, stride in enumerate(spec["strides"]):
            if stride == 0 and count:
                target, values = target.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
        target.copy_(values)
        made[spec["name"]] = tensor
    return made


def loaded(text: str, name: str, folder: str) -> ModuleType:
    """The module of a source text, from a file of its own: Triton reads the lines of its kernels."""
    path = os.path.join(tempfile.mkdtemp(prefix="repro-"), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(name)[0], path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class NarrowAsFloat64(TorchFunctionMode):
    """Turns every cast to float32, float16 and bfloat16 into a cast to float64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0].double()
        if func is torch.Tensor.view:
            return func(*args, **kwargs)
        wider = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
        args = tuple(wider.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in args)
        kwargs = {
            k: wider.get(arg, arg) if isinstance(arg, torch.dtype) else arg for k, arg in kwargs.items()
        }
        return func(*args, **kwargs)


def flat(value: Any) -> list[Any]:
    """The values of nested tuples and lists, in order."""
    return [item for part in value for item in flat(part)] if isinstance(value, tuple | list) else [value]


def called(
    function: Callable[..., Any], arguments: list[dict[str, Any]], values: dict[str, Any]
) -> list[Any]:
    """What the function returns; optional arguments go only to a parameter of their name."""
    known = inspect.signature(function).parameters
    passed = {
        item["parameter"]: item["value"] if "value" in item else values[item.get("input", item.get("output"))]
        for item in arguments
        if not item["optional"] or item["parameter"] in known
    }
    first = [name for name, one in known.items() if one.kind is one.POSITIONAL_ONLY and name in passed]
    leading = [passed.pop(name) for name in first]
    return flat(function(*leading, **passed))


def for_reference(function: Callable[..., Any], order: list[str], values: dict[str, Any]) -> dict[str, Any]:
    """Tensors go to the parameter of their name or the next that is free, scalars only to theirs."""
    known = list(inspect.signature(function).parameters)
    free = [name for name in known if name not in order]
    passed = {}
    for name in order:
        if name in known:
            passed[name] = values[name]
        elif isinstance(values[name], torch.Tensor):
            passed[free.pop(0)] = values[name]
    return passed


def copied(values: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """The same arguments, tensors changed."""
    return {
        name: change(value) if isinstance(value, torch.Tensor) else value for name, value in values.items()
    }


def expected_values(
    reference: Callable[[dict[str, Any]], list[Any]], inputs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """What the reference returns in float64, and on the inputs as they are."""
    wide = copied(inputs, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor.clone())
    torch.set_default_dtype(torch.float64)
    try:
        with NarrowAsFloat64(), torch.no_grad():
            exact = reference(wide)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        return exact, reference(copied(inputs, torch.Tensor.clone))


def rows(tensor: torch.Tensor) -> torch.Tensor:
    """Two-dimensional: one row for each run of the last dimension."""
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)


def bad_elements(
    got: torch.Tensor, exact: torch.Tensor, rounded: torch.Tensor, limits: dict[str, float]
) -> tuple[Any, Any]:
    """Masks: NaN or infinite where it should not be (or the reverse), and further off than allowed."""
    if not got.is_floating_point():
        value = rows(got.to(torch.int64))
        wrong = (value != rows(exact.to(torch.int64))) & (value != rows(rounded.to(torch.int64)))
        return torch.zeros_like(wrong), wrong
    largest = torch.finfo(got.dtype).max
    value, exact, rounded = rows(got.double()), rows(exact.double()), rows(rounded.double())
    usable = exact.abs() <= largest
    error = torch.where(usable & rounded.isfinite(), (rounded - exact).abs(), 0.0).amax(1, keepdim=True)
    squares = torch.where(usable, exact, 0.0).square().sum(1, keepdim=True)
    rms = (squares / usable.sum(1, keepdim=True).clamp(min=1)).sqrt()
    allowed = (
        limits["reference_factor"] * error
        + limits["row_rms_factor"] * rms
        + limits["absolute_ulp"] * exact.abs()
    )
    finite = value.isfinite() & exact.isfinite()
    same = (value == exact) | (value.isnan() & exact.isnan())
    overflows = exact.isfinite() & (exact.abs() + allowed > largest) & ~value.isfinite()
    return ~finite & ~same & ~overflows, finite & ~((value - exact).abs() <= allowed)


def problem_of(
    name: str, got: Any, exact: torch.Tensor, rounded: torch.Tensor, limits: dict[str, float]
) -> str | None:
    """What is wrong with one output, in words."""
    if not isinstance(got, torch.Tensor):
        return f"{name} is a {type(got).__name__}, not a tensor"
    got = got.detach().cpu()
    if got.shape != exact.shape or got.dtype != rounded.dtype:
        return f"{name} is {got.dtype} {list(got.shape)}, expected {rounded.dtype} {list(exact.shape)}"
    if got.numel() == 0:
        return None
    for mask in bad_elements(got, exact, rounded, limits):
        if bool(mask.any()):
            at = int(mask.flatten().to(torch.uint8).argmax())
            index = [int(part) for part in np.unravel_index(at, tuple(got.shape))]
            found, wanted = got.flatten()[at].item(), exact.flatten()[at].item()
            count = int(mask.sum())
            return f"{name}: {count} bad elements; first at {index}: expected {wanted!r}, got {found!r}"
    return None


def main(kernel: str, reference: str | None, case: dict[str, Any]) -> int:
    """Runs the case; see `status_of`."""
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            kernel = file.read()
    # Memory that nobody wrote reads as NaN, so that what is left out shows.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    module = trying("importing the kernel's file", loaded, kernel, case["file"], case["folder"])
    truth = module
    if reference is not None:
        truth = trying("the reference", loaded, reference, case["reference_file"], case["folder"])
    function = getattr(truth, case["reference"])
    inputs = made_inputs(case)

    def right(values: dict[str, Any]) -> list[Any]:
        if case["by_position"]:
            return flat(function(*[values[name] for name in case["order"]]))
        return flat(function(**for_reference(function, case["order"], values)))

    exact, rounded = trying("the reference", expected_values, right, inputs)
    for at, spec in enumerate(case["outputs"][: len(rounded)]):
        rounded[at] = rounded[at].to(getattr(torch, spec["dtype"]))
    before = copied(inputs, torch.Tensor.clone)
    passed = copied(inputs, lambda tensor: tensor.to(DEVICE))
    written = [item["output"] for item in case["arguments"] if "output" in item]
    for spec in case["outputs"] if written else []:
        passed[spec["name"]] = torch.empty(spec["shape"], dtype=getattr(torch, spec["dtype"]), device=DEVICE)
    entry = getattr(module, case["entry"])
    returned = judging(case["raised"], lambda: called(entry, case["arguments"], passed))
    got = returned
    if written:
        places = [spec["name"] for spec in case["outputs"]]
        others = [name for name in places if name not in written]
        given = dict(zip(places if len(returned) == len(places) else others, returned, strict=False))
        got = [passed[name] if name in written else given.get(name) for name in places]
    where = "GPU" if HAS_GPU else "Triton's interpreter"
    print(f"{case['label']} (on {where})")
    if len(got) != len(exact):
        print(f"{len(got)} values returned, {len(exact)} expected")
        return 1
    changed = [
        name
        for name, value in before.items()
        if isinstance(value, torch.Tensor)
        and not torch.equal(value.nan_to_num(), passed[name].cpu().nan_to_num())
    ]
    problems = [f"the input {name} was changed" for name in changed]
    memory = {
        value.untyped_storage().data_ptr(): name
        for name, value in passed.items()
        if name in inputs and isinstance(value, torch.Tensor) and value.numel()
    }
    for value in got:
        shared = isinstance(value, torch.Tensor) and memory.get(value.untyped_storage().data_ptr())
        problems += [f"the memory of the input {shared} is returned"] if shared else []
    names = [spec["name"] for spec in case["outputs"]] or [f"output {at}" for at in range(len(got))]
    for at, name in enumerate(names):
        problem = problem_of(
            name, got[at], exact[at], rounded[at], case["limits"][min(at, len(case["limits"]) - 1)]
        )
        problems += [problem] if problem else []
    print("\n".join(problems) if problems else "right: the bug is not there")
    return 1 if problems else 0
