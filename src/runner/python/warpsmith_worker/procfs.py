"""Reads /proc: who descends from whom, and how much memory they hold."""

import os

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """Processes whose parent is `pid`, zombies included."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        text = _read(f"/proc/{pid}/task/{task}/children")
        if text is None:
            # Kernels without CONFIG_PROC_CHILDREN, or the task just ended.
            return _children_by_scan(pid)
        found.extend(int(word) for word in text.split())
    return found


def _children_by_scan(pid: int) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(int(name)) == pid]


def parent(pid: int) -> int | None:
    """Parent of `pid`, or None when it is gone."""
    text = _read(f"/proc/{pid}/stat")
    if text is None:
        return None
    # The command name may hold spaces and parentheses; the fields after its last parenthesis do not.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else None


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, nearest first, without `pid` itself."""
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for member in level for child in children(member)]
        found.extend(level)
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of one process; shared pages count in full."""
    text = _read(f"/proc/{pid}/statm")
    return int(text.split()[1]) * _PAGE_BYTES if text else 0


def proportional_bytes(pid: int) -> int:
    """Resident memory of one process; a page shared by n processes counts 1/n."""
    for line in (_read(f"/proc/{pid}/smaps_rollup") or "").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return resident_bytes(pid)


def address_space_peak_bytes() -> int:
    """The most virtual memory this process ever had."""
    for line in (_read("/proc/self/status") or "").splitlines():
        if line.startswith("VmPeak:"):
            return int(line.split()[1]) * 1024
    return 0


def oom_kills() -> int:
    """Processes that the kernel has killed for want of memory since it booted; 0 where it does not say."""
    for line in (_read("/proc/vmstat") or "").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
