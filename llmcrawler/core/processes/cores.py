"""Counts the cores and the memory that this process may use, container limits included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("sys/fs/cgroup")


def usable_cores(root: Path = Path("/")) -> int:
    """Count the cores of the CPU affinity, or less by the control group's quota (version 2); at least 1."""
    # sched_getaffinity is missing on macOS and Windows.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = (_read_system_file(root / _CGROUP / "cpu.max") or "max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        cores = min(cores, int(quota) // int(period))
    return max(1, cores)


def _read_system_file(path: Path) -> str | None:
    """Return the file's text, or None where this system has no such file."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that a new process can use without pushing others out; None where the system does not tell.

    In a container the host's MemAvailable says too much, so the least of it and of the control group's rest counts
    (version 2; its page cache can be given back and counts as free).
    """
    known = [amount for amount in (_mem_available(root), _cgroup_rest(root)) if amount is not None]
    return min(known) if known else None


def _mem_available(root: Path) -> int | None:
    for line in (_read_system_file(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _cgroup_rest(root: Path) -> int | None:
    limit, used = _read_system_file(root / _CGROUP / "memory.max"), _read_system_file(root / _CGROUP / "memory.current")
    if not limit or not used or not limit.isdecimal():
        return None
    stat = dict(line.split() for line in (_read_system_file(root / _CGROUP / "memory.stat") or "").splitlines())
    return max(0, int(limit) - int(used) + int(stat.get("inactive_file", 0)))
