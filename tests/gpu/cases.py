"""The tests on a GPU, by name: values and verdicts. Ends of contexts and processes are in `ends.py`."""

import os
import time
from pathlib import Path
from typing import Any

from .kernels import INTO_DESTINATION, MODULE, PROBLEM, SOFTMAX_KERNEL, TUNED, double_kernel
from .registry import ALL, test
from .support import HEADER, NORMAL, TOLERANCE, Bench, check, contains, equal, output, tensor

__all__ = ["ALL"]

NO_VALUES = {"max_programs": None, "compare_values": False}
BOTH = [{"parameter": "x", "input": "x"}, {"parameter": "y", "output": "y"}]
RIGHT = "def kernel_fn(x):\n    return x * 2\n"


@test
def warm_says_which_gpu(bench: Bench) -> None:
    bench.still_works()
    told = bench.warm["device"]
    equal(told["device"], "cuda:0")
    contains(told["uuid"], "GPU-")
    equal((told["transport"], told["transport_reason"]), ("ipc", ""))
    check(told["capability"][0] >= 7 and told["name"] and told["torch_cuda"], str(told))
    check(0 < told["judge_start_ms"] < 60_000, str(told))


@test
def a_candidate_sees_one_gpu(bench: Bench) -> None:
    source = (
        "import os, torch\n"
        "def kernel_fn(x):\n"
        "    assert torch.cuda.device_count() == 1 and x.device == torch.device('cuda', 0), x.device\n"
        "    assert 'TRITON_INTERPRET' not in os.environ and 'CUDA_LAUNCH_BLOCKING' not in os.environ\n"
        "    return x * 2\n"
    )
    equal(bench.errors(source, bench.case([100]))["violations"], 0)


@test(anywhere=True)
def a_right_softmax_and_its_launch(bench: Bench) -> None:
    runner = bench.opened(SOFTMAX_KERNEL)
    for dtype in ("float32", "float16", "bfloat16"):
        case = bench.case([33, 1000], dtype, "softmax")
        done = bench.run(runner, case)
        (launch,) = done["launches"]
        equal((launch["kernel"], launch["grid"], launch["programs"]), ("softmax_kernel", [33, 1, 1], 33))
        equal((launch["programs_run"], launch["line"]), (33, 6))
        check(launch["file"].endswith("kernel.py"), str(launch))
        tolerance = {**TOLERANCE, "absolute_ulp": 2.0**-7}
        (errors,) = bench.compare(case, tolerance=tolerance, null_candidates=True)["outputs"]
        equal((errors["violations"], errors["unwritten"], errors["elements_compared"]), (0, 0, 33_000))
        nulls = {null["name"]: null["violations"] for null in errors["null_candidates"]}
        check(all(nulls[name] > 10_000 for name in ("zeros", "mean", "other-seed")), str(nulls))


@test
def compiled_ahead_in_another_process(bench: Bench) -> None:
    """Nothing is launched there, and nothing is left to compile."""
    cache = Path(os.environ.get("TRITON_CACHE_DIR", Path.home() / ".triton" / "cache"))
    # No other run of these tests has met this kernel.
    source = SOFTMAX_KERNEL.replace("softmax_kernel", f"softmax_kernel_{time.time_ns()}")
    ahead = bench.opened(source)
    described = {"inputs": [tensor("x", [33, 1000])], "outputs": [], "wall_s": 60.0}
    arguments = [{"parameter": "x", "input": "x"}]
    before = set(cache.glob("*/*.cubin"))
    equal(bench.ask_done("compile", runner=ahead, arguments=arguments, **described), {})
    compiled = set(cache.glob("*/*.cubin"))
    equal(len(compiled - before), 1)
    case = bench.case([33, 1000], definition="softmax")
    bench.run(bench.opened(source), case)
    equal(set(cache.glob("*/*.cubin")), compiled)
    equal(bench.compare(case)["outputs"][0]["unwritten"], 0)


@test(anywhere=True)
def a_wrong_element(bench: Bench) -> None:
    source = double_kernel("tl.store(y_ptr + at, x + 9, mask=(at == 300) & (at < n))")
    errors = bench.errors(source, bench.case([8, 64]))
    equal((errors["violations"], errors["first"]["index"]), (1, [4, 44]))


@test(anywhere=True)
def unwritten_elements(bench: Bench) -> None:
    source = double_kernel("").replace("x * 2, mask=at < n)", "x * 2, mask=at < n - 5)")
    errors = bench.errors(source, bench.case([8, 64]))
    equal((errors["unwritten"], errors["first_unwritten"], errors["violations"]), (5, [7, 59], 0))


