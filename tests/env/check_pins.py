"""Says whether this interpreter has exactly the versions of a requirements file, and whether modules load.

Exit status 0 only if both are true. Run by the environment's own Python.
"""

import importlib
import importlib.metadata
import sys
from pathlib import Path


def differences(requirements: Path) -> list[str]:
    """One line for each pin that is not met."""
    found = []
    for line in requirements.read_text().splitlines():
        name, _, wanted = line.partition("#")[0].strip().partition("==")
        if not name:
            continue
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "nothing"
        if installed != wanted:
            found.append(f"{name}: {installed} instead of {wanted}")
    return found


def main() -> int:
    """Command line: the requirements file, then modules that must load."""
    requirements, *modules = sys.argv[1:]
    if wrong := differences(Path(requirements)):
        print("\n".join(wrong))
        return 1
    for module in modules:
        importlib.import_module(module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
