"""Crawls bundles on one machine, each from its job in the work folder, and takes their lines when they are over."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from llmcrawler.campaigns.campaign_file import SiteOutcome, StoredBundle
from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.campaigns.job_keeper import JobKeeper
from llmcrawler.campaigns.place import Place, command_line
from llmcrawler.campaigns.site_lines import take_lines
from llmcrawler.core.reporting import ExitStatus
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.errors import ConfigError, JobBusy

_MAX_REASON: Final = 300
_TAIL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class CrawlEnded:
    """A bundle's crawl has ended. `start` says which of its starts that was. `came_further`: it has more lines than
    when it began.
    """

    number: int
    start: int
    status: int
    reason: str
    came_further: bool = False


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
    """Crawls of this machine. `work` has their jobs, the storage gets the lines' files, in the `form`, and what another
    machine needs to go on with the jobs; nothing needs that where it is `work` itself. `settings` are those of all
    crawls. Jobs are saved every `save_seconds`. Raises OSError where the disk or the storage takes no more.
    """

    work: Path
    storage: CampaignStorage
    place: Place
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
        return self.place.has_room(needs_browser=needs_browser, may_need_browser=may_need_browser)

    def start(self, one: StoredBundle) -> None:
        if self._keeper is not None:
            try:
                self._keeper.begin(one.number)
            except (OSError, JobBusy) as error:  # which may be otherwise in a while
                self._note_failure(one, ExitStatus.ERROR, str(error))
                return
            except ConfigError as error:
                self._note_failure(one, ExitStatus.USAGE, str(error))
                return
        folder = bundle_folder(self.work, one.number)
        folder.mkdir(parents=True, exist_ok=True)
        sites = folder / "sites.txt"
        replace_file(sites, "".join(f"{row.url}\n" for row in one.sites).encode())
        # It is refreshed when it has been crawled before: an earlier run's end, and this one's, are the same then.
        refresh = {"refresh": "1"} if one.rounds and one.bundle.refreshes else {}
        argv = command_line(
            {"urls": str(sites), **one.bundle.crawl_arguments(), **refresh}, {**self.settings, "JOBDIR": str(folder)}
        )
        lines = self._count_lines(one.number)
        try:
            self.place.start(one.number, argv, bundle_log(self.work, one.number), needs_browser=one.bundle.is_rendered)
        except OSError as error:
            self._note_failure(one, ExitStatus.ERROR, f"no process could be started: {error}")
        else:
            self._running[one.number] = (one, lines)

    def _note_failure(self, one: StoredBundle, status: ExitStatus, reason: str) -> None:
        self._events.append(CrawlEnded(one.number, one.starts, int(status), reason))

    def finish(self, one: StoredBundle, failure: str) -> None:
        jobdir = bundle_folder(self.work, one.number)
        if self._keeper is not None:  # it may have been crawled elsewhere
            with suppress(ConfigError):  # what is damaged was its failure, and has no lines
                self._keeper.bring(one.number)
        outcomes = take_lines(jobdir, one.bundle, self.work, self.storage, form=self.form, failure=failure)
        self._events.append(LinesTaken(one.number, one.starts, tuple(outcomes)))

    def wait(self, seconds: float) -> list[CrawlEvent]:
        for ended in self.place.wait(0.0 if self._events else seconds):
            one, lines_before = self._running.pop(ended.key)
            if self._keeper is not None:
                self._keeper.end(one.number)
            came_further = self._count_lines(one.number) > lines_before
            reason = self._reason(one.number, ended.status)
            self._events.append(CrawlEnded(one.number, one.starts, ended.status, reason, came_further))
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        self.place.stop()

    def kill(self) -> None:
        self.place.kill()

    def close(self) -> None:
        self.place.close()
        if self._keeper is not None:
            self._keeper.close()

    def _count_lines(self, number: int) -> int:
        """Count the lines of a bundle's job."""
        with suppress(ConfigError), open_snapshot(bundle_folder(self.work, number)) as connection:
            (lines,) = connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()
            return int(lines)
        return 0

    def _reason(self, number: int, status: int) -> str:
        """Say why a crawl has failed: by the last line of its log that names an error."""
        if status < 0:
            return f"its process was ended by {_signal_name(-status)}"
        path = bundle_log(self.work, number)
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
            told = [line.strip() for line in lines if any(word in line for word in ("rror", "ERROR", "CRITICAL"))]
            if told:
                return told[-1][:_MAX_REASON]
        return f"exit status {status}, see its log"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
