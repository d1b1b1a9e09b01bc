"""Runs a campaign: starts its bundles at a place, tries again what failed, and takes the lines out of what is over.

The bundle's number stands for it at the place. What is known only here (when a bundle may be tried again) is found out
again by the next run of the same command; all else is in the campaign's file.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from llmcrawler.crawl.campaigns.campaign_file import CampaignFile, StoredBundle
from llmcrawler.crawl.campaigns.campaign_status import bundle_folder, bundle_log, write_manifest
from llmcrawler.crawl.campaigns.place import Place, command_line
from llmcrawler.crawl.campaigns.site_lines import take_lines
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.errors import ConfigError
from llmcrawler.reporting import ExitStatus
from llmcrawler.storage.batched_calls import count_waiting
from llmcrawler.storage.job_status import open_snapshot
from llmcrawler.storage.replacing import replace_file

_POLL_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MANIFEST_SECONDS: Final = 5.0
_ECHO_SECONDS: Final = 0.2  # within these a second signal is the first one, sent twice
_KILL_SECONDS: Final = 10.0  # beyond the crawls' own STOP_SECONDS
_MAX_REASON: Final = 300
_TAIL_BYTES: Final = 16_384
# A crawl with one of these has done what it could: to try again would find the same.
_AT_THE_END: Final[Mapping[int, str]] = {
    ExitStatus.FINISHED: "",
    ExitStatus.UNREACHABLE: "",
    ExitStatus.BUDGET: "the LLM's budget was reached",
    ExitStatus.ERRORS_SHARE: "too many pages have errors",
}


@dataclass(frozen=True, slots=True)
class CampaignRules:
    """`form` of the lines' files; `settings` of all crawls; a bundle is tried `retries` times more where it comes no
    further, at first after `retry_seconds`. After `stop_seconds` a crawl that is to stop should have.
    """

    form: str
    settings: Mapping[str, str] = field(default_factory=dict)
    retries: int = 5
    retry_seconds: float = 2.0
    stop_seconds: float = 8.0


@dataclass
class CampaignRun:
    """One run of the campaign in `folder`. `tell` gets lines for people. `clock` is in Unix time."""

    folder: Path
    file: CampaignFile
    place: Place
    rules: CampaignRules
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.time
    _waiting: dict[int, StoredBundle] = field(default_factory=dict)
    _running: dict[int, StoredBundle] = field(default_factory=dict)
    _not_before: dict[int, float] = field(default_factory=dict)
    _lines: dict[int, int] = field(default_factory=dict)  # that a bundle's job had when its last run began
    _stopped_at: float | None = None
    _manifest_at: float = 0.0

    def run(self) -> bool:
        """Crawl what is pending; return whether nothing is left, False where it was stopped before."""
        self._waiting = {one.number: one for one in self.file.pending()}
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._running or (self._waiting and self._stopped_at is None):
                self._end_what_hangs()
                self._start_what_may()
                for one in self.place.wait(_POLL_SECONDS):
                    self._note_end(self._running.pop(one.key), one.status)
        finally:
            self._end_all()  # some are left where something was raised
            for number, handler in before.items():
                signal.signal(number, handler)
            self.place.close()
            write_manifest(self.folder, self.clock())
        return not self._waiting

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
            self.place.stop()
        elif now - self._stopped_at > _ECHO_SECONDS:
            self.place.kill()

    def _end_what_hangs(self) -> None:
        if self._stopped_at is not None:
            self.place.stop()  # one may have been started just then
            if time.monotonic() - self._stopped_at > self.rules.stop_seconds + _KILL_SECONDS:
                self.place.kill()

    def _end_all(self) -> None:
        self._stopped_at = self._stopped_at or time.monotonic()
        while self._running:
            self._end_what_hangs()
            for one in self.place.wait(_POLL_SECONDS):
                del self._running[one.key]

    def _start_what_may(self) -> None:
        if self._stopped_at is not None:
            return
        now = time.monotonic()
        taken = frozenset[str]().union(*(one.places for one in self._running.values()))
        for number, one in [*self._waiting.items()]:
            if self._not_before.get(number, 0.0) > now or not taken.isdisjoint(one.places):
                continue
            rendered, may_render = one.bundle.is_rendered, one.bundle.arguments.get("render") != NEVER
            if self.place.has_room(needs_browser=rendered, may_need_browser=may_render):
                self._start(one)
                taken |= one.places
            elif not rendered:
                return  # there is none for those behind it either

    def _start(self, one: StoredBundle) -> None:
        folder = bundle_folder(self.folder, one.number)
        folder.mkdir(parents=True, exist_ok=True)
        sites = folder / "sites.txt"
        replace_file(sites, "".join(f"{row.url}\n" for row in one.sites).encode())
        self._lines[one.number] = self._progress_of(one.number)[0]
        # It is refreshed when it has been crawled before: an earlier run's end, and this one's, are the same then.
        refresh = {"refresh": "1"} if one.rounds and one.bundle.refreshes else {}
        argv = command_line(
            {"urls": str(sites), **one.bundle.crawl_arguments(), **refresh},
            {**self.rules.settings, "JOBDIR": str(folder)},
        )
        self.file.note_start(one.number, self.clock())
        try:
            self.place.start(
                one.number, argv, bundle_log(self.folder, one.number), needs_browser=one.bundle.is_rendered
            )
        except OSError as error:
            self._try_again(one, int(ExitStatus.ERROR), f"no process could be started: {error}")
            return
        self._running[one.number] = self._waiting.pop(one.number)

    def _note_end(self, one: StoredBundle, status: int) -> None:
        if status in _AT_THE_END:
            self._finish(one, status, _AT_THE_END[status], "")
        elif status == ExitStatus.USAGE:
            self._finish(one, status, reason := self._reason(one, status), reason)
        elif self._stopped_at is not None:
            self._waiting[one.number] = one
            self.file.note_attempt(one.number, one.attempts, status, "stopped with the campaign")
        else:
            self._try_again(one, status, self._reason(one, status))

    def _try_again(self, one: StoredBundle, status: int, reason: str) -> None:
        """Let the bundle wait for its turn, or give it up: where it has come no further for as long as is allowed."""
        lines, batches = self._progress_of(one.number)
        attempts = 1 if lines > self._lines.get(one.number, 0) else one.attempts + 1
        if attempts > self.rules.retries and not batches:  # whose answers take hours
            self._waiting.pop(one.number, None)
            self._finish(one, status, reason, f"given up after {attempts:,} tries: {reason}")
            return
        self.file.note_attempt(one.number, attempts, status, reason)
        pause = min(_LONGEST_PAUSE_SECONDS, self.rules.retry_seconds * 2 ** min(attempts - 1, 10))
        self._not_before[one.number] = time.monotonic() + pause
        self._waiting[one.number] = replace(one, attempts=attempts)
        self.tell(f"Bundle {one.number} ended with exit status {status} ({reason}); it goes on in {pause:g} s")

    def _finish(self, one: StoredBundle, status: int, reason: str, failure: str) -> None:
        """Take the bundle's lines, then note that it is over. Ended in between, it would be found finished and done
        once more, with the same files.
        """
        jobdir = bundle_folder(self.folder, one.number)
        outcomes = take_lines(jobdir, one.bundle, self.folder, self.rules.form, failure)
        outcomes = [site if site.reason else replace(site, reason=reason) for site in outcomes]
        self.file.note_end(one.number, status, failure or reason, self.clock(), outcomes)
        done = sum(site.outcome == "done" for site in outcomes)
        pages = sum(site.pages for site in outcomes)
        why = f", {failure or reason}" if failure or reason else ""
        self.tell(f"Bundle {one.number} is over: {done} of {len(outcomes)} sites, {pages:,} pages{why}")
        if time.monotonic() - self._manifest_at > _MANIFEST_SECONDS:
            self._manifest_at = time.monotonic()
            write_manifest(self.folder, self.clock())

    def _progress_of(self, number: int) -> tuple[int, int]:
        """Count the lines of a bundle's job, and the batches of calls whose answers it waits for."""
        with suppress(ConfigError), open_snapshot(bundle_folder(self.folder, number)) as connection:
            (lines,) = connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()
            return int(lines), count_waiting(connection)[1]
        return 0, 0

    def _reason(self, one: StoredBundle, status: int) -> str:
        """Say why a crawl has failed: by the last line of its log that names an error."""
        if status < 0:
            return f"its process was ended by {_signal_name(-status)}"
        path = bundle_log(self.folder, one.number)
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
