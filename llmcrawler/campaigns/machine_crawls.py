"""Makes what a machine crawls by: the campaign's own one, or one of a cluster."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from llmcrawler.campaigns.campaign_file import SiteOutcome, StoredBundle
from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.campaigns.campaign_storage import CampaignStorage, JobKeeper
from llmcrawler.campaigns.site_lines import take_lines
from llmcrawler.campaigns.stored_campaign import work_folder
from llmcrawler.core.processes.cores import available_memory_bytes, usable_cores
from llmcrawler.core.processes.forking import ForkedProcess, fork_python
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.errors import ConfigError, JobBusy

if TYPE_CHECKING:
    from llmcrawler.crawl.configuration import CampaignSettings

# What a crawl loads, and nothing that would choose a reactor.
_MODULES: Final = (
    *(f"scrapy.{name}.*" for name in ("commands", "downloadermiddlewares", "spidermiddlewares")),
    *(f"llmcrawler.{name}.*" for name in ("commands", "exporters", "spiders")),
    *(f"llmcrawler.{name}.*" for name in ("middlewares", "pipelines", "extensions")),
    *("anyio._backends._asyncio", "httpcore2", "jsonschema_rs", "openai.resources.chat.completions.completions"),
    *("openai.resources.models", "regex", "truststore", "scrapy.crawler", "scrapy.commands.crawl"),
    *(("uvloop",) if find_spec("uvloop") else ()),
    *(f"scrapy.core.downloader.handlers.{name}" for name in ("datauri", "file", "ftp", "s3")),
    *(f"scrapy.extensions.{name}" for name in ("closespider", "corestats", "logcount", "memdebug", "memusage")),
    *(f"llmcrawler.core.{name}.*" for name in ("frontier", "llm")),
    *(f"llmcrawler.core.understanding.{name}.*" for name in ("classification", "extraction")),
    "llmcrawler.core.content.api_client",
    "llmcrawler.crawl.job",
    "llmcrawler.crawl.start_checks",
    *(f"llmcrawler.engine.{name}" for name in ("http_downloads", "log_setup", "request_scheduler", "scheduler")),
)
_ENTRY: Final = "llmcrawler.commands.python_crawl_process"
# A crawl sends its process id when it can be stopped, its watcher the exit status: a byte that tells which, and digits.
_STARTED, _ENDED = b"+", b"="
_WORD_BYTES: Final = 20
KILLED: Final = -int(signal.SIGKILL)
_CRAWL_BYTES: Final = 256 * 2**20  # that must be free for another crawl: what one of 50 sites takes, twice
_BROWSER_BYTES: Final = 768 * 2**20
_CRAWLS_OF_A_CORE: Final = 4  # at most: most of a polite crawl's time is waiting
_IDLE_CORES: Final = 0.5  # that must be left where there are as many crawls as cores
_SETTLING_SECONDS: Final = 3.0  # before a new crawl's share of the cores is known


@dataclass
class _Crawl:
    """A crawl that runs: its process and the one that waits for it, and the socket to both."""

    pid: int
    watcher: ForkedProcess
    line: socket.socket
    needs_browser: bool
    started: float
    is_stopping: bool = False


@dataclass
class CrawlPool:
    """Runs crawls by keys, `most_crawls` at once (0: as many as the machine bears), `most_browsers` rendered ones."""

    most_crawls: int = 0
    most_browsers: int = 1
    cores: int = field(default_factory=usable_cores)
    free_bytes: Callable[[], int | None] = available_memory_bytes
    cpu_seconds: Callable[[int], float] = field(default_factory=lambda: _cpu_seconds)
    clock: Callable[[], float] = time.monotonic
    _crawls: dict[int, _Crawl] = field(default_factory=dict)
    _ended: list[ForkedProcess] = field(default_factory=list)  # the process that forks crawls stays while it has some
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
        log.touch()
        watcher, line = fork_python(_watch_crawl, _MODULES, log=str(log), entry=_ENTRY)
        while self._ended:
            self._ended.pop().end()
        told = line.recv(_WORD_BYTES)
        if not told.startswith(_STARTED):
            line.close()
            watcher.end()
            raise OSError("its process ended at once")
        with suppress(OSError):  # it has ended, which `wait` will see
            # What it is to do does not stand on a command line, which every user of the machine can read.
            line.sendall(json.dumps(list(argv)).encode() + b"\n")
        self._crawls[key] = _Crawl(int(told[1:]), watcher, line, needs_browser, self.clock())

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait for crawls to end, so long at most; return the keys of those that have, each with its exit status,
        negative for a signal.
        """
        lines = {one.line: key for key, one in self._crawls.items()}
        ready, _, _ = select.select([*lines], [], [], seconds)
        return [(lines[line], self._drop(lines[line])) for line in ready]

    def stop(self) -> None:
        """Let all crawls end: pages under way are finished."""
        for one in self._crawls.values():
            if not one.is_stopping:
                one.is_stopping = True
                with suppress(ProcessLookupError):  # its watcher tells when it has ended, so the id is its own
                    os.kill(one.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End all crawls at once."""
        for one in self._crawls.values():
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)

    def close(self) -> None:
        """End what still runs, and the process that forks crawls."""
        self.kill()
        for key in [*self._crawls]:
            self._drop(key)
        while self._ended:
            self._ended.pop().end()

    def _drop(self, key: int) -> int:
        one, status = self._crawls.pop(key), b""
        with suppress(OSError):
            status = one.line.recv(_WORD_BYTES, socket.MSG_DONTWAIT)
        one.line.close()
        self._ended.append(one.watcher)
        return int(status[1:]) if status else KILLED

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
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _watch_crawl(descriptor: int, log: str, entry: str) -> None:
    """Fork a crawl in a process group of its own, so that it ends orderly without this process; tell its status."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(descriptor, _STARTED + b"%*d" % (_WORD_BYTES - 1, os.getpid()))
        os.dup2(descriptor, 0)
        os.close(descriptor)
        with open(log, "ab", buffering=0) as file:  # noqa: PTH123 - before anything is loaded
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        importlib.import_module(entry).main()
        sys.exit()
    _, status = os.waitpid(pid, 0)
    with socket.socket(fileno=descriptor) as line, suppress(OSError):  # the campaign's process has ended
        line.sendall(_ENDED + b"%*d" % (_WORD_BYTES - 1, os.waitstatus_to_exitcode(status)))


_MAX_REASON: Final = 300
_TAIL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class CrawlEnded:
    """`start` says which start of the bundle; `came_further`: it has more lines than when it began; `was_lost`: nothing
    of its own has ended it, or kept it from starting.
    """

    number: int
    start: int
    status: int
    reason: str
    came_further: bool = False
    was_lost: bool = False


@dataclass(frozen=True, slots=True)
class LinesTaken:
    """The lines of a bundle that is over are in the data set."""

    number: int
    start: int
    outcomes: tuple[SiteOutcome, ...]


@dataclass(frozen=True, slots=True)
class CrawlLost:
    """The machine has gone that a bundle was crawled on."""

    number: int
    start: int


CrawlEvent = CrawlEnded | LinesTaken | CrawlLost


class Crawls(Protocol):
    """What a campaign is crawled by: this machine, or many."""

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool: ...

    def start(self, one: StoredBundle) -> None: ...

    def finish(self, one: StoredBundle, failure: str) -> None:
        """Take the lines of a bundle whose crawl has ended; `failure` says why it was given up, "": it was not."""
        ...

    def wait(self, seconds: float) -> list[CrawlEvent]: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class BundleCrawls:
    """Crawls of this machine: jobs are in `work`, lines go into the storage in the `form`. Raises OSError where the
    disk or the storage takes no more.
    """

    work: Path
    storage: CampaignStorage
    pool: CrawlPool
    form: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = field(default=lambda _line: None)
    save_seconds: float = 30.0
    _keeper: JobKeeper | None = None
    _running: dict[int, tuple[StoredBundle, int]] = field(default_factory=dict)  # and the lines that it began with
    _events: list[CrawlEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.storage.is_at(self.work):
            self._keeper = JobKeeper(self.work, self.storage, self.save_seconds, self.tell)

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool:
        return self.pool.has_room(needs_browser=needs_browser, may_need_browser=may_need_browser)

    def start(self, one: StoredBundle) -> None:
        folder = bundle_folder(self.work, one.number)
        try:
            if self._keeper is not None:
                self._keeper.begin(one.number)
        except (OSError, JobBusy) as error:  # which may be otherwise in a while
            self._events.append(CrawlEnded(one.number, one.starts, ExitStatus.ERROR, str(error), was_lost=True))
            return
        except ConfigError as error:
            self._events.append(CrawlEnded(one.number, one.starts, ExitStatus.USAGE, str(error)))
            return
        folder.mkdir(parents=True, exist_ok=True)
        sites = folder / "sites.txt"
        replace_file(sites, "".join(f"{row.url}\n" for row in one.bundle.sites).encode())
        # It is refreshed when it has been crawled before: an earlier run's end, and this one's, are the same then.
        refresh = {"refresh": "1"} if one.rounds and one.bundle.refreshes else {}
        arguments = {"urls": str(sites), **one.bundle.crawl_arguments(), **refresh}
        settings = {**self.settings, "JOBDIR": str(folder)}
        argv = ["explore", *(part for name, value in arguments.items() for part in ("-a", f"{name}={value}"))]
        argv += (part for name, value in settings.items() for part in ("-s", f"{name}={value}"))
        lines = self._count_lines(one.number)
        try:
            self.pool.start(one.number, argv, bundle_log(self.work, one.number), needs_browser=one.bundle.is_rendered)
        except OSError as error:
            reason = f"no process could be started: {error}"
            self._events.append(CrawlEnded(one.number, one.starts, ExitStatus.ERROR, reason, was_lost=True))
        else:
            self._running[one.number] = (one, lines)

    def finish(self, one: StoredBundle, failure: str) -> None:
        jobdir = bundle_folder(self.work, one.number)
        if self._keeper is not None:  # it may have been crawled elsewhere
            with suppress(ConfigError):  # what is damaged was its failure, and has no lines
                self._keeper.bring(one.number)
        outcomes = take_lines(jobdir, one.bundle, self.work, self.storage, form=self.form, failure=failure)
        self._events.append(LinesTaken(one.number, one.starts, tuple(outcomes)))

    def wait(self, seconds: float) -> list[CrawlEvent]:
        for key, status in self.pool.wait(0.0 if self._events else seconds):
            one, lines_before = self._running.pop(key)
            if self._keeper is not None:
                self._keeper.end(one.number)
            came_further = self._count_lines(one.number) > lines_before
            reason = self._reason(one.number, status)
            was_lost = status < 0 or status == ExitStatus.BUSY
            self._events.append(CrawlEnded(one.number, one.starts, status, reason, came_further, was_lost))
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        self.pool.stop()

    def kill(self) -> None:
        self.pool.kill()

    def close(self) -> None:
        self.pool.close()
        if self._keeper is not None:
            self._keeper.close()

    def _count_lines(self, number: int) -> int:
        with suppress(ConfigError), open_snapshot(bundle_folder(self.work, number)) as connection:
            (lines,) = connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()
            return int(lines)
        return 0

    def _reason(self, number: int, status: int) -> str:
        """Say why a crawl has failed: by the last line of its log that names an error."""
        if status < 0:
            known = {one.value: one.name for one in signal.Signals}
            return f"its process was ended by {known.get(-status, f'signal {-status}')}"
        path = bundle_log(self.work, number)
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
            told = [line.strip() for line in lines if any(word in line for word in ("rror", "ERROR", "CRITICAL"))]
            if told:
                return told[-1][:_MAX_REASON]
        return f"exit status {status}, see its log"


def crawls_of_machine(  # noqa: PLR0913 - all but the first four by keyword
    work: str | Path | None,
    machine: str,
    cores: int,
    tell: Callable[[str], None],
    *,
    storage: CampaignStorage,
    form: str,
    settings: Mapping[str, str],
    campaign: CampaignSettings,
) -> BundleCrawls:
    """Return the crawls of a machine, called there, with its jobs in `work` or the user's cache; `cores` 0: all."""
    folder = Path(work) if work else work_folder(str(storage))
    if machine:
        folder = folder / "machines" / machine
        folder.mkdir(parents=True, exist_ok=True)
    most_cores = min(cores or usable_cores(), usable_cores())
    pool = CrawlPool(campaign.campaign_crawls, campaign.campaign_browsers, cores=most_cores)
    return BundleCrawls(folder, storage, pool, form, settings, tell, campaign.campaign_save_seconds)
