"""Says in one JSON line what an interpreter has, without importing torch, triton or numpy.

Runs as ``PYTHON -I -X utf8 -c <this text>``. It must still *run* on Python 3.6, so that an old
interpreter is named as too old instead of as broken.
"""

import importlib.util
import json
import os
import re
import sys
import sysconfig

VERSION_FILES = {"torch": "version.py", "triton": "__init__.py", "numpy": "version.py"}


def read(path: str) -> str:
    """The start of a text file; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def assigned(text: str, name: str) -> "str | None":
    """The string that a module assigns to a name at its top level."""
    found = re.search(r"^" + name + r"\b[^=\n]*=\s*['\"]([^'\"\n]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None


def from_folder_name(site: str, name: str) -> "str | None":
    """The version in the name of ``NAME-VERSION.dist-info``."""
    prefix, suffix = name + "-", ".dist-info"
    try:
        entries = os.listdir(site)
    except OSError:
        return None
    for entry in entries:
        if entry.lower().startswith(prefix) and entry.endswith(suffix):
            return entry[len(prefix) : -len(suffix)]
    return None


def from_metadata(name: str) -> "str | None":
    """The version that the installer recorded. Slow (30 ms), so the last resort."""
    try:
        from importlib import metadata

        return metadata.version(name)
    except (ImportError, KeyError, ValueError, OSError):
        return None


def describe(name: str) -> "dict | None":
    """Version and site folder of a top-level package; None when there is none (a bare folder is none)."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, OSError):
        spec = None
    if spec is None or not spec.origin or not os.path.isfile(spec.origin):
        return None
    package = os.path.dirname(spec.origin)
    site = os.path.dirname(package)
    text = read(os.path.join(package, VERSION_FILES[name]))
    version = assigned(text, "__version__") or from_folder_name(site, name) or from_metadata(name)
    found = {"version": version or "unknown", "site": site}
    if name == "torch":
        found["cuda"] = assigned(text, "cuda")
    return found


def in_user_site(name: str) -> "str | None":
    """The user's own site folder, which ``-I`` leaves out, when the package lies there."""
    base = os.environ.get("PYTHONUSERBASE") or os.path.expanduser("~/.local")
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = os.path.join(base, "lib", minor, "site-packages")
    return site if os.path.isfile(os.path.join(site, name, "__init__.py")) else None


def main() -> None:
    """Print the answer."""
    in_venv = sys.prefix != sys.base_prefix
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    answer = {
        "warpsmith_probe": 1,
        "executable": sys.executable,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "folders": [folder for folder in sys.path if os.path.isdir(folder)],
        "externally_managed": not in_venv and os.path.isfile(marker),
        "has_pip": importlib.util.find_spec("pip") is not None,
        "can_make_venv": bool(importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")),
    }
    for name in VERSION_FILES:
        answer[name] = describe(name)
    answer["torch_in_user_site"] = None if answer["torch"] else in_user_site("torch")
    print(json.dumps(answer))


main()
