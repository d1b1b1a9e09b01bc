"""A place where crawls run: it starts them as processes, as many as its cores and memory bear, and ends them orderly.

All are forked from one process that has loaded what they need (crawl_forker.py), which spares each the second and a
half that a start takes. A crawl stops when its standard input ends, and so with this process, however that ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from llmcrawler.campaigns.crawl_forker import fork_crawls
from llmcrawler.core.llm.embedded.machine import available_memory_bytes
from llmcrawler.core.processes.cores import usable_cores
from llmcrawler.core.processes.own_processes import end_group, start_python

# What a crawl loads, and nothing that would choose a reactor.
_PACKAGES: Final = (
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "llmcrawler.commands",
    "llmcrawler.exporters",
    "llmcrawler.spiders",
    "llmcrawler.middlewares",
    "llmcrawler.pipelines",
    "llmcrawler.extensions",
)
_MODULES: Final = (
    "anyio._backends._asyncio",
    "httpcore2",
    "jsonschema_rs",
    "openai.resources.chat.completions.completions",
    "openai.resources.models",
    "regex",
    "truststore",
    *(("uvloop",) if find_spec("uvloop") else ()),
    "scrapy.crawler",
    "scrapy.commands.crawl",
    "scrapy.core.downloader.handlers.datauri",
    "scrapy.core.downloader.handlers.file",
    "scrapy.core.downloader.handlers.ftp",
    "scrapy.core.downloader.handlers.s3",
    "scrapy.extensions.closespider",
    "scrapy.extensions.corestats",
    "scrapy.extensions.logcount",
    "scrapy.extensions.memdebug",
    "scrapy.extensions.memusage",
    "llmcrawler.core.content.api_client",
    "llmcrawler.crawl.start_checks",
    "llmcrawler.engine.http_downloads",
    "llmcrawler.engine.logformatter",
    "llmcrawler.engine.request_scheduler",
    "llmcrawler.engine.resolver",
    "llmcrawler.engine.scheduler",
)
_ENTRY: Final = "llmcrawler.commands.python_crawl_process"
KILLED: Final = -int(signal.SIGKILL)
_CRAWL_BYTES: Final = 256 * 2**20  # that must be free for another crawl: what one of 50 sites takes, twice
_BROWSER_BYTES: Final = 768 * 2**20
_CRAWLS_OF_A_CORE: Final = 4  # at most: most of a polite crawl's time is waiting
_IDLE_CORES: Final = 0.5  # that must be left where there are as many crawls as cores
_SETTLING_SECONDS: Final = 3.0  # before a new crawl's share of the cores is known


@dataclass
class _Crawl:
    """A crawl that runs: its process, and the end of the socket at whose other end it reads."""

    pid: int
    line: socket.socket
    needs_browser: bool
    started: float
    is_stopping: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A crawl that has ended: its key, and its exit status, negative for a signal."""

    key: int
    status: int


