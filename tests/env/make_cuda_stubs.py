"""Builds empty stand-ins for the CUDA libraries that torch links and a CPU-only test never calls.

A torch wheel for Linux links about 3 GB of CUDA libraries. Tests that run on the CPU need them only so that
the dynamic linker is content: every library and every symbol must exist, none is called. This writes one
small shared library for each, with the symbols (and symbol versions) that torch asks for. Each symbol is a
function that returns `CUDA_ERROR_STUB_LIBRARY`, so torch sees "no usable device" if it does call one.

Libraries that are really installed (`--real FOLDER`) are left alone. Needs `gcc` and `readelf`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CUDA_ERROR_STUB_LIBRARY = 34
"""What NVIDIA's own link-time stubs return."""

CUDA_LIBRARY = re.compile(r"lib(cu|nv|nccl)\w*\.so[.\d]*$")
NEEDED = re.compile(r"\(NEEDED\).*\[(?P<library>[^]]+)\]")
VERSION_FILE = re.compile(r"File: (?P<library>\S+)")
VERSION_NAME = re.compile(r"Name: (?P<version>\S+)\s+Flags")
C_NAME = re.compile(r"[A-Za-z_]\w*$")

UNVERSIONED_OWNERS = (
    ("nccl", "libnccl"),
    ("nvshmem", "libnvshmem"),
    ("cuFile", "libcufile"),
    ("cusparseLt", "libcusparseLt"),
    ("cudss", "libcudss"),
    ("cu", "libcuda"),
)
"""Libraries without symbol versions, by the prefix of their functions; the first that fits wins."""


@dataclass
class Library:
    """A shared library as a dynamic linker sees it."""

    needed: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)
    """Names without a version that another library must define."""
    versioned: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """Library, then version, then names that are asked from it."""


def readelf(*arguments: str) -> str:
    """Runs readelf; its output format is the same in every binutils of the last ten years."""
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def version_owners(path: Path) -> dict[str, str]:
    """Which library each symbol version of `path` comes from."""
    owners: dict[str, str] = {}
    library = ""
    for line in readelf("-V", str(path)).splitlines():
        if match := VERSION_FILE.search(line):
            library = match["library"]
        elif (match := VERSION_NAME.search(line)) and library:
            owners[match["version"]] = library
    return owners


def dynamic_symbols(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Name, version (may be empty) and "is undefined" of every dynamic symbol."""
    for line in readelf("--dyn-syms", str(path)).splitlines():
        columns = line.split()
        if len(columns) < 8 or not columns[0].endswith(":"):
            continue
        name, _, version = columns[7].replace("@@", "@").partition("@")
        yield name, version, columns[6] == "UND"


def read_library(path: Path) -> Library:
    """Reads what one shared library needs and defines."""
    library = Library()
    library.needed = {match["library"] for match in NEEDED.finditer(readelf("-d", str(path)))}
    owners = version_owners(path)
    for name, version, is_undefined in dynamic_symbols(path):
        if not is_undefined:
            library.defined.add(name)
        elif not version:
            library.undefined.add(name)
        elif owner := owners.get(version):
            library.versioned[owner][version].add(name)
    return library


def owner_of_unversioned(name: str, libraries: Iterable[str]) -> str | None:
    """The library that an unversioned function of CUDA belongs to, among `libraries`."""
    for prefix, stem in UNVERSIONED_OWNERS:
        if name.startswith(prefix):
            return next((library for library in sorted(libraries) if re.match(rf"{stem}[._]", library)), None)
    return None


def plan(libraries: list[Library], real: set[str]) -> dict[str, dict[str, set[str]]]:
    """For every library to stand in for: version (empty for none) to the names it must define."""
    missing = {name for library in libraries for name in library.needed if CUDA_LIBRARY.match(name)} - real
    stubs: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in missing}
    defined = set().union(*(library.defined for library in libraries))
    for library in libraries:
        for owner, versions in library.versioned.items():
            if owner in stubs:
                for version, names in versions.items():
                    stubs[owner][version] |= names
        for name in library.undefined - defined:
            if owner := owner_of_unversioned(name, missing):
                stubs[owner][""].add(name)
    return stubs


def build(soname: str, versions: dict[str, set[str]], folder: Path) -> None:
    """Compiles one stand-in into `folder`."""
    names = sorted({name for group in versions.values() for name in group if C_NAME.match(name)})
    source = "".join(f"int {name}(void) {{ return {CUDA_ERROR_STUB_LIBRARY}; }}\n" for name in names)
    script = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group))} }};\n"
        for version, group in versions.items()
        if version and group
    )
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        code, exports, library = (Path(scratch, name) for name in ("stub.c", "stub.map", soname))
        code.write_text(source or "typedef int nothing_is_asked_of_this_library;\n")
        exports.write_text(script)
        command = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{soname}", "-o", str(library), str(code)]
        if script:
            command.append(f"-Wl,--version-script={exports}")
        subprocess.run(command, check=True)
        library.replace(folder / soname)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("torch_lib", type=Path, help="the `lib` folder of an installed torch")
    parser.add_argument("out", type=Path, help="folder for the stand-ins")
    parser.add_argument(
        "--real", type=Path, action="append", default=[], help="folder of real CUDA libraries"
    )
    arguments = parser.parse_args()
    libraries = [read_library(path) for path in sorted(arguments.torch_lib.glob("lib*.so*"))]
    if not libraries:
        print(f"no shared libraries in {arguments.torch_lib}", file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    real = {path.name for folder in arguments.real for path in folder.glob("lib*.so*")}
    for soname, versions in sorted(plan(libraries, real).items()):
        build(soname, versions, arguments.out)
        print(f"{soname}: {sum(map(len, versions.values()))} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
