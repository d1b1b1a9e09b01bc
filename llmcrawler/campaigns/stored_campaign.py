"""A campaign that is kept elsewhere than in the folder that it works in, so that another machine can go on with it.

One driver at a time has it: owner.json in the storage says which, and changes every few seconds while that runs. What
the driver notes is copied there from time to time; the work folder's own mark says whether it was the last that did.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any, Final, Self

import platformdirs

from llmcrawler.campaigns.campaign_file import CAMPAIGN_FILE
from llmcrawler.campaigns.campaign_status import MANIFEST, campaign_status
from llmcrawler.campaigns.campaign_storage import CampaignStorage, FolderStorage, saving_folder
from llmcrawler.core.processes.forking import is_alive
from llmcrawler.core.storage import replace_file
from llmcrawler.core.storage.shared_file import delete_database
from llmcrawler.errors import ConfigError, JobBusy

BUDGET_FILE: Final = "budget.sqlite"  # of the model, for all crawls together
_DATABASES: Final = (CAMPAIGN_FILE, BUDGET_FILE)
_OWNER: Final = "owner.json"
_MARK: Final = "storage.json"  # in the work folder
_LOOK_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 30.0  # in which an owner that runs is heard of, over a slow network too
_SAVE_SECONDS: Final = 5.0  # at least between two copies
_SAVE_SHARE: Final = 10.0


def work_folder(place: str) -> Path:
    """Return the folder of the user's that a campaign works in that is kept at `place`, a url."""
    scheme, _, rest = place.partition("://")
    without_keys = f"{scheme}://{rest.rpartition('@')[2]}"
    name = blake2b(without_keys.encode(), digest_size=8).hexdigest()
    return platformdirs.user_cache_path("llmcrawler") / "campaigns" / name


