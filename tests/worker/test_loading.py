"""Under which name a user's file is imported."""

import importlib
import sys
import tempfile
import unittest
from pathlib import Path

from warpsmith_worker import loading
from warpsmith_worker.environment import Versions, release, unusable_reason
from warpsmith_worker.errors import UserFiles


class Identity(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name).resolve()

    def write(self, name: str) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return str(path)

    def test_bare_file(self) -> None:
        self.assertEqual(loading.module_identity(self.write("my_softmax.py")), ("my_softmax", str(self.root)))

    def test_file_in_a_package(self) -> None:
        self.write("ops_of_mine/__init__.py")
        self.write("ops_of_mine/triton_ones/__init__.py")
        path = self.write("ops_of_mine/triton_ones/softmax.py")
        self.assertEqual(loading.module_identity(path), ("ops_of_mine.triton_ones.softmax", str(self.root)))

    def test_taken_names_are_not_shadowed(self) -> None:
        for name in ("json.py", "torch.py", "my-kernel.py", "2d.py"):
            found, _root = loading.module_identity(self.write(name))
            self.assertTrue(found.startswith("warpsmith_user_"), found)
            self.assertTrue(found.isidentifier())

    def test_a_package_with_a_taken_name(self) -> None:
        # Taken by a package that is loaded, as in every runner.
        importlib.import_module("torch")
        self.write("torch/__init__.py")
        self.assertEqual(loading.module_identity(self.write("torch/mine.py"))[0], "mine")
        self.assertIn("torch", sys.modules)


class Files(unittest.TestCase):
    def test_which_files_are_the_users(self) -> None:
        files = UserFiles("/cache/1/k.py", "/w/k.py", ["/w", "/lib/mine"])
        self.assertEqual(files.shown("/cache/1/k.py"), "/w/k.py")
        self.assertEqual(files.shown("/w/utils.py"), "/w/utils.py")
        for foreign in (
            "/w/.venv/lib/python3.11/site-packages/torch/x.py",
            "/workspace/other.py",
            "/lib/other.py",
            "<string>",
            unittest.__file__,
        ):
            self.assertIsNone(files.shown(foreign), foreign)


class Environment(unittest.TestCase):
    def reason(self, torch: str | None, triton: str | None, numpy: str | None) -> str | None:
        found = unusable_reason(Versions(torch, triton, numpy), "/env/bin/python")
        if found is None:
            return None
        self.assertIn("/env/bin/python", found.message)
        self.assertIn("pip install", found.message)
        return found.code

    def test_versions(self) -> None:
        self.assertIsNone(self.reason("2.15.0", "3.9.0", "2.4.6"))
        self.assertIsNone(self.reason("2.11.0", "3.6.0", "2.3.5"))
        self.assertIsNone(self.reason("2.9.0+cu130", "3.5.0", "1.26.4"))
        self.assertIsNone(self.reason("2.15.0", "3.10.0", "2.10.0"))
        self.assertEqual(self.reason(None, "3.9.0", "2.4.6"), "no-torch")
        self.assertEqual(self.reason("2.15.0", None, "2.4.6"), "no-triton")
        self.assertEqual(self.reason("2.15.0", "3.9.0", None), "no-numpy")
        self.assertEqual(self.reason("2.6.0", "3.4.0", "2.0.0"), "triton-too-old")
        self.assertEqual(self.reason("2.10.0", "3.5.1", "2.4.0"), "numpy-too-new")
        self.assertIsNone(self.reason("2.11.0", "3.6.0", "2.5.2"))

    def test_release(self) -> None:
        self.assertEqual(release("3.10.0+git12"), (3, 10))
        self.assertEqual(release("3"), (3, 0))
        self.assertEqual(release("unknown"), (0, 0))


if __name__ == "__main__":
    unittest.main()