@test
def fresh_memory_is_poisoned(bench: Bench) -> None:
    for other, unwritten in ((False, 4096), (True, 0)):
        case = bench.case([64, 64])
        options = {"max_programs": None, "compare_values": True, "other_poison": other}
        source = "import torch\ndef kernel_fn(x):\n    return torch.empty_like(x)\n"
        errors = bench.errors(source, case, interpreter=options)
        equal(errors["unwritten"], unwritten)
        check(other == (errors["violations"] > 4000), str(errors))


@test
def stores_beside_an_input(bench: Bench) -> None:
    for where in ("x_ptr + n", "x_ptr - 1", "x_ptr + n + 1000"):
        body = f"tl.store({where}, 5.0, mask=tl.program_id(0) == 0)"
        case = bench.case([1024])
        done = bench.run(bench.opened(double_kernel(body)), case)
        compared = bench.compare(case)
        equal((compared["written_outside"], compared["inputs_changed"], done["findings"]), (["x"], [], []))
        equal(bench.compare(case)["written_outside"], [])


@test
def stores_beside_an_output(bench: Bench) -> None:
    for extra, damaged in ((0, []), (1, ["y"]), (200, ["y"])):
        case = bench.case([1024])
        runner = bench.opened(INTO_DESTINATION.replace("EXTRA", str(extra)))
        bench.run(runner, case, arguments=BOTH)
        compared = bench.compare(case)
        equal((compared["written_outside"], compared["outputs"][0]["violations"]), (damaged, 0))


@test
def stores_beside_fresh_memory(bench: Bench) -> None:
    for where, side in (("y_ptr + n", "behind"), ("y_ptr - 3", "in front of")):
        body = f"tl.store({where}, 5.0, mask=tl.program_id(0) == 0)"
        case = bench.case([1000])
        done = bench.run(bench.opened(double_kernel(body)), case)
        (finding,) = done["findings"]
        equal((finding["kind"], finding["kernel"]), ("out-of-bounds-store", "double_kernel"))
        contains(finding["message"], "byte", side, "torch.empty_like", "[1000]")
        contains(finding["place"]["file"], "kernel.py")
        equal(bench.compare(case)["outputs"][0]["violations"], 0)


@test
def fresh_memory_keeps_its_form(bench: Bench) -> None:
    source = (
        "import torch\n"
        "def kernel_fn(x):\n"
        "    d = x.device\n"
        "    made = [torch.empty(3, 5, device=d), torch.empty_like(x.t()), x.new_empty((7,)),\n"
        "            torch.empty_strided((2, 3), (5, 1), device=d), x.new_empty_strided((2, 2), (1, 2)),\n"
        "            torch.empty(4, device=d, requires_grad=True), torch.empty(0, device=d), x.new(5),\n"
        "            torch.empty((2, 3, 4, 4), device=d, memory_format=torch.channels_last)]\n"
        "    assert made[1].stride() == (1, 32) and made[3].stride() == (5, 1), made[1].stride()\n"
        "    assert made[5].requires_grad and all(t.storage_offset() == 0 for t in made)\n"
        "    assert bool(made[0].isnan().all()) and not torch.zeros(5, device=d).any()\n"
        "    assert made[0].cpu().shape == (3, 5) and made[0].to('cpu').device.type == 'cpu'\n"
        "    assert torch.empty(5).device.type == 'cpu'\n"
        "    big = [torch.empty(1 << 22, device=d) for _ in range(200)]\n"
        "    for t in big: t.fill_(1)\n"
        "    y = torch.empty_like(x)\n"
        "    return torch.mul(x, 2, out=y)\n"
    )
    case = bench.case([8, 32])
    done = bench.run(bench.opened(source), case)
    equal((done["findings"], bench.compare(case)["outputs"][0]["violations"]), ([], 0))


@test
def a_tensor_on_the_cpu(bench: Bench) -> None:
    done = bench.run(bench.opened("def kernel_fn(x):\n    return (x * 2).cpu()\n"), bench.case([64]))
    equal((done["outputs"][0]["type_name"], done["outputs"][0]["dtype"]), ("torch.Tensor on the CPU", None))


