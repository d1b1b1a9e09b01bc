"""Runs a campaign: lets its bundles be crawled, tries again what failed, and notes what became of what is over.

What is known only here (when a bundle may be tried again) is found out again by the next run of the same command; all
else is in the campaign's file.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from llmcrawler.campaigns.campaign_file import CampaignFile, StoredBundle
from llmcrawler.campaigns.campaign_status import bundle_folder, write_manifest
from llmcrawler.campaigns.campaign_storage import CampaignStorage, restore_job, save_job
from llmcrawler.campaigns.machine_crawls import CrawlEnded, CrawlEvent, Crawls, LinesTaken
from llmcrawler.campaigns.sites_file import SiteRow, host_of, make_bundles, told_faults
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.core.urls.private_addresses import NameLookup
from llmcrawler.errors import ConfigError

_POLL_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 60.0
_LOST_RETRIES: Final = 4  # as many times: what kills processes, or keeps them from starting, may last for minutes
_MANIFEST_SECONDS: Final = 5.0
_ECHO_SECONDS: Final = 0.2  # within these a second signal is the first one, sent twice
_KILL_SECONDS: Final = 10.0  # beyond the crawls' own STOP_SECONDS
# A crawl with one of these has done what it could: to try again would find the same.
_AT_THE_END: Final[Mapping[int, str]] = {
    ExitStatus.FINISHED: "",
    ExitStatus.UNREACHABLE: "",
    ExitStatus.BUDGET: "the LLM's budget was reached",
    ExitStatus.ERRORS_SHARE: "too many pages have errors",
}


@dataclass(frozen=True, slots=True)
class CampaignRules:
    """`retries` are those of a bundle that comes no further, four times as many where its crawl was lost; after
    `stop_seconds` a crawl should have stopped.
    """

    retries: int = 5
    retry_seconds: float = 2.0
    stop_seconds: float = 8.0

    def pause_seconds(self, attempts: int) -> float:
        return min(_LONGEST_PAUSE_SECONDS, self.retry_seconds * 2 ** min(attempts - 1, 10)) if attempts else 0.0


@dataclass(frozen=True, slots=True)
class _End:
    """Why a bundle is over whose lines are being taken. `failure` is "" where it was not given up."""

    status: int
    reason: str
    failure: str


@dataclass
class CampaignRun:
    """One run of the campaign in `folder`. `tell` gets lines for people. `clock` is in Unix time."""

    folder: Path
    file: CampaignFile
    crawls: Crawls
    rules: CampaignRules
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.time
    _waiting: dict[int, StoredBundle] = field(default_factory=dict)
    _running: dict[int, StoredBundle] = field(default_factory=dict)  # with their last start counted
    _ends: dict[int, _End] = field(default_factory=dict)  # of those that are only waited for to have their lines taken
    _not_before: dict[int, float] = field(default_factory=dict)
    _stopped_at: float | None = None
    _is_killed: bool = False
    _manifest_at: float = 0.0

    def run(self) -> bool:
        """Crawl what is pending; return whether nothing is left, False where it was stopped before."""
        self._waiting = {one.number: one for one in self.file.pending()}
        now = time.monotonic()
        self._not_before = {
            number: now + self.rules.pause_seconds(one.attempts) for number, one in self._waiting.items()
        }
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._running or (self._waiting and self._stopped_at is None):
                self._end_what_hangs()
                self._start_what_may()
                for event in self.crawls.wait(_POLL_SECONDS):
                    self._take(event)
        finally:
            self._end_all()  # some are left where something was raised
            for number, handler in before.items():
                signal.signal(number, handler)
            self.crawls.close()
            write_manifest(self.folder, self.clock())
        return not self._waiting

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Note it only: what is under way just now must not be called again in the middle of itself."""
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
        elif now - self._stopped_at > _ECHO_SECONDS:
            self._is_killed = True

    def _end_what_hangs(self) -> None:
        if self._stopped_at is not None:
            self.crawls.stop()  # one may have been started just then
            if self._is_killed or time.monotonic() - self._stopped_at > self.rules.stop_seconds + _KILL_SECONDS:
                self.crawls.kill()

    def _end_all(self) -> None:
        self._stopped_at = self._stopped_at or time.monotonic()
        while self._running.keys() - self._ends.keys():
            self._end_what_hangs()
            for event in self.crawls.wait(_POLL_SECONDS):
                self._running.pop(event.number, None)

    def _start_what_may(self) -> None:
        if self._stopped_at is not None:
            return
        now = time.monotonic()
        taken = frozenset[str]().union(*(one.places for one in self._running.values()))
        for number, one in [*self._waiting.items()]:
            if self._not_before.get(number, 0.0) > now or not taken.isdisjoint(one.places):
                continue
            rendered = one.bundle.is_rendered
            if self.crawls.has_room(needs_browser=rendered, may_need_browser=one.bundle.may_render):
                self.file.note_start(number, self.clock())
                del self._waiting[number]
                started = replace(one, starts=one.starts + 1)
                self.crawls.start(started)
                self._running[number] = started
                taken |= one.places
            elif not rendered:
                return  # there is none for those behind it either

    def _take(self, event: CrawlEvent) -> None:
        one = self._running.get(event.number)
        if one is None or one.starts != event.start:
            return  # it was started again since, elsewhere
        match event:
            case CrawlEnded(status=status) if status in _AT_THE_END:
                self._finish(one, _End(status, _AT_THE_END[status], ""))
            case CrawlEnded(status=ExitStatus.USAGE, reason=reason):
                self._finish(one, _End(event.status, reason, reason))
            case CrawlEnded(status=status) if self._stopped_at is not None:
                self._put_back(one, status, "stopped with the campaign")
            case CrawlEnded():
                self._try_again(one, event)
            case LinesTaken():
                del self._running[one.number]
                self._note_outcomes(one, self._ends.pop(one.number), event)
            case _:
                # It goes on elsewhere, soon, from the job that was saved last; no failure of its own is counted.
                self._put_back(one, None, "its machine is gone")
                self._waiting = {one.number: one, **self._waiting}
                self.tell(f"Bundle {one.number} has lost its machine and resumes from its saved job")

    def _put_back(self, one: StoredBundle, status: int | None, reason: str) -> None:
        self.file.note_attempt(one.number, one.attempts, status, reason)
        del self._running[one.number]
        self._ends.pop(one.number, None)
        self._waiting[one.number] = one

    def _try_again(self, one: StoredBundle, ended: CrawlEnded) -> None:
        """Let the bundle wait for its turn, or give it up: where it has come no further for as long as is allowed."""
        status, reason = ended.status, ended.reason
        attempts = 1 if ended.came_further else one.attempts + 1
        if attempts > self.rules.retries * (_LOST_RETRIES if ended.was_lost else 1):
            self._finish(one, _End(status, reason, f"given up after {attempts:,} tries: {reason}"))
            return
        pause = self.rules.pause_seconds(attempts)
        self._not_before[one.number] = time.monotonic() + pause
        self._put_back(replace(one, attempts=attempts), status, reason)
        self.tell(f"Bundle {one.number} ended with exit status {status} ({reason}); it goes on in {pause:g} s")

    def _finish(self, one: StoredBundle, end: _End) -> None:
        """Take the lines before the bundle counts as over: interrupted in between, that is done once more."""
        self._ends[one.number] = end
        self.crawls.finish(one, end.failure)

    def _note_outcomes(self, one: StoredBundle, end: _End, taken: LinesTaken) -> None:
        outcomes = [site if site.reason else replace(site, reason=end.reason) for site in taken.outcomes]
        why = end.failure or end.reason
        self.file.note_end(one.number, end.status, why, self.clock(), outcomes)
        done = sum(site.outcome == "done" for site in outcomes)
        pages = sum(site.pages for site in outcomes)
        self.tell(f"Bundle {one.number} is over: {done} of {len(outcomes)} sites, {pages:,} pages{why and ', '}{why}")
        if time.monotonic() - self._manifest_at > _MANIFEST_SECONDS:
            self._manifest_at = time.monotonic()
            write_manifest(self.folder, self.clock())


