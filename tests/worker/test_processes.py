"""Processes that hang, crash, flood, lie or stay behind: the worker answers, and nothing survives."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

from .client import SOFTMAX, WORKER, Worker, alive, output, processes_below, tensor, wait_until_gone
from .test_cases import WorkerTest

DAEMON = """
    import os, time
    def daemon(path):
        # The classic double fork, in a session of its own.
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with open(path, "w") as file:
                    file.write(str(os.getpid()))
                while True:
                    time.sleep(0.1)
            os._exit(0)
        os.wait()
        while not (os.path.exists(path) and open(path).read()):
            time.sleep(0.01)
"""


class Deaths(WorkerTest):
    def died_running(self, body: str, **changes: Any) -> dict[str, Any]:
        """How a runner ends that calls this; afterwards another one must work."""
        limits = {key: changes.pop(key) for key in ("resident_bytes", "output_tail_bytes") if key in changes}
        runner = self.opened(f"import os, sys, time, ctypes\ndef kernel_fn(x):\n    {body}\n", **limits)
        reply = self.worker.run_case(runner, self.case([4, 4]), **changes)
        self.assertIn("died", reply)
        self.assert_still_works()
        # What died stays dead.
        self.assertIn("died", self.worker.run_case(runner, self.case([4, 4])))
        return reply["died"]

    def assert_still_works(self) -> None:
        case = self.case([4, 4])
        self.ran("def kernel_fn(x):\n    return x * 2", case)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 16))

    def test_infinite_loop(self) -> None:
        died = self.died_running("while True: pass", wall_s=0.5)
        self.assertEqual((died["reason"], died["signal"]), ("timeout", 9))

    def test_infinite_loop_in_the_import(self) -> None:
        reply = self.worker.open_source("while True: pass", self.worker.fresh("runner"), import_wall_s=0.5)
        self.assertEqual(reply["died"]["reason"], "timeout")
        self.assert_still_works()

    def test_segmentation_fault(self) -> None:
        died = self.died_running("ctypes.string_at(0)")
        self.assertEqual((died["reason"], died["signal"], died["status"]), ("signal", signal.SIGSEGV, None))
        # The line that crashed is in its output, under the user's own path.
        self.assertRegex(died["output"], r'File ".*/user\d+/kernel\.py", line 3 in kernel_fn')

    def test_overrun_past_a_tensor_is_a_crash(self) -> None:
        died = self.died_running("ctypes.memset(x.data_ptr() + x.nbytes, 0, 64)")
        self.assertEqual((died["reason"], died["signal"]), ("signal", signal.SIGSEGV))

    def test_exit_without_an_answer(self) -> None:
        for status in (0, 3):
            died = self.died_running(f"os._exit({status})")
            self.assertEqual((died["reason"], died["status"]), ("exit", status))

    def test_exit_in_the_import(self) -> None:
        reply = self.worker.open_source("import os; os._exit(0)", self.worker.fresh("runner"))
        self.assertEqual((reply["died"]["reason"], reply["died"]["status"]), ("exit", 0))

    def test_kill_oneself(self) -> None:
        died = self.died_running("os.kill(os.getpid(), 9)")
        self.assertEqual((died["reason"], died["signal"]), ("signal", 9))

    def test_closing_every_descriptor(self) -> None:
        died = self.died_running("os.closerange(0, 1000); time.sleep(60)")
        self.assertEqual(died["reason"], "exit")

    def test_memory_hog(self) -> None:
        body = "import torch; kept = [torch.ones(1 << 24) for _ in range(10_000) if not time.sleep(0.02)]"
        died = self.died_running(body, resident_bytes=1 << 30)
        self.assertEqual(died["reason"], "memory")

    def test_memory_hog_in_children(self) -> None:
        body = (
            "[os.fork() or (globals().update(kept=bytearray(os.urandom(1)) * (400 << 20)), time.sleep(60))"
            " for _ in range(3)]; time.sleep(60)"
        )
        died = self.died_running(body, resident_bytes=1 << 30)
        self.assertEqual(died["reason"], "memory")

    def test_floods_of_output(self) -> None:
        body = "sys.stdout.write('x' * (100 << 20)); print('the end'); sys.stdout.flush(); os._exit(1)"
        died = self.died_running(body, output_tail_bytes=1000)
        self.assertEqual(len(died["output"].encode()), 1000)
        self.assertTrue(died["output"].endswith("the end\n"))

    def test_flood_does_not_block_an_answer(self) -> None:
        case = self.case([4, 4])
        self.ran("def kernel_fn(x):\n    print('x' * (100 << 20))\n    return x * 2", case)
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)
        with open(f"/proc/{self.worker.process.pid}/statm") as file:
            resident_bytes = int(file.read().split()[1]) * 4096
        self.assertLess(resident_bytes, 60 << 20)

    def test_forks_that_return(self) -> None:
        # Both processes come back from the call; one answer is expected.
        case = self.case([4, 4])
        runner = self.opened("import os\ndef kernel_fn(x):\n    os.fork()\n    return x * 2")
        for _ in range(3):
            self.assertIn("done", self.worker.run_case(runner, case))
            self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)


class Lies(WorkerTest):
    def test_forged_lines_on_stdout_change_nothing(self) -> None:
        source = """
            import json, os, sys
            def kernel_fn(x):
                for id in range(200):
                    line = json.dumps({"id": id, "done": {"outputs": [], "inputs_changed": []}}) + "\\n"
                    for fd in (1, 2):
                        os.write(fd, line.encode())
                return x * 3
        """
        case = self.case([4, 4])
        self.ran(source, case)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual(errors["violations"], 16)

    def socket_writer(self, frame: str) -> str:
        return f"""
            import json, os, socket, struct, stat
            def frame(message):
                body = json.dumps(message).encode()
                return struct.pack("<II", len(body), 0) + body
            def kernel_fn(x):
                for name in os.listdir("/proc/self/fd"):
                    try:
                        if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                            os.write(int(name), {frame})
                    except OSError:
                        pass
                import time; time.sleep(30)
        """

    def test_garbage_on_the_socket_is_death(self) -> None:
        for frame in (
            "b'garbage that is no frame at all'",
            "struct.pack('<II', 4, 0) + b'[1]}'",
            "struct.pack('<II', 2, 0) + b'[]'",
            "struct.pack('<II', 1 << 31, 0)",
            "struct.pack('<II', 2, 9) + b'{}'",
            "frame({'verdict': 'passed'})",
            "frame({'done': {'outputs': 'all', 'launches': [], 'findings': [], 'run_ms': 1}})",
            "frame({'done': {'outputs': [], 'launches': [], 'findings': [], 'run_ms': -1}})",
            "frame({'progress': {'programs_done': -1, 'programs': 2}})",
            "frame({'raised': {'exception': 3}})",
        ):
            reply = self.worker.run_case(self.opened(self.socket_writer(frame)), self.case([4, 4]))
            self.assertIn("died", reply, frame)
            self.assertEqual(reply["died"]["reason"], "exit")
            self.assertIn("broke the worker's protocol", reply["died"]["output"])

    def test_a_forged_answer_decides_nothing(self) -> None:
        claim = {"type_name": "torch.Tensor", "dtype": "float32", "shape": [4, 4], "copied": True}
        answer = {"outputs": [claim], "launches": [], "findings": [], "run_ms": 1.0, "verdict": "passed"}
        case = self.case([4, 4])
        reply = self.worker.run_case(self.opened(self.socket_writer(f"frame({{'done': {answer!r}}})")), case)
        self.assertNotIn("verdict", reply["done"])
        self.assertEqual(self.compared(case)["outputs"][0]["unwritten"], 16)


class Order(WorkerTest):
    def test_close_answers_what_is_pending(self) -> None:
        runner = self.opened("import time\ndef kernel_fn(x):\n    time.sleep(60)")
        first = self.worker.send("run", **self.worker.run_fields(runner, self.case([2])))
        second = self.worker.send("run", **self.worker.run_fields(runner, self.case([2])))
        closed = self.worker.ask("close", runner=runner)
        self.assertEqual(closed["done"], {})
        for request in (first, second):
            self.assertEqual(self.worker.reply_to(request)["died"]["reason"], "killed")

    def test_close_while_it_opens(self) -> None:
        path = self.worker.write("import time; time.sleep(60)")
        fields = {
            "runner": "slow",
            "path": str(path),
            "text_path": str(path),
            "entry": "kernel_fn",
            "search_paths": [],
            "environment": {},
            "limits": {
                "import_wall_s": 60.0,
                "address_space_bytes": 16 << 30,
                "resident_bytes": 8 << 30,
                "output_tail_bytes": 100,
            },
        }
        opening = self.worker.send("open", **fields)
        self.assertEqual(self.worker.ask("close", runner="slow")["done"], {})
        self.assertEqual(self.worker.reply_to(opening)["died"]["reason"], "killed")

    def test_the_judge_works_while_a_candidate_runs(self) -> None:
        runner = self.opened("import time\ndef kernel_fn(x):\n    time.sleep(60)")
        stuck = self.worker.send("run", **self.worker.run_fields(runner, self.case([2])))
        other = self.case([4, 4])
        self.ran("def kernel_fn(x):\n    return x * 2", other)
        self.assertEqual(self.compared(other)["outputs"][0]["violations"], 0)
        self.assertNotIn(stuck, self.worker.replies)
        self.worker.ask("close", runner=runner)
        self.assertEqual(self.worker.reply_to(stuck)["died"]["reason"], "killed")

    def test_one_case_runs_once_at_a_time(self) -> None:
        case = self.case([2])
        slow = self.opened("import time\ndef kernel_fn(x):\n    time.sleep(60)")
        other = self.opened("def kernel_fn(x):\n    return x * 2")
        running = self.worker.send("run", **self.worker.run_fields(slow, case))
        self.assertEqual(self.worker.run_case(other, case)["failed"]["code"], "case-busy")
        self.assertEqual(self.worker.compare(case)["failed"]["code"], "case-busy")
        self.worker.ask("close", runner=slow)
        self.worker.reply_to(running)
        self.assertIn("done", self.worker.run_case(other, case))


class OwnFaults(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.close)
        self.worker.event("warm")

    def test_the_judge_is_replaced(self) -> None:
        self.worker.define("softmax", SOFTMAX)
        inputs, outputs = [tensor("x", [4, 4])], [output("y", [4, 4])]
        case = self.worker.prepare("softmax", inputs, outputs)
        judges = [pid for pid in processes_below(self.worker.process.pid) if maps_memory_files(pid)]
        self.assertEqual(len(judges), 1)
        os.kill(judges[0], signal.SIGKILL)
        self.assertEqual(wait_until_gone(judges, 5), [])
        deadline = time.monotonic() + 5
        while "failed" not in (reply := self.worker.compare(case)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(reply["failed"]["code"], "judge-died")
        # Definitions are given again by the supervisor.
        case = self.worker.prepare("softmax", inputs, outputs)
        self.assertIn("done", self.worker.compare(case))

    def assert_the_judge_works(self) -> None:
        self.assertIn("done", self.worker.define("softmax", SOFTMAX))
        case = self.worker.prepare("softmax", [tensor("x", [4, 4])], [output("y", [4, 4])])
        self.assertIn("done", self.worker.compare(case))

    def test_a_reference_that_hangs_is_ended(self) -> None:
        self.worker.define("endless", "def run(x):\n    while True: pass\n")
        case = self.worker.prepare("endless", [tensor("x", [4, 4])], [output("y", [4, 4])])
        failed = self.worker.compare(case, wall_s=0.5)["failed"]
        self.assertEqual(failed["code"], "judge-timeout")
        self.assertIn("`compare`", failed["message"])
        self.assert_the_judge_works()

    def test_a_definition_that_hangs_is_not_given_to_the_next_judge(self) -> None:
        failed = self.worker.define("stuck", "while True: pass\n", wall_s=0.5)["failed"]
        self.assertEqual(failed["code"], "judge-timeout")
        self.assert_the_judge_works()

    def test_the_zygote_is_replaced(self) -> None:
        reply = self.worker.open_source("def kernel_fn(x): return x", "first")
        self.assertIn("done", reply)
        (zygote,) = [
            pid for pid in processes_below(self.worker.process.pid) if parent(pid) == self.worker.process.pid
        ]
        below = processes_below(zygote)
        os.kill(zygote, signal.SIGKILL)
        self.assertEqual(wait_until_gone([zygote, *below], 5), [])
        reply = self.worker.open_source("def kernel_fn(x): return x", "second")
        self.assertIn("done", reply)

    def test_a_zygote_is_not_made_of_other_files(self) -> None:
        copy = self.worker.folder / "copy of the worker"
        shutil.copytree(WORKER.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        changed = Worker(main_file=copy / WORKER.name)
        self.addCleanup(changed.close)
        self.assertIn("done", changed.open_source("def kernel_fn(x): return x", "first"))
        with (copy / "warpsmith_worker/compare.py").open("a") as file:
            file.write("\nmeasure = None\n")
        own = changed.process.pid
        (zygote,) = [pid for pid in processes_below(own) if parent(pid) == own]
        os.kill(zygote, signal.SIGKILL)
        event = changed.event("unavailable")
        self.assertEqual(event["code"], "worker-failed")
        self.assertIn("files were changed", event["message"])

    def test_an_environment_without_torch(self) -> None:
        # The interpreter that a fresh environment would have: no packages at all.
        folder = self.worker.folder / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        bare = Worker(python=str(folder / "bin/python"))
        self.addCleanup(bare.close)
        self.assertIsNone(bare.event("ready")["torch"])
        event = bare.event("unavailable")
        self.assertEqual(event["code"], "no-torch")
        self.assertIn("pip install", event["message"])
        self.assertEqual(bare.define("softmax", SOFTMAX)["failed"]["code"], "no-torch")

    def test_a_broken_installation(self) -> None:
        site = self.worker.folder / "site"
        for name, version in (("torch", "2.15.0"), ("triton", "3.9.0"), ("numpy", "2.4.6")):
            info = site / f"{name}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (site / "numpy.py").write_text("raise ImportError('libfoo.so: cannot open shared object file')")
        folder = self.worker.folder / "broken"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "site.pth").write_text(f"{site}\n")
        broken = Worker(python=str(folder / "bin/python"))
        self.addCleanup(broken.close)
        event = broken.event("unavailable")
        self.assertIn("libfoo.so", event["message"])
        self.assertIn("failed", broken.define("softmax", SOFTMAX))


class Survivors(unittest.TestCase):
    """No process outlives its reason to exist."""

    def busy_worker(self) -> tuple[Worker, list[int]]:
        """A worker with a hanging runner and a daemon below it; and all their process ids."""
        worker = Worker()
        path = worker.folder / "daemon.pid"
        source = f"{DAEMON}\n    def kernel_fn(x):\n        daemon({str(path)!r})\n        time.sleep(60)\n"
        self.assertIn("done", worker.open_source(source, "busy"))
        worker.define("softmax", SOFTMAX)
        case = worker.prepare("softmax", [tensor("x", [2, 2])], [output("y", [2, 2])])
        worker.send("run", **worker.run_fields("busy", case))
        daemon = wait_for_pid(path)
        everybody = sorted({worker.process.pid, *processes_below(worker.process.pid), daemon})
        # The supervisor, the zygote, the judge, the runner, its daemon; perhaps a spare.
        self.assertGreaterEqual(len(everybody), 5)
        return worker, everybody

    def test_a_daemon_ends_with_its_runner(self) -> None:
        worker, _everybody = self.busy_worker()
        self.addCleanup(worker.close)
        daemon = int((worker.folder / "daemon.pid").read_text())
        worker.ask("close", runner="busy")
        self.assertEqual(alive([daemon]), [])

    def test_a_daemon_of_a_runner_that_exits(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        path = worker.folder / "daemon.pid"
        reply = worker.open_source(f"{DAEMON}\n    daemon({str(path)!r})\n    os._exit(0)\n", "gone")
        self.assertEqual(reply["died"]["reason"], "exit")
        worker.ask("close", runner="gone")
        self.assertEqual(wait_until_gone([int(path.read_text())], 3), [])

    def test_end_of_stdin(self) -> None:
        worker, everybody = self.busy_worker()
        worker.process.stdin.close()
        self.assertEqual(worker.process.wait(timeout=10), 0)
        self.assertEqual(alive(everybody), [])
        worker.process.stdout.close()

    def test_end_of_stdin_before_it_is_warm(self) -> None:
        worker = Worker()
        worker.event("ready")
        everybody = processes_below(worker.process.pid)
        worker.close()
        self.assertEqual(alive(everybody), [])

    def test_termination(self) -> None:
        worker, everybody = self.busy_worker()
        worker.process.terminate()
        self.assertEqual(worker.process.wait(timeout=10), 0)
        self.assertEqual(alive(everybody), [])
        worker.process.stdin.close()
        worker.process.stdout.close()

    def test_sudden_death_of_the_server(self) -> None:
        # A process between us and the worker stands for the server; nothing of it runs after SIGKILL.
        script = """if True:
            import json, sys, time
            from tests.worker.test_processes import Survivors
            worker, everybody = Survivors().busy_worker()
            print(json.dumps([everybody, str(worker.folder)]), flush=True)
            time.sleep(60)
        """
        server = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2]
        )
        everybody, _folder = json.loads(server.stdout.readline())
        server.kill()
        server.wait()
        self.assertEqual(wait_until_gone(everybody, 3), [])
        server.stdout.close()

    def test_sudden_death_of_the_supervisor(self) -> None:
        worker, everybody = self.busy_worker()
        daemon = int((worker.folder / "daemon.pid").read_text())
        worker.process.kill()
        worker.process.wait()
        # Only the daemon had no parent of ours to take it along.
        self.assertEqual(wait_until_gone([pid for pid in everybody if pid != daemon], 3), [])
        os.kill(daemon, signal.SIGKILL)
        worker.process.stdin.close()
        worker.process.stdout.close()


def maps_memory_files(pid: int) -> bool:
    return "warpsmith-input" in Path(f"/proc/{pid}/maps").read_text()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError("the daemon did not start")


if __name__ == "__main__":
    unittest.main()
