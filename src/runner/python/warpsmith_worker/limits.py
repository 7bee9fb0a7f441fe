"""What the kernel enforces on our processes: parent-death signal, subreaper, resource limits."""

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OOM_SCORE_OF_RUNNERS = "800"


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int) -> None:
    """Get SIGKILL when the parent ends; ends at once if it is gone already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def forbid_core_dumps() -> None:
    """A crash of user code leaves no file behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_address_space(address_space_bytes: int) -> None:
    """Limit the virtual memory of this process, for good."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # A limit that is in force already can only be lowered.
    limit = address_space_bytes if hard == resource.RLIM_INFINITY else min(address_space_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def prefer_as_victim() -> None:
    """Let the kernel's out-of-memory killer take this process before the rest of the machine."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(_OOM_SCORE_OF_RUNNERS)
    except OSError:
        pass


def address_space_limit_bytes() -> int | None:
    """The limit in force, or None without one."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