@test(anywhere=True)
def an_input_handed_back(bench: Bench) -> None:
    done = bench.run(
        bench.opened("def kernel_fn(x):\n    x.mul_(2)\n    return x[:]\n"), case := bench.case([64])
    )
    equal(done["outputs"][0]["aliases_input"], "x")
    equal(bench.compare(case)["inputs_changed"], ["x"])


@test(anywhere=True)
def a_result_of_before(bench: Bench) -> None:
    runner = bench.opened("kept = []\ndef kernel_fn(x):\n    kept.append(x * 2)\n    return kept[0]\n")
    case = bench.case([64])
    equal([bench.run(runner, case)["outputs"][0]["returned_before"] for _ in range(2)], [False, True])


@test(anywhere=True)
def other_values_in_the_same_memory(bench: Bench) -> None:
    runner, case = bench.opened(RIGHT), bench.case([64, 64], seed=7)
    for seed in (8, 9):
        bench.run(runner, case, hold=True)
        equal(bench.compare(case)["outputs"][0]["violations"], 0)
        (repeated,) = bench.ask_done("repeat", case=case)["outputs"]
        check((repeated["differing"] == 0) == (seed == 8), str(repeated))
        bench.ask_done("redraw", case=case, seed=seed)
        equal(bench.ask_done("recopy", runner=runner, case=case, wall_s=20.0), {"copied": [True]})
        # What was held belongs to the inputs of before.
        check(bench.compare(case)["outputs"][0]["violations"] > 4000, "the old result passed")
        bench.ask_done("redraw", case=case, seed=seed)


@test(anywhere=True)
def the_same_bits_again(bench: Bench) -> None:
    runner, case = bench.opened(SOFTMAX_KERNEL), bench.case([16, 100], definition="softmax")
    for _ in range(3):
        bench.run(runner, case)
        equal(bench.ask_done("repeat", case=case)["outputs"][0]["differing"], 0)


@test(anywhere=True)
def one_configuration_alone(bench: Bench) -> None:
    runner, case = bench.opened(TUNED), bench.case([1 << 14])
    for index, wrong in ((0, 0), (1, 0), (2, 1 << 14), (7, 0)):
        options = {"max_programs": None, "compare_values": True, "autotune": {"only": index}}
        done = bench.run(runner, case, interpreter=options)
        (tuned,) = done["autotuned"]
        equal(len(tuned["configurations"]), 3)
        contains(tuned["configurations"][2], "BLOCK=512")
        equal(bench.compare(case)["outputs"][0]["violations"], wrong)


@test
def tuning_runs_every_configuration(bench: Bench) -> None:
    runner, case = bench.opened(TUNED), bench.case([1 << 14])
    for autotune, launches in (("trial", 3), ("drawn", 1), ("trial", 3)):
        options = {"max_programs": None, "compare_values": True, "autotune": autotune}
        done = bench.run(runner, case, interpreter=options)
        equal(len(done["launches"]), launches)


@test
def equal_launches_are_told_once(bench: Bench) -> None:
    call = "for _ in range(1000): double_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)"
    done = bench.run(bench.opened(double_kernel("", call)), bench.case([1000]))
    equal([launch["grid"] for launch in done["launches"]], [[4, 1, 1]])


@test
def a_compiled_kernel_that_is_launched_itself(bench: Bench) -> None:
    call = "double_kernel.warmup(x, y, n, BLOCK=256, grid=(1,))[(4, 1, 1)](x, y, n, 256)"
    case = bench.case([1000])
    done = bench.run(bench.opened(double_kernel("", call)), case)
    equal([(launch["kernel"], launch["programs"]) for launch in done["launches"]], [("double_kernel", 4)])
    equal(bench.compare(case)["outputs"][0]["violations"], 0)


@test
def a_graph_and_a_second_stream(bench: Bench) -> None:
    source = (
        "import torch\n"
        "def kernel_fn(x):\n"
        "    side = torch.cuda.Stream()\n"
        "    side.wait_stream(torch.cuda.current_stream())\n"
        "    with torch.cuda.stream(side):\n"
        "        for _ in range(3): y = torch.empty_like(x).copy_(x)\n"
        "    torch.cuda.current_stream().wait_stream(side)\n"
        "    graph = torch.cuda.CUDAGraph()\n"
        "    with torch.cuda.graph(graph):\n"
        "        z = torch.empty_like(x)\n"
        "        torch.mul(x, 2, out=z)\n"
        "    graph.replay()\n"
        "    with torch.cuda.stream(side):\n"
        "        side.wait_stream(torch.cuda.default_stream())\n"
        "        torch.cuda._sleep(20_000_000)\n"
        "        late = z * 1\n"
        "    return late\n"
    )
    case = bench.case([256, 256])
    done = bench.run(bench.opened(source), case)
    equal((done["findings"], bench.compare(case)["outputs"][0]["violations"]), ([], 0))


