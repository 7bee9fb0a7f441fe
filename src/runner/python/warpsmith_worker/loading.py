"""Imports the user's file as it was when the check began, under the name that the file itself would have."""

import importlib
import importlib.util
import io
import linecache
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True)
class UserSource:
    """A text, where it is from, and where a copy of it lies."""

    path: str
    text_path: str
    text: str | None = None
    """None: the copy is read."""


def import_user_file(source: UserSource, search_paths: Sequence[str]) -> ModuleType:
    """Import the text as if it lay at its `path`; to Python it is the file at `text_path`.

    In a package (folders with `__init__.py`) it gets its dotted name and its parents are imported first,
    from the folders that hold it. Otherwise it is a module of its own. Folders are appended to `sys.path`:
    nothing of the user's shadows the standard library or an installed package. Raises what the file raises.
    """
    path = source.path
    folder = os.path.dirname(os.path.abspath(path))
    name, root = module_identity(path)
    for place in (root, folder, *search_paths):
        if place not in sys.path:
            sys.path.append(place)
    sys.argv = [path]
    if source.text is not None:
        # Triton and tracebacks read functions here; without a time nobody looks at the file again.
        lines = io.StringIO(source.text.removeprefix("\ufeff"), newline=None).readlines()
        linecache.cache[source.text_path] = len(source.text), None, lines, source.text_path
    sys.meta_path.insert(0, _UserFinder(name, source, root))
    return importlib.import_module(name)


def module_identity(path: str) -> tuple[str, str]:
    """Dotted name of the module at `path`, and the folder from which that name is importable."""
    path = os.path.abspath(path)
    root, filename = os.path.split(path)
    stem = os.path.splitext(filename)[0]
    names = [stem]
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root, package = os.path.split(root)
        names.insert(0, package)
    in_package = len(names) > 1
    if in_package and all(name.isidentifier() for name in names) and not _is_taken(names[0], root):
        return ".".join(names), root
    folder = os.path.dirname(path)
    if stem.isidentifier() and not _is_taken(stem, folder) and PathFinder.find_spec(stem) is None:
        return stem, folder
    # Its name means something else to other modules (`json.py`, `torch.py`), or is none (`my-kernel.py`).
    cleaned = "".join(letter if letter.isalnum() else "_" for letter in stem)
    return f"warpsmith_user_{cleaned}", folder


def _is_taken(name: str, root: str) -> bool:
    """Whether a top-level name is the standard library's, ours, or loaded from somewhere else."""
    if name in sys.stdlib_module_names or name in ("__main__", "warpsmith_worker"):
        return True
    loaded = sys.modules.get(name)
    if loaded is not None:
        places = [os.path.dirname(place) for place in getattr(loaded, "__path__", [])]
        return root not in places
    return False


class _UserFinder:
    """Finds the user's module in its copy, and its top-level package in the folder that holds it."""

    def __init__(self, name: str, source: UserSource, root: str) -> None:
        self.name = name
        self.source = source
        self.root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Part of the import system's finder protocol."""
        if fullname == self.name:
            # A file is Python's because somebody says so, whatever its name ends with.
            place = self.source.text_path
            is_read = self.source.text is None
            loader = SourceFileLoader(fullname, place) if is_read else _TextLoader(fullname, self.source)
            return importlib.util.spec_from_file_location(fullname, place, loader=loader)
        if fullname == self.name.partition(".")[0]:
            return PathFinder.find_spec(fullname, [self.root], target)
        return None


class _TextLoader(SourceFileLoader):
    """Compiles the text that came with the request: the copy may have been written to since."""

    def __init__(self, name: str, source: UserSource) -> None:
        super().__init__(name, source.text_path)
        self._text = source.text or ""

    def get_data(self, path: str) -> bytes:
        """Part of the protocol of loaders."""
        return self._text.encode() if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        """Never from a compiled file."""
        return self.source_to_code(self._text.encode(), self.path)