@dataclass
class StoredCampaign:
    """A campaign that this process drives, with its lock held. `on_loss` is called on a thread if another takes it."""

    work: Path
    storage: CampaignStorage
    tell: Callable[[str], None]
    on_loss: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGTERM)  # as if the user had stopped it
    machine: str = field(default_factory=socket.gethostname)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    is_lost: bool = False
    _id: str = ""
    _state: object = None
    _not_before: float = 0.0
    _beat_at: float = 0.0
    _saving: Lock = field(default_factory=Lock)
    _closing: Event = field(default_factory=Event)
    _threads: list[Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Take the campaign, and bring here what another driver has noted. Raises JobBusy, ConfigError and OSError."""
        self.tell(f"{self.storage} is being worked on in {self.work}")
        mark = self._read_mark()
        owner = read_owner(self.storage)
        was_here = owner is not None and (owner["id"], owner["machine"]) == (mark, self.machine)
        if owner is not None and not was_here:
            self._check_gone(owner)
        is_brought = was_here and (self.work / CAMPAIGN_FILE).exists()
        self._id = str(mark) if is_brought else uuid.uuid4().hex
        self._write_owner()
        if not is_brought:
            self._bring()
            replace_file(self.work / _MARK, json.dumps({"place": str(self.storage), "id": self._id}).encode())
        # A copy may take longer than others wait to hear of this driver.
        for work in (self._beat_if_due, self._save_if_due):
            thread = Thread(target=self._do_from_time_to_time, args=(work,), name="campaign-keeper", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self.is_lost:
                self.save()
        finally:
            self._closing.set()
            for thread in self._threads:
                thread.join()
        if not self.is_lost:
            self._write_owner(is_over=True)

    def save(self) -> None:
        """Copy what is noted into the storage, if it has changed. Raises OSError."""
        with self._saving:
            files = [path for name in _DATABASES for path in (self.work / name, self.work / f"{name}-wal")]
            stats = [path.stat() for path in (*files, self.work / MANIFEST) if path.exists()]
            state = [(one.st_ino, one.st_size, one.st_mtime_ns) for one in stats if one.st_size]
            if state == self._state:
                return
            started = self.clock()
            for name in _DATABASES:
                if (self.work / name).exists():
                    self._upload_database(name)
            if (self.work / MANIFEST).exists():
                self.storage.upload(MANIFEST, self.work / MANIFEST)
            self._state = state
            now = self.clock()
            self._not_before = now + max(_SAVE_SECONDS, _SAVE_SHARE * (now - started))

    def _do_from_time_to_time(self, work: Callable[[], None]) -> None:
        while not self._closing.wait(_LOOK_SECONDS) and not self.is_lost:
            self._do(work)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, sqlite3.Error) as error:
            self.tell(f"{self.storage} cannot be written now and will be retried: {error}")

    def _save_if_due(self) -> None:
        if not self.is_lost and self.clock() >= self._not_before:
            self._not_before = self.clock() + _BEAT_SECONDS  # if it fails
            self.save()

    def _beat_if_due(self) -> None:
        if self.clock() < self._beat_at:
            return
        self._beat_at = self.clock() + _BEAT_SECONDS
        owner = read_owner(self.storage)
        if owner is not None and owner["id"] != self._id:
            self.is_lost = True
            self.tell(f"{self.storage}: {_named(owner)} has taken this campaign over; it ends here")
            self.on_loss()
        else:
            self._write_owner()

    def _write_owner(self, *, is_over: bool = False) -> None:
        owner = {"id": self._id, "machine": self.machine, "pid": os.getpid(), "moment": time.time(), "is_over": is_over}
        self.storage.write(_OWNER, json.dumps(owner).encode() + b"\n")

    def _check_gone(self, owner: dict[str, Any]) -> None:
        """Raise JobBusy where the owner runs: its mark changes. The clocks of two machines need not agree."""
        # In a container that was started again this process may have the number that the owner had.
        is_here = owner["machine"] == self.machine
        if owner["is_over"] or (is_here and (owner["pid"] == os.getpid() or not is_alive(owner["pid"]))):
            return
        self.tell(
            f"{self.storage}: {_named(owner)} has it; waiting {_WATCH_SECONDS:g} s to see whether it is still running"
        )
        self.sleep(_WATCH_SECONDS)
        now = read_owner(self.storage)
        if now is not None and now != owner and not now["is_over"]:
            raise JobBusy(
                f"{self.storage}: this campaign is running already: {_named(owner)}. Stop it there, and run this "
                f"command again; `scrapy campaign status {self.storage}` shows it"
            )

    def _read_mark(self) -> str | None:
        """Return the id of the driver that worked here last. Raises ConfigError where the folder is another's."""
        path = self.work / _MARK
        try:
            mark = json.loads(path.read_bytes())
            place, identity = mark["place"], str(mark["id"])
        except FileNotFoundError:
            if (self.work / CAMPAIGN_FILE).exists():
                raise ConfigError(f"{self.work} has a campaign of its own: name another folder with --work") from None
            return None
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): name another folder with --work") from error
        if place != str(self.storage):
            raise ConfigError(f"{self.work} is the work folder of {place}: name another folder with --work")
        return identity

    def _bring(self) -> None:
        for name in _DATABASES:
            path, brought = self.work / name, self.work / f".{name}.brought"
            is_there = self.storage.download(name, brought)
            if not is_there and name == CAMPAIGN_FILE and path.exists():
                raise ConfigError(
                    f"{self.work} has a campaign that is not at {self.storage}: delete that folder to start over"
                )
            delete_database(path)
            if is_there:
                brought.replace(path)

    def _upload_database(self, name: str) -> None:
        with saving_folder(self.work) as folder:
            with closing(sqlite3.connect(self.work / name)) as source, closing(sqlite3.connect(folder / name)) as copy:
                source.backup(copy)
            self.storage.take(name, folder / name)


def read_owner(storage: CampaignStorage) -> dict[str, Any] | None:
    """Return what owner.json says; None where there is none, or none of ours."""
    try:
        owner = json.loads(storage.read(_OWNER) or b"null")
        kinds = {"id": str, "machine": str, "pid": int, "moment": float, "is_over": bool}
        return owner if all(isinstance(owner[name], kind) for name, kind in kinds.items()) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def status_at(storage: CampaignStorage, now: float) -> dict[str, Any]:
    """Return the status of a stored campaign, as `campaign_status` does. Raises ConfigError where there is none."""
    try:
        owner = read_owner(storage)
        if owner is None and isinstance(storage, FolderStorage):
            return campaign_status(storage.folder)
        with TemporaryDirectory(prefix="llmcrawler-") as folder:
            if owner is None or not storage.download(CAMPAIGN_FILE, Path(folder, CAMPAIGN_FILE)):
                raise ConfigError(f"{storage}: there is no campaign in it")
            is_running = not owner["is_over"] and abs(now - owner["moment"]) < 2 * _WATCH_SECONDS
            status = campaign_status(Path(folder), is_live=False, is_running=is_running)
    except OSError as error:
        raise ConfigError(f"{storage} cannot be read: {error}") from error
    return {**status, "folder": str(storage)}


def _named(owner: dict[str, Any]) -> str:
    return f"process {owner['pid']} on {owner['machine'][:100]}"
