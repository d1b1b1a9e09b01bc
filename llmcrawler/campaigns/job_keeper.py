"""Keeps the jobs that are crawled on one machine in the campaign's storage: brings them here, and saves them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.campaigns.saved_jobs import SaveTimes, restore_job, save_job
from llmcrawler.errors import ConfigError

_LOOK_SECONDS: Final = 1.0


@dataclass
class JobKeeper:
    """`work` has the jobs while they are crawled. They are saved every `save_seconds` on a thread, and at their ends.
    `tell` gets lines for people, also from the thread.
    """

    work: Path
    storage: CampaignStorage
    save_seconds: float
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _running: set[int] = field(default_factory=set)
    _saving: Lock = field(default_factory=Lock)
    _closing: Event = field(default_factory=Event)
    _thread: Thread | None = None
    _times: SaveTimes = field(init=False)

    def __post_init__(self) -> None:
        self._times = SaveTimes(self.save_seconds, self.clock)

    def bring(self, number: int) -> None:
        """Bring a bundle's job here where the one that is here is not as far. Raises as `restore_job` does."""
        if restore_job(self.storage, number, bundle_folder(self.work, number)):
            self.tell(f"Bundle {number} goes on from its saved job")

    def begin(self, number: int) -> None:
        """Bring a bundle's job here, and save it from time to time. Raises as `bring` does."""
        self.bring(number)
        self._running.add(number)
        if self._thread is None:
            self._thread = Thread(target=self._save_from_time_to_time, name="job-keeper", daemon=True)
            self._thread.start()

    def end(self, number: int) -> None:
        """Save the job of a bundle whose crawl has ended, and its log."""
        with self._saving:
            self._running.discard(number)
            self._save(number)

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _save_from_time_to_time(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            self.save_due()

    def save_due(self) -> None:
        """Save the job whose turn it is, if any."""
        number = self._times.next_due(self._running.copy())
        if number is None:
            return
        with self._saving:
            if number in self._running:
                started = self.clock()
                self._save(number)
                self._times.note(number, self.clock() - started)

    def _save(self, number: int) -> None:
        """What cannot be saved now is tried again: until then the one that was saved before is there."""
        log = bundle_log(self.work, number)
        try:
            save_job(bundle_folder(self.work, number), self.storage, number)
            if log.exists():
                self.storage.upload(log.relative_to(self.work).as_posix(), log)
        except (OSError, ConfigError, sqlite3.Error) as error:
            self.tell(f"The job of bundle {number} could not be saved: {error}")
