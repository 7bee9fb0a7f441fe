"""Runs the commands that a Markdown file promises, and compares how they end.

A fenced block is run when its info string says so:

    ```console run
    $ warpsmith check kernels/triton/softmax.py
    passed …
    ```

- Lines that begin with `$ ` are commands, run by bash one after another in a copy of the checkout; a line
  that ends with a backslash goes on in the next one.
- Every command must end with status 0, the last one with `exit=N` if the info string has it.
- Other lines are output that must appear, in this order; `…` stands for any text within a line, and alone on
  a line for any lines. What is not shown may stand between in any case.
- `cargo run --release --` stands for the binary under test (`WARPSMITH_BIN`), as does `warpsmith`.

The last line is `N passed, N failed, N skipped`; each command is one test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)$")
BUILT_FROM_SOURCE = re.compile(r"\bcargo run (--release )?(--quiet )?-- ")
COMMAND_LIMIT_S = 300


@dataclass
class Command:
    """One command of a block with what it promises."""

    line: int
    """1-based line in the Markdown file."""
    text: str
    status: int = 0
    output: list[str] = field(default_factory=list)


class MarkdownError(ValueError):
    """A block that is marked to be run and cannot be."""


def expected_status(info: str) -> int | None:
    """The status of the last command, or `None` when the block is not to be run."""
    language, *words = info.split() or [""]
    if language != "console" or "run" not in words:
        return None
    statuses = [word.removeprefix("exit=") for word in words if word.startswith("exit=")]
    return int(statuses[0]) if statuses else 0


def commands_of_block(lines: list[tuple[int, str]], status: int) -> list[Command]:
    """Splits the body of one block."""
    commands: list[Command] = []
    continued = False
    for number, line in lines:
        if continued:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:]))
        elif not commands:
            raise MarkdownError(f"line {number}: a block to run begins with a command (`$ …`)")
        elif line.strip():
            commands[-1].output.append(line.strip())
        continued = bool(commands) and not commands[-1].output and line.endswith("\\")
    if not commands:
        raise MarkdownError("a block to run has no command")
    commands[-1].status = status
    return commands


def commands_of(markdown: str) -> list[Command]:
    """All commands that the text marks to be run, in order."""
    commands: list[Command] = []
    fence = ""
    status: int | None = None
    body: list[tuple[int, str]] = []
    for number, line in enumerate(markdown.splitlines(), start=1):
        match = FENCE.match(line.strip())
        if not fence and match:
            fence, status, body = match["fence"], expected_status(match["info"]), []
        elif fence and line.strip() == fence:
            if status is not None:
                commands += commands_of_block(body, status)
            fence = ""
        elif fence:
            body.append((number, line))
    if fence and status is not None:
        raise MarkdownError("the last block is not closed")
    return commands


def missing_line(expected: list[str], output: str) -> str | None:
    """The first expected line that does not appear after those before it."""
    lines = iter(output.splitlines())
    for wanted in expected:
        if wanted == "…":
            continue
        pattern = re.compile(".*?".join(re.escape(part) for part in wanted.split("…")))
        if not any(pattern.fullmatch(line.strip()) for line in lines):
            return wanted
    return None


def copy_checkout(root: Path, target: Path) -> None:
    """Copies what git knows or would add, so that a command cannot change the checkout."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = root / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def problem_of(command: Command, folder: Path, environment: dict[str, str]) -> str | None:
    """Runs one command; what is wrong with it, if anything."""
    text = BUILT_FROM_SOURCE.sub("warpsmith ", command.text)
    try:
        ended = subprocess.run(
            ["bash", "-c", text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"still running after {COMMAND_LIMIT_S} s"
    output = ended.stdout.decode(errors="replace")
    print(output)
    if ended.returncode != command.status:
        return f"ended with status {ended.returncode} instead of {command.status}"
    if (missing := missing_line(command.output, output)) is not None:
        return f"its output has no line `{missing}` where it is promised"
    return None


def run_all(commands: list[Command], root: Path, binary: Path) -> int:
    """Runs the commands in one copy of the checkout; how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        tools, folder = Path(scratch, "bin"), Path(scratch, "warpsmith")
        tools.mkdir()
        (tools / "warpsmith").symlink_to(binary)
        copy_checkout(root, folder)
        environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        for command in commands:
            print(f"line {command.line}: $ {command.text}", flush=True)
            if problem := problem_of(command, folder, environment):
                failed += 1
                print(f"FAILED line {command.line}: {problem}")
    return failed


def main() -> int:
    """Command line: the Markdown file."""
    path = Path(sys.argv[1]).resolve()
    binary = Path(os.environ["WARPSMITH_BIN"]).resolve()
    try:
        commands = commands_of(path.read_text(encoding="utf-8"))
        if not commands:
            raise MarkdownError("no block is marked to be run")
    except (OSError, ValueError) as error:
        print(f"{path.name}: {error}\n0 passed, 1 failed, 0 skipped")
        return 1
    failed = run_all(commands, path.parent, binary)
    print(f"{len(commands) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
