"""Counts the cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CGROUP: Final = Path("sys/fs/cgroup")


def usable_cores(root: Path = Path("/")) -> int:
    """Count the cores of the CPU affinity, or less by the control group's quota (version 2); at least 1."""
    # sched_getaffinity is missing on macOS and Windows.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = (read_system_file(root / CGROUP / "cpu.max") or "max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        cores = min(cores, int(quota) // int(period))
    return max(1, cores)


def read_system_file(path: Path) -> str | None:
    """Return the file's text, or None where this system has no such file."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
