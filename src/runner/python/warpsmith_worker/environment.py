"""Which torch, Triton and NumPy are installed, and whether the worker can use them."""

import importlib.metadata
import re
from dataclasses import dataclass

_OLDEST_TRITON = (3, 5)
# NumPy 2.4 refuses what the interpreter of old Triton versions does with one-element arrays. From 3.6 on,
# kernels are rewritten so that it does not matter (the tests pass with Triton 3.6 and NumPy 2.5).
_LAST_TRITON_FOR_OLD_NUMPY = (3, 5)
_FIRST_NEW_NUMPY = (2, 4)


@dataclass(frozen=True)
class Versions:
    """Versions from package metadata; None when a package is not installed."""

    torch: str | None
    triton: str | None
    numpy: str | None


@dataclass(frozen=True)
class Unavailable:
    """Why this environment cannot be used, and what to install."""

    code: str
    message: str


def installed_versions() -> Versions:
    """Read the versions without importing anything."""
    return Versions(*(_version(name) for name in ("torch", "triton", "numpy")))


def unusable_reason(versions: Versions, python: str) -> Unavailable | None:
    """Why these versions cannot work together, or None.

    `python` is the interpreter's path, for the command that repairs it.
    """
    install = f'"{python}" -m pip install'
    if versions.torch is None:
        return Unavailable("no-torch", f"PyTorch is not installed for {python}: {install} torch triton numpy")
    if versions.triton is None:
        return Unavailable("no-triton", f"Triton is not installed for {python}: {install} triton")
    if versions.numpy is None:
        return Unavailable("no-numpy", f"NumPy is not installed for {python}: {install} numpy")
    triton = release(versions.triton)
    if triton < _OLDEST_TRITON:
        message = f"Triton {versions.triton} is too old, 3.5 or newer is needed: {install} 'triton>=3.5'"
        return Unavailable("triton-too-old", message)
    if triton <= _LAST_TRITON_FOR_OLD_NUMPY and release(versions.numpy) >= _FIRST_NEW_NUMPY:
        message = (
            f"NumPy {versions.numpy} breaks the interpreter of Triton {versions.triton}: "
            f"{install} 'numpy<2.4' (or a newer Triton)"
        )
        return Unavailable("numpy-too-new", message)
    return None


def release(version: str) -> tuple[int, int]:
    """Major and minor number of a version: `3.10.0+git1` is (3, 10)."""
    numbers = re.findall(r"\d+", version.partition("+")[0])
    return (int(numbers[0]) if numbers else 0, int(numbers[1]) if len(numbers) > 1 else 0)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