def prepare(  # noqa: PLR0913 - a campaign's list, and what it is put into
    file: CampaignFile, folder: Path, rows: Sequence[SiteRow], *, form: str, cores: int, most_sites: int
) -> str:
    """Add new sites, or begin another round, and describe it. Raises ConfigError where a site's arguments differ."""
    known, known_form = file.known_sites(), file.value("form")
    if known_form not in (None, form):
        raise ConfigError(f"{folder} has its lines as {known_form}, and not as {form}: name another folder with -o")
    faults = []
    for row in rows:
        if known.get(row.name, row.arguments) != dict(row.arguments):
            before = ", ".join(f"{name}={value}" for name, value in known[row.name].items()) or "none"
            faults.append(f"line {row.line}: {row.name} was crawled with other arguments: {before}")
    if faults:
        cure = "give these to go on, or name another folder with -o"
        raise ConfigError(told_faults(str(folder), faults, cure))
    again = 0 if file.pending() else file.begin_round()
    new = [row for row in rows if row.name not in known]
    file.set_value("form", form)
    if new:
        addresses = asyncio.run(_look_up(new))
        file.add(make_bundles(new, addresses, cores, most_sites), addresses)
    told = f"{len(new):,} new sites" if known else f"{len(new):,} sites"
    return f"{told}, {len(file.pending()):,} bundles to crawl" + (f", {again:,} of them again" if again else "")


def retry(file: CampaignFile, folder: Path, storage: CampaignStorage) -> None:
    """Let sites that are unreachable or failed be tried again. Raises as `restore_job` does."""
    not_done = file.not_done()
    for number, urls in not_done.items():
        jobdir = bundle_folder(folder, number)
        restore_job(storage, number, jobdir)
        with suppress(ConfigError):  # there is no job where the crawl has never begun
            requeue(jobdir, RequeueChoice(dead=True, urls=tuple(urls)))
            if not storage.is_at(folder):  # it may be crawled on another machine
                save_job(jobdir, storage, number)
    file.reopen(not_done)


async def _look_up(rows: Sequence[SiteRow]) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the sites' hosts, by sites; none where they cannot be had, which the crawl will see."""
    lookup = NameLookup()
    try:
        found = await asyncio.gather(*(lookup.addresses(host_of(row.name)) for row in rows))
    finally:
        lookup.close()
    return {row.name: addresses for row, addresses in zip(rows, found, strict=True)}
