"""Tests on a GPU of what raises, breaks a context, hangs or needs too much: the next kernel works."""

import time

from .kernels import double_kernel
from .registry import ALL, test
from .support import HEADER, Bench, check, contains, equal, output, tensor

__all__ = ["ALL"]

# Elements of a case that is judged on the GPU as well: smaller ones are judged on the CPU.
LARGE = 1 << 18
# 64 GiB behind the tensor nothing is mapped.
FAR = "tl.store(y_ptr + (at.to(tl.int64) + (1 << 34)), x, mask=at < n)"


def line_of(source: str, text: str) -> int:
    return next(at for at, line in enumerate(source.splitlines(), 1) if text in line)


def ended(bench: Bench, runner: str) -> None:
    """The runner is gone, with the status of a broken context."""
    died = bench.worker.run_case(runner, bench.case([64]))["died"]
    equal((died["reason"], died["status"]), ("exit", 17))


@test
def an_illegal_access(bench: Bench) -> None:
    raised = bench.raised(double_kernel(FAR))
    equal((raised["code"], raised["place"]), ("illegal-access", None))
    contains(raised["message"], "illegal memory access", "double_kernel")
    ended(bench, raised["runner"])


@test
def an_illegal_access_that_user_code_notices(bench: Bench) -> None:
    source = double_kernel(FAR).replace("    return y\n", "    float(y.sum())\n    return y\n")
    raised = bench.raised(source)
    equal((raised["code"], raised["place"]), ("illegal-access", None))
    ended(bench, raised["runner"])


@test
def an_illegal_access_that_user_code_swallows(bench: Bench) -> None:
    swallow = "    try:\n        float(y.sum())\n    except RuntimeError:\n        pass\n    return y\n"
    raised = bench.raised(double_kernel(FAR).replace("    return y\n", swallow))
    equal(raised["code"], "illegal-access")
    ended(bench, raised["runner"])


@test
def blocking_tells_the_line(bench: Bench) -> None:
    source = double_kernel(FAR)
    raised = bench.raised(source, blocking=True)
    equal(raised["code"], "illegal-access")
    check(raised["place"] is not None, str(raised))
    equal(raised["place"]["line"], line_of(source, "double_kernel[("))
    ended(bench, raised["runner"])


@test
def a_device_assert(bench: Bench) -> None:
    body = 'tl.device_assert(x < -100, "too large")'
    source = double_kernel(body, decorator="@triton.jit(debug=True)")
    raised = bench.raised(source)
    equal(raised["code"], "device-assert")
    contains(raised["message"], "too large")
    ended(bench, raised["runner"])


@test
def an_assert_of_torch(bench: Bench) -> None:
    body = "    at = torch.full((5,), 10**6, device=x.device)\n    return x[at]\n"
    source = f"import torch\ndef kernel_fn(x):\n{body}"
    raised = bench.raised(source)
    equal(raised["code"], "device-assert")
    contains(raised["message"], "Assertion")
    ended(bench, raised["runner"])


@test
def a_misaligned_access(bench: Bench) -> None:
    body = (
        "odd = (x_ptr.to(tl.int64, bitcast=True) + 1).to(tl.pointer_type(tl.float32), bitcast=True)\n"
        "    tl.store(odd + tl.program_id(0), 1.0)"
    )
    raised = bench.raised(double_kernel(body))
    equal(raised["code"], "misaligned-access")
    ended(bench, raised["runner"])


@test
def too_much_shared_memory(bench: Bench) -> None:
    source = (
        HEADER
        + """
@triton.jit
def product_kernel(x_ptr, y_ptr, K, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(x_ptr + i[:, None] * K + (k + i)[None, :])
        b = tl.load(x_ptr + (k + i)[:, None] * K + i[None, :])
        total += tl.dot(a, b)
    tl.store(y_ptr + i[:, None] * B + i[None, :], total)

def kernel_fn(x):
    y = torch.empty_like(x)
    product_kernel[(1,)](x, y, x.shape[1], B=128, num_stages=8, num_warps=8)
    return y
"""
    )
    raised = bench.raised(source, [256, 256])
    equal(raised["code"], "out-of-resources")
    contains(raised["message"], "product_kernel")
    equal(raised["place"]["line"], line_of(source, "product_kernel[("))
    # Its context is as good as before.
    check("raised" in bench.worker.run_case(raised["runner"], bench.case([256, 256])), "the runner ended")


@test
def a_kernel_that_does_not_compile(bench: Bench) -> None:
    source = double_kernel("wrong = at + undefined_name")
    raised = bench.raised(source)
    equal(raised["code"], "compile-error")
    equal(raised["place"]["line"], line_of(source, "undefined_name"))
    contains(raised["message"], "undefined_name")