@dataclass
class Place:
    """Runs crawls by keys of the caller's. `most_crawls` at once, 0: as many as the machine bears; of these
    `most_browsers` that send all pages through a browser.
    """

    most_crawls: int = 0
    most_browsers: int = 1
    cores: int = field(default_factory=usable_cores)
    free_bytes: Callable[[], int | None] = available_memory_bytes
    cpu_seconds: Callable[[int], float] = field(default_factory=lambda: _cpu_seconds)
    clock: Callable[[], float] = time.monotonic
    _crawls: dict[int, _Crawl] = field(default_factory=dict)
    _forker: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _answers: bytearray = field(default_factory=bytearray)
    _ended: list[Ended] = field(default_factory=list)
    _measured: tuple[float, float] = (0.0, 0.0)  # when, and the processor time of all crawls then

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool:
        """Tell whether another crawl may be started now."""
        if needs_browser and sum(one.needs_browser for one in self._crawls.values()) >= self.most_browsers:
            return False
        if not self._crawls:
            return True
        if self.most_crawls:
            return len(self._crawls) < self.most_crawls
        free = self.free_bytes()
        if free is not None and free < _CRAWL_BYTES + _BROWSER_BYTES * (needs_browser or may_need_browser):
            return False
        return len(self._crawls) < self.cores or (
            len(self._crawls) < self.cores * _CRAWLS_OF_A_CORE and self._has_idle_core()
        )

    def start(self, key: int, argv: Sequence[str], log: Path, *, needs_browser: bool) -> None:
        """Start `llmcrawler ARGV`; it adds to the log. Raises OSError where no process can be had."""
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as file:
            pid = self._fork(theirs.fileno(), file.fileno())
        # What it is to do does not stand on a command line, which every user of the machine can read.
        ours.sendall(json.dumps(list(argv)).encode() + b"\n")
        self._crawls[key] = _Crawl(pid, ours, needs_browser, self.clock())

    def wait(self, seconds: float) -> list[Ended]:
        """Wait for crawls to end, so long at most; return those that have."""
        if not self._ended and self._control is not None:
            ready, _, _ = select.select([self._control], [], [], seconds)
            if ready:
                self._read()
        elif not self._ended:
            time.sleep(seconds)
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        """Let all crawls end: pages under way are finished."""
        for one in self._crawls.values():
            if not one.is_stopping:
                one.is_stopping = True
                with suppress(ProcessLookupError):  # it is waited for by its forker, so the id is its own
                    os.kill(one.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End all crawls at once."""
        for one in self._crawls.values():
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)

    def close(self) -> None:
        """End what still runs, and the process that forks crawls."""
        for one in self._crawls.values():
            one.line.close()
        self._crawls.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._forker is not None:
            end_group(self._forker)
            self._forker = None

    def _fork(self, *descriptors: int) -> int:
        if self._control is None:
            self._forker, self._control = start_python(fork_crawls, packages=_PACKAGES, modules=_MODULES, entry=_ENTRY)
        socket.send_fds(self._control, [b"f"], descriptors)
        while True:
            pid = self._read()
            if pid:
                return pid
            if self._control is None:
                raise OSError("the process that forks crawls has ended")

    def _read(self) -> int:
        """Take what the forker says; return the id of a new process, 0: it has said nothing of one."""
        assert self._control is not None
        told = self._control.recv(4096)
        if not told:
            self._lose_all()
            return 0
        self._answers += told
        *lines, rest = bytes(self._answers).split(b"\n")
        self._answers[:] = rest
        new = 0
        for line in lines:
            if line.startswith(b"+"):
                new = int(line)
            else:
                self._note_end(*map(int, line.split()))
        return new

    def _note_end(self, pid: int, status: int) -> None:
        for key, one in self._crawls.items():
            if one.pid == pid:
                one.line.close()
                del self._crawls[key]
                self._ended.append(Ended(key, status))
                return

    def _lose_all(self) -> None:
        """The forker is gone, and nobody tells how crawls end. Their input ends, so that they do."""
        assert self._control is not None
        assert self._forker is not None
        self._control.close()
        self._forker.wait()
        self._control = self._forker = None
        for key, one in self._crawls.items():
            one.line.close()
            self._ended.append(Ended(key, KILLED))
        self._crawls.clear()

    def _has_idle_core(self) -> bool:
        """Tell whether the crawls of the last seconds have left cores idle. Elsewhere than on Linux nobody says."""
        now = self.clock()
        if any(now - one.started < _SETTLING_SECONDS for one in self._crawls.values()):
            return False
        total = sum(self.cpu_seconds(one.pid) for one in self._crawls.values())
        since, before = self._measured
        if now - since < _SETTLING_SECONDS:
            return False
        self._measured = (now, total)
        if now - since > 2 * _SETTLING_SECONDS or total <= 0:  # too long ago to say how it is now
            return False
        return (total - before) / (now - since) <= self.cores - _IDLE_CORES


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process; 0 where nobody says."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def command_line(arguments: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Return `llmcrawler explore` with arguments and settings."""
    parts = ["explore"]
    for name, value in arguments.items():
        parts += ["-a", f"{name}={value}"]
    for name, value in settings.items():
        parts += ["-s", f"{name}={value}"]
    return parts