@test
def by_way_of_the_host(bench: Bench) -> None:
    worker = bench.own_worker(WARPSMITH_TRANSPORT="host")
    told = worker.event("warm")["device"]
    equal(told["transport"], "host")
    contains(told["transport_reason"], "WARPSMITH_TRANSPORT")
    for source, violations, changed in (
        (RIGHT, 0, []),
        ("def kernel_fn(x):\n    y = x * 2\n    y[3] += 1\n    x[5] = 1\n    return y\n", 1, ["x"]),
    ):
        runner = worker.fresh("runner")
        check("done" in worker.open_source(source, runner, device_bytes=8 << 30), "open")
        case = worker.prepare("double", [tensor("x", [64])], [output("y", [64])])
        for seed in (None, 5):
            check(seed is None or "done" in worker.ask("redraw", case=case, seed=seed), "redraw")
            check("done" in worker.run_case(runner, case), "run")
            compared = worker.compare(case)["done"]
            equal((compared["outputs"][0]["violations"], compared["inputs_changed"]), (violations, changed))


@test(anywhere=True)
def a_foreign_reference(bench: Bench) -> None:
    right = "import torch\ndef kernel_fn(x):\n    return torch.softmax(x.float(), -1).to(x.dtype)\n"
    runner, reference = bench.opened(right), bench.opened(right)
    case = bench.case([16, 64], "float16", "softmax")
    bench.run(runner, case)
    truth: dict[str, Any] = {"perturbed": []}
    changes = {"float64": "widened", "in_dtype": "same", "again": "widened", "coarse_inputs": "coarse-inputs"}
    for name, change in changes.items():
        of = f"{case}-{name}"
        outputs = [output("y", [16, 64], "float16")]
        derived = {"of": case, "change": change, "draw": 0, "outputs": outputs, "wall_s": 30.0}
        equal(bench.ask_done("derive", case=of, **derived), {"possible": True})
        done = bench.run(reference, of, widened=change != "same")
        check(done["outputs"][0]["copied"], f"{change}: {done}")
        truth[name] = of
    tolerance = {**TOLERANCE, "absolute_ulp": 2.0**-10}
    (errors,) = bench.compare(case, truth=truth, tolerance=tolerance)["outputs"]
    equal((errors["violations"], errors["elements_compared"]), (0, 1024))
    for of in truth.values():
        if isinstance(of, str):
            bench.ask_done("release", case=of)


@test(anywhere=True)
def a_kernelbench_problem(bench: Bench) -> None:
    role = {"eval": False, "most_elements": 1 << 24}
    reference, reply = bench.try_open(PROBLEM, entry="Model", module={"side": "reference", **role})
    check("done" in reply, f"reference: {reply}")
    candidate, opened = bench.try_open(MODULE, entry="ModelNew", module={"side": "candidate", **role})
    check("done" in opened, f"candidate: {opened}")
    problem = reply["done"]["problem"]
    values = [("x:", value) for value in problem["inputs"]] + [("w:", value) for value in problem["state"]]
    drawn = [output(prefix + value["name"], value["shape"], value["dtype"]) for prefix, value in values]
    make = bench.worker.ask
    draw = {"weights_seed": 3, "inputs_seed": 4, "random_affine": False}
    rest = {"definition": None, "seed": 0, "wall_s": 30.0}
    check("done" in make("prepare", case="drawn", inputs=[], outputs=drawn, **rest), "prepare")
    ran = bench.run(reference, "drawn", arguments=[{"parameter": "draw", "value": draw}])
    check(all(value["copied"] for value in ran["outputs"]), str(ran))
    specs = [
        tensor(prefix + value["name"], value["shape"], value["dtype"], strides=value["strides"])
        for prefix, value in values
    ]
    outputs = [output("out", [4, 8])]
    check("done" in make("take", case="kb", of="drawn", inputs=specs, outputs=outputs, wall_s=30.0), "take")
    passed = [{"parameter": spec["name"], "input": spec["name"]} for spec in specs]
    seed = [{"parameter": "weights_seed", "value": 3}]
    own = [{"parameter": "init", "value": problem["init"]}, {"parameter": "random_affine", "value": False}]
    bench.run(candidate, "kb", arguments=[*passed, *seed, *own])
    truth: dict[str, Any] = {"perturbed": []}
    for name, change in (("float64", "widened"), ("in_dtype", "same")):
        derived = {"of": "kb", "change": change, "draw": 0, "outputs": outputs, "wall_s": 30.0}
        bench.ask_done("derive", case=f"kb-{name}", **derived)
        done = bench.run(reference, f"kb-{name}", arguments=[*passed, *seed], widened=change == "widened")
        check(done["outputs"][0]["copied"], f"{change}: {done}")
        truth[name] = f"kb-{name}"
    tolerance = {**TOLERANCE, "reference_factor": 16.0, "row_rms_factor": 2.0**-18}
    compared = bench.compare("kb", truth=truth, tolerance=tolerance)
    equal((compared["outputs"][0]["violations"], compared["outputs"][0]["elements_compared"]), (0, 32))
    for case in ("drawn", "kb", "kb-float64", "kb-in_dtype"):
        bench.ask_done("release", case=case)


