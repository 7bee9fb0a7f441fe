"""The worker's own files: a process that is started later must be made of the same ones."""

import hashlib
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def digest() -> str:
    """Of names and bytes of everything in the package's folder; of what cannot be read, the name alone.

    Compiled modules are no part of it where Python writes them, as it does in a checkout.
    """
    writes_compiled = not sys.flags.dont_write_bytecode
    found = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_dir() or (writes_compiled and path.suffix == ".pyc"):
            continue
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        found.update(f"{path.relative_to(_FOLDER)}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        found.update(content)
    return found.hexdigest()
