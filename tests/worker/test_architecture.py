"""Which process of the worker imports what, read from the sources."""

import ast
import sys
import unittest

from .client import WORKER

PACKAGE = WORKER.parent / "warpsmith_worker"


def imports_of(module: str) -> tuple[set[str], set[str]]:
    """Modules of ours and top-level names of others that a module imports when it is imported itself."""
    path = PACKAGE / f"{module}.py"
    if not path.exists():
        path = PACKAGE / module / "__init__.py"
    ours: set[str] = set()
    others: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            others.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            others.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [name.name for name in node.names]
            ours.update(name for name in names if is_module(name))
    return ours, others


def is_module(name: str) -> bool:
    return (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


def all_imports_of(module: str) -> tuple[set[str], set[str]]:
    """The same with what those import in turn; packages of ours count by their name alone."""
    ours, others = {module}, set()
    waiting = [module]
    while waiting:
        direct, foreign = imports_of(waiting.pop())
        others |= foreign
        waiting.extend(direct - ours)
        ours |= direct
    return ours - {module}, others


class Imports(unittest.TestCase):
    def test_the_supervisor_has_the_standard_library_only(self) -> None:
        ours, others = all_imports_of("supervisor")
        self.assertIn("requests", ours)
        self.assertLessEqual(others, set(sys.stdlib_module_names))
        self.assertFalse(ours & {"candidate", "loading", "interpreter", "cuda_shim", "judge", "reference"})

    def test_the_judge_has_nothing_that_runs_user_code(self) -> None:
        ours, others = all_imports_of("judge")
        self.assertIn("reference", ours)
        self.assertIn("torch", others)
        self.assertFalse(ours & {"candidate", "loading", "interpreter", "cuda_shim", "returned"})

    def test_a_candidate_has_neither_references_nor_seeds(self) -> None:
        ours, _ = all_imports_of("candidate")
        self.assertIn("loading", ours)
        self.assertFalse(ours & {"judge", "reference", "compare", "inputs", "philox"})


if __name__ == "__main__":
    unittest.main()