@test(anywhere=True)
def only_offsets(bench: Bench) -> None:
    runner, case = bench.opened(double_kernel("")), bench.case([1 << 20], fill="untouched")
    done = bench.run(runner, case, interpreter={**NO_VALUES, "max_programs": 4})
    equal((len(done["launches"]), done["findings"], done["outputs"][0].get("copied")), (1, [], None))
    equal(bench.worker.compare(case)["failed"]["code"], "not-comparable")


@test(anywhere=True)
def the_same_values_as_on_a_cpu(bench: Bench) -> None:
    fills = [
        NORMAL,
        {"normal": {"mean": 0.3, "std": 1.7}},
        {"uniform": {"low": -0.3, "high": 2.1}},
        {"integers": {"low": -5, "high": 9}},
        *(
            {"profiled": {"base": NORMAL, "profile": name, "row_length": 97}}
            for name in ("signed-zeros", "ties")
        ),
    ]
    floats = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    seed = 0xDEADBEEFCAFEBABE
    for dtype in [*floats, "int64", "int32", "int16", "int8", "bool"]:
        usable = fills if dtype in floats else fills[3:4]
        # Strides with holes as well.
        specs = [tensor(f"x{at}", [97, 1031], dtype, fill=fill) for at, fill in enumerate(usable)]
        specs.append(tensor("s", [50, 40], dtype, fill=usable[0], strides=[64, 1], offset=3))
        source = (
            "import torch\n"
            "from warpsmith_worker import inputs, integers\n"
            f"FILLS = {[*usable, usable[0]]!r}\n"
            "def kernel_fn(**given):\n"
            "    for at, (name, x) in enumerate(given.items()):\n"
            "        expected = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)\n"
            f"        inputs.fill_tensor(expected, FILLS[at], {seed}, at)\n"
            "        bits = getattr(torch, f'int{8 * x.element_size()}')\n"
            "        wrong = int((expected.view(bits) != x.cpu().view(bits)).sum())\n"
            "        assert not wrong, f'{name}: {wrong} of {x.numel()} differ'\n"
            "        if x.is_floating_point():\n"
            "            for draw in (0, 5):\n"
            "                moved = [inputs.perturbed(t, 2.0**-23, 9, 1, draw) for t in (x, x.cpu())]\n"
            "                assert torch.equal(moved[0].cpu(), moved[1]), f'{name}: perturbed'\n"
            "            moved = [integers.reordered(t, 2.0**-23, 9, 1, back=True) for t in (x, x.cpu())]\n"
            "            assert torch.equal(moved[0].cpu(), moved[1]), f'{name}: reordered'\n"
            "    return given['x0'].clone()\n"
        )
        names = [spec["name"] for spec in specs]
        bench.worker.define("first", "def run(*given):\n    return given[0].clone()\n")
        case = bench.worker.prepare("first", specs, [output("y", [97, 1031], dtype)], seed=seed)
        arguments = [{"parameter": name, "input": name} for name in names]
        bench.run(bench.opened(source), case, arguments=arguments)
        (errors,) = bench.compare(case, exact_if_agree=True)["outputs"]
        equal((errors["violations"], errors["unwritten"], errors["non_finite_mismatches"]), (0, 0, 0))
        bench.ask_done("release", case=case)


