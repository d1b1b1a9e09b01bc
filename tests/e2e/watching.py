"""What a crawl in a process of its own cost the machine: holds of its loop, by its log, and memory, by the kernel."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_STAT = re.compile(r"'llmcrawler/loop/([^']+)':\s*([\d.]+)")
_LINE = re.compile(r"(\S+(?: in \S+)?) held the event loop for (\d+) ms \(CPU (\d+)\)")
_SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Holds:
    """`stats` are those of loop_watch.py in the last dump of stats; `greatest`: place -> (ms, CPU ms)."""

    stats: dict[str, float]
    greatest: dict[str, tuple[int, int]]

    @property
    def max_seconds(self) -> float:
        logged = max((held for held, _ in self.greatest.values()), default=0) / 1000
        return max(logged, self.stats.get("max_hold_seconds", 0.0))


def holds_of(log: str) -> Holds:
    """Of the log of a crawl with the settings LOOP_WATCH."""
    greatest: dict[str, tuple[int, int]] = {}
    for place, held, cpu in _LINE.findall(log):
        greatest[place] = max(greatest.get(place, (0, 0)), (int(held), int(cpu)))
    in_order = sorted(greatest.items(), key=lambda item: -item[1][0])
    return Holds({name: float(value) for name, value in _STAT.findall(log)}, dict(in_order))


@dataclass
class Memory:
    """Peaks of resident memory in bytes: of a process, and of the greatest of those below it, by their command."""

    own_bytes: int = 0
    children: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def watching(self, pid: int) -> Iterator[None]:
        """The kernel keeps the peaks; what is missed is what a process grows by in its last 20 ms."""
        stopped = threading.Event()

        def watch() -> None:
            while not stopped.wait(_SAMPLE_SECONDS):
                self._look(pid)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _look(self, pid: int) -> None:
        self.own_bytes = max(self.own_bytes, _peak_bytes(pid))
        for child in _below(pid):
            name = _command(child)
            self.children[name] = max(self.children.get(name, 0), _peak_bytes(child))


def _peak_bytes(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def _below(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"
    for known in ("multiprocessing", "chrom", "playwright"):
        if known in words:
            return known
    return words[:40]
