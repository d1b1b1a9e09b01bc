"""Tells how much memory this machine can give to new processes, container limits included."""

from __future__ import annotations

from pathlib import Path

from llmcrawler.core.processes.cores import CGROUP, read_system_file


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that a new process can use without pushing others out; None where the system does not tell.

    In a container the host's MemAvailable says too much, so the least of it and of the control group's rest counts
    (version 2; its page cache can be given back and counts as free).
    """
    known = [amount for amount in (_mem_available(root), _cgroup_rest(root)) if amount is not None]
    return min(known) if known else None


def _mem_available(root: Path) -> int | None:
    for line in (read_system_file(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _cgroup_rest(root: Path) -> int | None:
    limit, used = read_system_file(root / CGROUP / "memory.max"), read_system_file(root / CGROUP / "memory.current")
    if not limit or not used or not limit.isdecimal():
        return None
    stat = dict(line.split() for line in (read_system_file(root / CGROUP / "memory.stat") or "").splitlines())
    return max(0, int(limit) - int(used) + int(stat.get("inactive_file", 0)))