@test(anywhere=True)
def dtypes_of_results(bench: Bench) -> None:
    bench.worker.define("cast", "import torch\ndef run(x, to):\n    return x.to(getattr(torch, to))\n")
    source = "import torch\ndef kernel_fn(x, to):\n    return x.to(getattr(torch, to))\n"
    runner = bench.opened(source)
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "int8", "bool", "int64"):
        specs = [tensor("x", [9, 33]), {"kind": "scalar", "name": "to", "value": dtype}]
        case = bench.worker.prepare("cast", specs, [output("y", [9, 33], dtype)])
        arguments = [{"parameter": name, "input": name} for name in ("x", "to")]
        bench.run(runner, case, arguments=arguments)
        (errors,) = bench.compare(case, tolerance={**TOLERANCE, "absolute_ulp": 2.0**-2})["outputs"]
        equal((dtype, errors["violations"], errors["unwritten"]), (dtype, 0, 0))
        bench.ask_done("release", case=case)


@test(anywhere=True)
def strides_and_no_elements(bench: Bench) -> None:
    runner = bench.opened("def kernel_fn(x):\n    return x.contiguous() * 2\n")
    for shape, strides, offset in (([40, 50], [1, 64], 5), ([0, 7], [7, 1], 0), ([6, 8], [0, 1], 0)):
        case = bench.case(shape, strides=strides, offset=offset)
        bench.run(runner, case)
        (errors,) = bench.compare(case)["outputs"]
        equal((errors["violations"], errors["unwritten"]), (0, 0))


@test(anywhere=True)
def places_of_a_maximum(bench: Bench) -> None:
    bench.worker.define("argmax", "def run(x):\n    return x.argmax(-1)\n")
    case = bench.case([64, 100], definition="argmax", outputs=[output("y", [64], "int64")])
    bench.run(bench.opened("def kernel_fn(x):\n    return x.argmax(-1)\n"), case)
    (errors,) = bench.compare(case, tolerance={**TOLERANCE, "condition_factor": 1.0})["outputs"]
    equal((errors["violations"], errors["exact"]), (0, True))


@test
def tf32_only_where_it_is_allowed(bench: Bench) -> None:
    bench.worker.define("square", "def run(x):\n    return x @ x\n")
    runner = bench.opened("def kernel_fn(x):\n    return x @ x\n")
    largest = []
    for tf32 in (False, True, False):
        case = bench.case([512, 512], definition="square")
        bench.run(runner, case)
        (errors,) = bench.compare(case, tf32=tf32)["outputs"]
        largest.append(errors["reference_max_absolute_error"])
    check(largest[1] > 20 * largest[0] and largest[0] == largest[2], str(largest))


@test
def large_tensors(bench: Bench) -> None:
    runner, case = bench.opened(SOFTMAX_KERNEL), bench.case([16384, 4096], "bfloat16", "softmax")
    bench.run(runner, case)
    tolerance = {**TOLERANCE, "absolute_ulp": 2.0**-7}
    (errors,) = bench.compare(case, tolerance=tolerance, null_candidates=True)["outputs"]
    equal((errors["violations"], errors["elements_compared"]), (0, 1 << 26))


@test
def memory_comes_back(bench: Bench) -> None:
    before = bench.ask_done("device-state")
    check(0 < before["free_bytes"] <= before["total_bytes"], str(before))
    case = bench.worker.prepare("double", [tensor("x", [1 << 28])], [output("y", [1 << 28])])
    within = bench.ask_done("device-state")["free_bytes"]
    check(before["free_bytes"] - within > 2 << 30, f"{before} {within}")
    bench.ask_done("release", case=case)
    after = bench.ask_done("device-state")["free_bytes"]
    check(before["free_bytes"] - after < 256 << 20, f"{before} {after}")


@test
def more_cases_than_arenas_stay_open(bench: Bench) -> None:
    runner = bench.opened(RIGHT)
    for size in range(1, 40):
        case = bench.worker.prepare("double", [tensor("x", [size << 17])], [output("y", [size << 17])])
        bench.run(runner, case)
        equal(bench.compare(case)["outputs"][0]["violations"], 0)
        if size % 3:
            bench.ask_done("release", case=case)
        else:
            bench._cases.append(case)


@test
def tensors_made_at_the_import(bench: Bench) -> None:
    source = HEADER + "TWO = torch.full((1,), 2.0, device='cuda')\ndef kernel_fn(x):\n    return x * TWO\n"
    equal(bench.errors(source, bench.case([64]))["violations"], 0)