@test(anywhere=True)
def an_exception_of_user_code(bench: Bench) -> None:
    raised = bench.raised("def kernel_fn(x):\n    return x @ x.new_zeros(3)\n", [4, 4])
    equal((raised["code"], raised["place"]["line"]), ("raised", 2))


@test
def a_second_gpu(bench: Bench) -> None:
    raised = bench.raised("import torch\ndef kernel_fn(x):\n    return x.to('cuda:1') * 2\n")
    equal((raised["code"], raised["place"]["line"]), ("cuda-error", 3))
    contains(raised["message"], "invalid device ordinal", "one GPU, named cuda:0")


@test
def more_memory_than_there_is(bench: Bench) -> None:
    raised = bench.raised(
        "import torch\ndef kernel_fn(x):\n    return torch.zeros(1 << 40, device=x.device)\n"
    )
    equal((raised["code"], raised["place"]["line"]), ("out-of-memory", 3))


@test
def more_memory_than_is_allowed(bench: Bench) -> None:
    source = "import torch\ndef kernel_fn(x):\n    return torch.empty(3 << 28, device=x.device)\n"
    raised = bench.raised(source, device_bytes=2 << 30)
    equal(raised["code"], "out-of-memory")
    contains(raised["message"], "2.00 GiB", "warpsmith's limit")


@test
def a_hang_is_killed_and_the_gpu_is_free(bench: Bench) -> None:
    body = (
        "going = n\n    while going > 0:\n        going = tl.load(x_ptr, volatile=True).to(tl.int32) * 0 + 1"
    )
    runner, case = bench.opened(double_kernel(body)), bench.case([1024])
    began = time.monotonic()
    died = bench.worker.run_case(runner, case, wall_s=4.0)["died"]
    equal((died["reason"], died["signal"]), ("timeout", 9))
    check(time.monotonic() - began < 8, "it took too long to end")
    bench.still_works()


@test
def released_while_it_runs(bench: Bench) -> None:
    runner = bench.opened("import time\ndef kernel_fn(x):\n    time.sleep(60)\n")
    case = bench.worker.prepare("double", [tensor("x", [64])], [output("y", [64])])
    running = bench.worker.send("run", **bench.worker.run_fields(runner, case))
    released = bench.worker.send("release", case=case)
    closed = bench.worker.send("close", runner=runner)
    equal(bench.worker.reply_to(running)["died"]["reason"], "killed")
    equal(bench.worker.reply_to(released)["done"], {})
    equal(bench.worker.reply_to(closed)["done"], {})
    bench.still_works()


@test
def a_case_too_large_for_the_gpu(bench: Bench) -> None:
    fields = {"definition": "double", "seed": 1, "wall_s": 60.0}
    for shape in ([1 << 37], [1 << 35]):
        huge = bench.worker.ask(
            "prepare",
            case=f"huge{shape[0]}",
            inputs=[tensor("x", shape)],
            outputs=[output("y", shape)],
            **fields,
        )
        equal(huge["failed"]["code"], "out-of-memory")
    bench.still_works()


@test
def a_reference_too_large_for_the_gpu(bench: Bench) -> None:
    bench.worker.define(
        "vast", f"import torch\ndef run(x):\n    return x + torch.zeros(1 << 40, device=x.device)[:{LARGE}]\n"
    )
    case = bench.case([LARGE], definition="vast")
    bench.run(bench.opened("def kernel_fn(x):\n    return x * 1\n"), case)
    equal(bench.worker.compare(case)["failed"]["code"], "out-of-memory")
    bench.still_works()


@test
def a_reference_that_breaks_the_context(bench: Bench) -> None:
    worker = bench.own_worker()
    worker.define("bad", f"import torch\ndef run(x):\n    return x[torch.full(({LARGE},), 10**9)]\n")
    runner = worker.fresh("runner")
    check("done" in worker.open_source("def kernel_fn(x):\n    return x * 2\n", runner), "open")
    case = worker.prepare("bad", [tensor("x", [LARGE])], [output("y", [LARGE])])
    check("done" in worker.run_case(runner, case), "run")
    equal(worker.compare(case)["failed"]["code"], "judge-died")
    # The next judge knows the other definitions.
    case = worker.prepare("double", [tensor("x", [4])], [output("y", [4])])
    check("done" in worker.run_case(runner, case), "run")
    equal(worker.compare(case)["done"]["outputs"][0]["violations"], 0)
