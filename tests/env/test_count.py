import subprocess
import tempfile
import unittest
from pathlib import Path

COUNT = Path(__file__).with_name("count.sh")


def counted(function: str, log: str) -> tuple[int, ...]:
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        file.write(log)
        file.flush()
        script = f'. "{COUNT}"; {function} "{file.name}"; echo "$passed $failed $skipped"'
        ended = subprocess.run(["bash", "-uc", script], check=True, capture_output=True, text=True)
    return tuple(map(int, ended.stdout.split()))


class Count(unittest.TestCase):
    def test_nextest(self) -> None:
        log = (
            "    Starting 14 tests across 3 binaries (3 skipped)\n     Summary [   1.3s] "
            "14 tests run: 9 passed (1 slow, 1 leaky), 4 failed, 1 timed out, 3 skipped\n"
        )
        self.assertEqual((9, 5, 3), counted("count_nextest", log))
        self.assertEqual(
            (1, 0, 0), counted("count_nextest", "     Summary [0.0s] 1 test run: 1 passed, 0 skipped\n")
        )

    def test_libtest(self) -> None:
        log = (
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
            "test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n"
        )
        self.assertEqual((15, 2, 1), counted("count_libtest", log))

    def test_unittest(self) -> None:
        log = "Ran 12 tests in 1.2s\n\nFAILED (failures=1, errors=2, skipped=3, expected failures=1)\n"
        self.assertEqual((6, 3, 3), counted("count_unittest", log))
        self.assertEqual((2, 0, 0), counted("count_unittest", "Ran 2 tests in 0.1s\n\nOK\n"))

    def test_errors_without_tests_are_failures(self) -> None:
        self.assertEqual((0, 2, 0), counted("count_unittest", "Ran 0 tests in 0.1s\n\nFAILED (errors=2)\n"))

    def test_our_own_last_line(self) -> None:
        log = "1 passed, 0 failed, 0 skipped\nmore\n20 passed, 1 failed, 3 skipped\n"
        self.assertEqual((20, 1, 3), counted("count_said", log))

    def test_a_log_without_a_summary_counts_nothing(self) -> None:
        for function in ("count_nextest", "count_libtest", "count_unittest", "count_said"):
            with self.subTest(function):
                self.assertEqual((0, 0, 0), counted(function, "Segmentation fault\n"))


if __name__ == "__main__":
    unittest.main()
