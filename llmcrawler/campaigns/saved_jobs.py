"""Saves the jobs of bundles in a campaign's storage, also while they are crawled, so that another machine can go on.

A crawl goes on with its job's file and, beside it, what it has learned of templates. Both are in the storage, packed;
saved/NUMBER/saved.json names them, and is written last: what it names is whole.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.core.storage import check_job_file, holds_job, read_value
from llmcrawler.core.storage.body_packer import zstd
from llmcrawler.core.storage.job_file import JOB_FILE, JobConnection, lock_folder
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import delete_database
from llmcrawler.errors import ConfigError

_TEMPLATES: Final = "templates.json"
_VERSION: Final = 1
_WORK: Final = ".saving"  # a folder in the JOBDIR
_PACKED: Final = "packed"
_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}
_CHUNK_BYTES: Final = 2**20
_SAVE_SHARE: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Saved:
    """What saved.json says: the files of a job with their bytes, at PREFIX-NAME.zst each; and how far the job was: how
    often it was begun or pages of it queued again, and its lines since. `state` is another one whenever the files on
    the disk have changed.
    """

    version: int
    prefix: str
    sizes: dict[str, int]
    runs: int
    lines: int
    state: list[list[int]]

    @property
    def progress(self) -> tuple[int, int]:
        return self.runs, self.lines

    def path_of(self, name: str) -> str:
        return f"{self.prefix}-{name}.zst"


@dataclass
class SaveTimes:
    """Says which job is to be saved next: each once in `save_seconds`, and all that in a tenth of the time at most.
    `clock` is in seconds.
    """

    save_seconds: float
    clock: Callable[[], float]
    _not_before: dict[int, float] = field(default_factory=dict)
    _none_before: float = 0.0

    def next_due(self, running: Iterable[int]) -> int | None:
        """Return the bundle whose job has waited longest, of those that are crawled; None: none is to be saved now."""
        now = self.clock()
        self._not_before = {one: self._not_before.get(one, now + self.save_seconds) for one in running}
        due = min(self._not_before, key=self._not_before.__getitem__, default=None)
        return due if due is not None and now >= max(self._none_before, self._not_before[due]) else None

    def note(self, number: int, seconds: float) -> None:
        """Note that a job was saved just now, or could not be, and how long that took."""
        now = self.clock()
        self._none_before = now + (_SAVE_SHARE - 1) * seconds
        self._not_before[number] = now + self.save_seconds


def save_job(jobdir: Path, storage: CampaignStorage, number: int) -> bool:
    """Save a bundle's job as it is at this moment, also while its crawl runs. The one saved before goes when this one
    is there. Return False where there is no job, nothing has changed, or what is saved is further. Raises OSError where
    the disk or the storage takes no more, and ConfigError where the job is damaged.
    """
    if not holds_job(jobdir / JOB_FILE):
        return False
    before, state = _saved(storage, number), _state(jobdir)
    if before is not None and before.state == state:
        return False
    with _work_folder(jobdir) as work:
        runs, lines = _copy(jobdir, work)
        if before is not None and before.progress > (runs, lines):
            return False  # of another machine, which has gone on since
        sizes = {path.name: path.stat().st_size for path in work.iterdir()}
        saved = _Saved(_VERSION, f"{_folder(number)}/{uuid.uuid4().hex}", sizes, runs, lines, state)
        for name in sizes:
            _pack(work / name, work / _PACKED)
            storage.upload(saved.path_of(name), work / _PACKED)
    storage.write(_index(number), json.dumps(asdict(saved), indent=1).encode() + b"\n")
    if before is not None:
        _delete(storage, before)
    return True


def restore_job(storage: CampaignStorage, number: int, jobdir: Path) -> bool:
    """Put a bundle's saved job where there is none, or one that is not as far; return whether that was done. Raises
    ConfigError where what is saved is damaged, JobBusy where a crawl has the folder, and OSError. What is there stays
    as it is then.
    """
    saved = _saved(storage, number)
    if saved is None or _progress_at(jobdir) >= saved.progress:
        return False
    lock = lock_folder(jobdir)
    try:
        with _work_folder(jobdir) as work:
            for name, size in saved.sizes.items():
                if not storage.download(saved.path_of(name), work / _PACKED):
                    if _saved(storage, number) != saved:
                        raise OSError(f"{storage}/{_folder(number)}: another job was saved there just now")
                    raise _damage(storage, number, f"{saved.path_of(name)} is not there")
                try:
                    _unpack(work / _PACKED, work / name, size)
                except (zstd.ZstdError, EOFError, ValueError) as error:
                    raise _damage(storage, number, f"{saved.path_of(name)}: {error}") from error
            try:
                check_job_file(work / JOB_FILE)
            except ConfigError as error:
                raise _damage(storage, number, str(error)) from error
            _put(work, jobdir)
    finally:
        lock.release()
    return True


def _folder(number: int) -> str:
    return f"saved/{number:05}"


def _index(number: int) -> str:
    return f"{_folder(number)}/saved.json"


def _saved(storage: CampaignStorage, number: int) -> _Saved | None:
    data = storage.read(_index(number))
    if data is None:
        return None
    try:
        saved = _Saved(**json.loads(data))
        if saved.version != _VERSION:
            raise _damage(storage, number, f"it is of version {saved.version}")
        if not {JOB_FILE} <= {*saved.sizes} <= {JOB_FILE, _TEMPLATES}:
            raise ValueError("it names other files than those of a job")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damage(storage, number, str(error)) from error
    return saved


def _damage(storage: CampaignStorage, number: int, what: str) -> ConfigError:
    return ConfigError(
        f"{storage}/{_index(number)} cannot be used ({what}): delete {_folder(number)}/ there to crawl the bundle anew"
    )


def _delete(storage: CampaignStorage, saved: _Saved) -> None:
    for name in saved.sizes:
        storage.delete(saved.path_of(name))


def _state(jobdir: Path) -> list[list[int]]:
    paths = (jobdir / name for name in (JOB_FILE, f"{JOB_FILE}-wal", _TEMPLATES))
    stats = [path.stat() if path.exists() else None for path in paths]
    return [[one.st_ino, one.st_size, one.st_mtime_ns] if one else [] for one in stats]


def _progress_at(jobdir: Path) -> tuple[int, int]:
    if not holds_job(jobdir / JOB_FILE):
        return -1, -1
    with open_snapshot(jobdir) as connection:
        return _progress(connection)


def _progress(connection: JobConnection) -> tuple[int, int]:
    (lines,) = connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()
    return sum(int(read_value(connection, name, 0)) for name in ("runs", "requeues")), int(lines)


@contextmanager
def _work_folder(jobdir: Path) -> Iterator[Path]:
    """Make a folder for what is not whole yet; one that a kill has left is emptied."""
    work = jobdir / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _copy(jobdir: Path, work: Path) -> tuple[int, int]:
    """Copy the files of a job, and return how far it is. The templates come last: of pages that these know already and
    the job's file does not, the crawl just knows more.
    """
    with open_snapshot(jobdir) as connection, closing(sqlite3.connect(work / JOB_FILE)) as copy:
        progress = _progress(connection)
        try:
            connection.backup(copy)
        except sqlite3.OperationalError as error:
            raise OSError(f"{jobdir} cannot be copied: {error}") from error
    if (jobdir / _TEMPLATES).exists():
        shutil.copyfile(jobdir / _TEMPLATES, work / _TEMPLATES)
    return progress


def _pack(path: Path, packed: Path) -> None:
    with path.open("rb") as source, zstd.open(packed, "wb", options=_OPTIONS) as out:
        shutil.copyfileobj(source, out, _CHUNK_BYTES)


def _unpack(packed: Path, path: Path, size: int) -> None:
    """Unpack a file, which has to have this size. Raises ValueError, EOFError and ZstdError where it is damaged."""
    left = size
    with zstd.open(packed, "rb") as source, path.open("wb") as out:
        while chunk := source.read(_CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                break
            out.write(chunk)
        if left:
            raise ValueError(f"it has not the {size:,} bytes that it should have")
        out.flush()
        os.fsync(out.fileno())


def _put(work: Path, jobdir: Path) -> None:
    """Put the unpacked files in their places. Ended in between there is no job, and it is restored again."""
    delete_database(jobdir / JOB_FILE)
    (jobdir / _TEMPLATES).unlink(missing_ok=True)
    for name in (_TEMPLATES, JOB_FILE):
        if (work / name).exists():
            (work / name).replace(jobdir / name)
