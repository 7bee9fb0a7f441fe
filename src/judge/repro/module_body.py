"""The part of every repro of a KernelBench problem that is the same."""

import random
import sys
from typing import Any

import numpy as np
import torch
from body import DEVICE, HAS_GPU, NarrowAsFloat64, flat, judging, loaded, problem_of, trying

# What stands above is in the other part already.


def seeded(seed: int) -> None:
    """The generators that constructors and `get_inputs` commonly use."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    torch.manual_seed(seed)


def made(model: Any, truth: Any, case: dict[str, Any]) -> torch.nn.Module:
    """An object of a class, its weights drawn from the seed of the case."""
    seeded(0)
    init = truth.get_init_inputs()
    seeded(case["weights_seed"])
    module = model(**init) if isinstance(init, dict) else model(*init)
    return module.eval() if case["eval"] else module


def randomise_constants(module: torch.nn.Module, seed: int) -> None:
    """Parameters of one value, and running statistics in evaluation, get others: who ignores them shows."""
    generator = torch.Generator().manual_seed(seed)
    running = [
        value
        for norm in module.modules()
        if isinstance(norm, torch.nn.modules.batchnorm._NormBase) and not norm.training
        for value in (norm.running_mean, norm.running_var)
        if value is not None
    ]
    every = [*module.parameters(), *running]
    floats = [value for value in every if value.numel() and value.is_floating_point()]
    for value in [value for value in floats if bool((value == value.flatten()[0]).all())]:
        scale = abs(float(value.detach().flatten()[0])) or 1.0
        change = 0.25 * scale * (2 * torch.rand(value.shape, generator=generator) - 1)
        with torch.no_grad():
            value.add_(change.to(value.dtype))


def share(module: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Weights by name; what has other names was drawn from the same seed."""
    own = module.state_dict()
    for name, values in state.items():
        if name in own and own[name].shape == values.shape:
            with torch.no_grad():
                own[name].copy_(values)


def right(
    model: Any, truth: Any, inputs: list[Any], case: dict[str, Any], wide: bool
) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """What the reference returns, in float64 or as it is, and its weights before."""
    module = made(model, truth, case)
    if case["random_affine"]:
        randomise_constants(module, case["weights_seed"])
    state = {name: values.clone() for name, values in module.state_dict().items()}
    values = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    if not wide:
        with torch.no_grad():
            return flat(module(*values)), state
    module = module.double()
    widened = [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in values
    ]
    torch.set_default_dtype(torch.float64)
    try:
        with NarrowAsFloat64(), torch.no_grad():
            return flat(module(*widened)), state
    finally:
        torch.set_default_dtype(torch.float32)


def longest_sum(inputs: list[Any], state: dict[str, torch.Tensor], outputs: list[Any]) -> int:
    """An upper bound: all lengths added up, or what stands behind one row of the largest weight."""
    tensors = [value for value in [*inputs, *state.values(), *outputs] if isinstance(value, torch.Tensor)]
    rows_of = [int(np.prod(value.shape[1:])) for value in state.values() if value.dim() > 1]
    return max([sum({length for value in tensors for length in value.shape}), *rows_of, 1])


def limits_of(dtype: torch.dtype, terms: int, case: dict[str, Any]) -> dict[str, float]:
    """How far an output of this dtype may be off."""
    told = case["limits"].get(str(dtype).removeprefix("torch."), case["limits"]["float32"])
    length = case["reduction"] or terms
    return {**told, "row_rms_factor": told["per_sum"] * length**0.5 + told["extra"]}


def main_of_class(kernel: str, reference: str, case: dict[str, Any]) -> int:
    """Runs the case; see `status_of`."""
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            kernel = file.read()
    truth = trying("the reference", loaded, reference, case["reference_file"], case["folder"])
    seeded(case["inputs_seed"])
    inputs = list(truth.get_inputs())
    model = getattr(truth, case["class"])
    exact, _ = trying("the reference", lambda: right(model, truth, inputs, case, wide=True))
    rounded, state = trying("the reference", lambda: right(model, truth, inputs, case, wide=False))
    # Memory that nobody wrote reads as NaN, so that what is left out shows.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    module = trying("importing the kernel's file", loaded, kernel, case["file"], case["folder"])
    judged = made(getattr(module, case["entry"]), truth, case).to(DEVICE)
    share(judged, state)
    passed = [value.to(DEVICE) if isinstance(value, torch.Tensor) else value for value in inputs]
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in passed]
    with torch.no_grad():
        got = judging(case["raised"], lambda: flat(judged(*passed)))
    where = "GPU" if HAS_GPU else "Triton's interpreter"
    print(f"{case['label']} (on {where})")
    if len(got) != len(exact):
        print(f"{len(got)} values returned, {len(exact)} expected")
        return 1
    problems = [
        f"input {at} was changed"
        for at, (old, new) in enumerate(zip(before, passed, strict=True))
        if isinstance(old, torch.Tensor) and not torch.equal(old.nan_to_num(), new.nan_to_num())
    ]
    terms = longest_sum(inputs, state, rounded)
    for at, value in enumerate(got):
        name = "out" if len(got) == 1 else f"out{at + 1}"
        problem = problem_of(name, value, exact[at], rounded[at], limits_of(rounded[at].dtype, terms, case))
        problems += [problem] if problem else []
    print("\n".join(problems) if problems else "right: the bug is not there")
    return 1 if problems else 0
