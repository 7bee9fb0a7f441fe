import unittest

from tests.readme import run


def block(info: str, *lines: str) -> str:
    return "\n".join(["Text.", "", f"```{info}", *lines, "```", ""])


class Commands(unittest.TestCase):
    def test_an_unmarked_block_is_not_run(self) -> None:
        self.assertEqual([], run.commands_of(block("console", "$ rm -rf build")))
        self.assertEqual([], run.commands_of(block("bash run", "$ true")))

    def test_commands_output_and_status(self) -> None:
        first, last = run.commands_of(block("console run exit=1", "$ true", "yes", "$ false", "no …", ""))
        self.assertEqual(("true", 0, ["yes"], 4), (first.text, first.status, first.output, first.line))
        self.assertEqual(("false", 1, ["no …"]), (last.text, last.status, last.output))

    def test_a_backslash_continues_a_command(self) -> None:
        (command,) = run.commands_of(block("console run", "$ echo one \\", "  two", "one two"))
        self.assertEqual("echo one \\\n  two", command.text)
        self.assertEqual(["one two"], command.output)

    def test_a_longer_fence_holds_a_shorter_one(self) -> None:
        self.assertEqual([], run.commands_of("````markdown\n```console run\n$ false\n```\n````\n"))

    def test_a_marked_block_that_cannot_be_run_is_an_error(self) -> None:
        for text in (block("console run", "output"), block("console run"), "```console run\n$ true\n"):
            with self.subTest(text), self.assertRaises(run.MarkdownError):
                run.commands_of(text)


class Output(unittest.TestCase):
    def test_lines_appear_in_order_with_gaps(self) -> None:
        self.assertIsNone(run.missing_line(["a … c", "e"], "a b c\nd\n  e\n"))

    def test_an_ellipsis_alone_may_stand_for_nothing(self) -> None:
        self.assertIsNone(run.missing_line(["a", "…", "b", "…"], "a\nb\n"))
        self.assertIsNone(run.missing_line(["a", "…", "b"], "a\nx\ny\nb\n"))

    def test_order_matters(self) -> None:
        self.assertEqual("a", run.missing_line(["e", "a"], "a\ne\n"))

    def test_a_line_is_compared_whole(self) -> None:
        self.assertEqual("passed", run.missing_line(["passed"], "12 passed\n"))


if __name__ == "__main__":
    unittest.main()
