"""Where a campaign is kept: in a folder, or in a bucket of S3 or Google Cloud Storage."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.core.storage import check_job_file, holds_job, read_value, replace_file
from llmcrawler.core.storage.body_packer import ZSTD_OPTIONS, zstd
from llmcrawler.core.storage.job_file import JOB_FILE, JobConnection, lock_folder
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import delete_database, temporary_of
from llmcrawler.errors import ConfigError, require

T = TypeVar("T")

_CHUNK_BYTES: Final = 8 * 2**20
_MAX_READS: Final = 10
# In these an object appears when its stream is closed: no reader ever sees a part of one.
_SCHEMES: Final = ("s3", "gs")


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """Keeps files by relative paths in a folder of this machine, each whole or not at all. Raises OSError."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)

    def is_at(self, folder: Path) -> bool:
        """Tell whether this is the storage at that folder."""
        return self.folder.resolve() == folder.resolve()

    def write(self, path: str, data: bytes) -> None:
        replace_file(self._made(path), data)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def upload(self, path: str, local: Path) -> None:
        """Put a local file into the storage."""
        target = self._made(path)
        if not (target.exists() and target.samefile(local)):
            with local.open("rb") as source:
                _replace(target, source)

    def take(self, path: str, local: Path) -> None:
        """Move a local file into the storage."""
        try:
            local.replace(self._made(path))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.upload(path, local)
            local.unlink()

    def download(self, path: str, local: Path) -> bool:
        """Replace a local file by what the storage has; False where it has none."""
        try:
            source = (self.folder / path).open("rb")
        except FileNotFoundError:
            return False
        with source:
            if not (local.exists() and local.samefile(self.folder / path)):
                _replace(local, source)
        return True

    def delete(self, path: str) -> None:
        (self.folder / path).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, sorted."""
        found = (self.folder / folder).rglob("*")
        # Files that are being written begin with a dot.
        files = (path for path in found if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self.folder).as_posix() for path in files)

    def _made(self, path: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


@dataclass(frozen=True, slots=True)
class BucketStorage:
    """`system` is a pyarrow.fs.FileSystem, `root` the bucket and path, `name` the url without secrets."""

    system: Any
    root: str
    name: str

    def __str__(self) -> str:
        return self.name

    def is_at(self, _folder: Path) -> bool:
        return False

    def write(self, path: str, data: bytes) -> None:
        out = self._open(path)
        out.write(data)
        out.close()

    def read(self, path: str) -> bytes | None:
        return self._read(path, lambda source: bytes(source.read_at(source.size(), 0)))

    def upload(self, path: str, local: Path) -> None:
        # Not `with`, which closes the stream after an error too, so that a part of the file would appear as the file.
        out = self._open(path)
        with local.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                out.write(chunk)
                out.flush()  # else what the network has not taken yet gathers in memory
        out.close()

    def take(self, path: str, local: Path) -> None:
        self.upload(path, local)
        local.unlink()

    def download(self, path: str, local: Path) -> bool:
        def read(source: Any) -> bool:
            _replace(local, source)
            return True

        return self._read(path, read) or False

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.system.delete_file(self._key(path))

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs  # only those who keep campaigns elsewhere have it

        found = self.system.get_file_info(fs.FileSelector(self._key(folder), recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"{self.root}/") for one in found if one.type == fs.FileType.File)

    def _read(self, path: str, read: Callable[[Any], T]) -> T | None:
        """Read an object, again where it was replaced meanwhile: pyarrow asks for its size, and then for its parts."""
        key = self._key(path)
        for _try in range(_MAX_READS):
            before = self._state(key)
            try:
                source = self.system.open_input_file(key)
            except FileNotFoundError:
                return None
            try:
                with source:
                    data = read(source)
            except OSError:  # what was to be read may not be there any more
                if self._state(key) == before:
                    raise
            else:
                if self._state(key) == before:
                    return data
        raise OSError(f"{self.name}/{path} was replaced {_MAX_READS} times while it was read")

    def _open(self, path: str) -> Any:
        return self.system.open_output_stream(self._key(path), compression=None)  # it packs what is named as packed

    def _state(self, key: str) -> tuple[int | None, int | None]:
        info = self.system.get_file_info(key)
        return info.size, info.mtime_ns

    def _key(self, path: str) -> str:
        return f"{self.root}/{path}".rstrip("/")


# Both can be pickled, and used by several threads.
CampaignStorage = FolderStorage | BucketStorage


def storage_at(place: str | Path) -> CampaignStorage:
    """Return the storage at a folder or a url as s3://bucket/path. Raises ConfigError where it is unreachable."""
    place = str(place)
    if "://" not in place:
        return FolderStorage(Path(place))
    parts = urlsplit(place)
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"{name}: a campaign is kept in a folder, or at s3://BUCKET/PATH or gs://BUCKET/PATH")
    require("pyarrow", "parquet", f"a campaign at {name}")
    from pyarrow import fs

    try:
        system, root = fs.FileSystem.from_uri(place)
        bucket, _, path = root.rstrip("/").partition("/")
        if not path:
            raise ConfigError(f"{name}: name a path in the bucket too, as {name}/campaign")
        if system.get_file_info(bucket).type == fs.FileType.NotFound:
            raise ConfigError(f"{name}: there is no bucket {bucket}: make it, or name another")
    except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's own are among these
        cure = "the url, its endpoint_override and region, and the credentials (AWS_ACCESS_KEY_ID ...) say how"
        raise ConfigError(f"{name} cannot be reached ({error}): {cure}") from error
    return BucketStorage(system, root.rstrip("/"), name)


def _replace(path: Path, source: Any) -> None:
    temporary = temporary_of(path)
    try:
        with temporary.open("wb") as out:
            shutil.copyfileobj(source, out, _CHUNK_BYTES)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path.resolve())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_TEMPLATES: Final = "templates.json"
_VERSION: Final = 1
_WORK: Final = ".saving"  # a folder in the JOBDIR
_PACKED: Final = "packed"
_PACK_BYTES: Final = 2**20
_SAVE_SHARE: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Saved:
    """saved.json: the files of a job with their bytes, how far it was, and the `state` of the files on the disk."""

    version: int
    prefix: str
    sizes: dict[str, int]
    runs: int
    lines: int
    state: list[list[int]]

    def path_of(self, name: str) -> str:
        return f"{self.prefix}-{name}.zst"


def save_job(jobdir: Path, storage: CampaignStorage, number: int) -> bool:
    """Save a bundle's job, also while its crawl runs; False where nothing has changed, or what is saved is further.
    Raises OSError where the disk or the storage takes no more, and ConfigError where the job is damaged.
    """
    if not holds_job(jobdir / JOB_FILE):
        return False
    before, paths = _saved(storage, number), [jobdir / name for name in (JOB_FILE, f"{JOB_FILE}-wal", _TEMPLATES)]
    stats = [path.stat() if path.exists() else None for path in paths]
    state = [[one.st_ino, one.st_size, one.st_mtime_ns] if one else [] for one in stats]
    if before is not None and before.state == state:
        return False
    with saving_folder(jobdir) as work:
        with open_snapshot(jobdir) as connection, closing(sqlite3.connect(work / JOB_FILE)) as copy:
            runs, lines = _progress(connection)
            try:
                connection.backup(copy)
            except sqlite3.OperationalError as error:
                raise OSError(f"{jobdir} cannot be copied: {error}") from error
        # They come last: of pages that they know already and the job's file does not, the crawl just knows more.
        if (jobdir / _TEMPLATES).exists():
            shutil.copyfile(jobdir / _TEMPLATES, work / _TEMPLATES)
        if before is not None and (before.runs, before.lines) > (runs, lines):
            return False  # of another machine, which has gone on since
        sizes = {path.name: path.stat().st_size for path in work.iterdir()}
        saved = _Saved(_VERSION, f"saved/{number:05}/{uuid.uuid4().hex}", sizes, runs, lines, state)
        for name in sizes:
            with (work / name).open("rb") as source, zstd.open(work / _PACKED, "wb", options=ZSTD_OPTIONS) as out:
                shutil.copyfileobj(source, out, _PACK_BYTES)
            storage.upload(saved.path_of(name), work / _PACKED)
    storage.write(_index(number), json.dumps(asdict(saved), indent=1).encode() + b"\n")
    if before is not None:
        for name in before.sizes:
            storage.delete(before.path_of(name))
    return True


def restore_job(storage: CampaignStorage, number: int, jobdir: Path) -> bool:
    """Put a saved job where there is none, or one that is not as far; return whether that was done. Raises ConfigError
    where it is damaged, JobBusy where a crawl has the folder, and OSError: what is there stays as it is then.
    """
    saved, here = _saved(storage, number), (-1, -1)
    if holds_job(jobdir / JOB_FILE):
        with open_snapshot(jobdir) as connection:
            here = _progress(connection)
    if saved is None or here >= (saved.runs, saved.lines):
        return False
    lock = lock_folder(jobdir)
    try:
        with saving_folder(jobdir) as work:
            for name, size in saved.sizes.items():
                if not storage.download(saved.path_of(name), work / _PACKED):
                    if _saved(storage, number) != saved:
                        raise OSError(f"{storage}/saved/{number:05}: another job was saved there just now")
                    raise _damage(storage, number, f"{saved.path_of(name)} is not there")
                try:
                    _unpack(work / _PACKED, work / name, size)
                except (zstd.ZstdError, EOFError, ValueError) as error:
                    raise _damage(storage, number, f"{saved.path_of(name)}: {error}") from error
            try:
                check_job_file(work / JOB_FILE)
            except ConfigError as error:
                raise _damage(storage, number, str(error)) from error
            # Ended in between there is no job, and it is restored again.
            delete_database(jobdir / JOB_FILE)
            (jobdir / _TEMPLATES).unlink(missing_ok=True)
            for name in sorted(saved.sizes, key=(_TEMPLATES, JOB_FILE).index):
                (work / name).replace(jobdir / name)
    finally:
        lock.release()
    return True


def _index(number: int) -> str:
    return f"saved/{number:05}/saved.json"


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
    cure = f"delete saved/{number:05}/ there to crawl the bundle again"
    return ConfigError(f"{storage}/{_index(number)} cannot be used ({what}): {cure}")


def _progress(connection: JobConnection) -> tuple[int, int]:
    (lines,) = connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()
    return sum(int(read_value(connection, name, 0)) for name in ("runs", "requeues")), int(lines)


@contextmanager
def saving_folder(jobdir: Path) -> Iterator[Path]:
    """Make a folder for what is not whole yet; one that a kill has left is emptied."""
    work = jobdir / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(packed: Path, path: Path, size: int) -> None:
    """Unpack a file, which has to have this size. Raises ValueError, EOFError and ZstdError where it is damaged."""
    left = size
    with zstd.open(packed, "rb") as source, path.open("wb") as out:
        while chunk := source.read(_PACK_BYTES):
            left -= len(chunk)
            if left < 0:
                break
            out.write(chunk)
        if left:
            raise ValueError(f"it does not have the {size:,} bytes that it should have")
        out.flush()
        os.fsync(out.fileno())


_LOOK_SECONDS: Final = 1.0


@dataclass
class JobKeeper:
    """Saves jobs on a thread, each every `save_seconds` and all in a tenth of the time at most, and at their ends."""

    work: Path
    storage: CampaignStorage
    save_seconds: float
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _due: dict[int, float] = field(default_factory=dict)  # of the bundles that are crawled: when they are to be saved
    _none_before: float = 0.0
    _saving: Lock = field(default_factory=Lock)
    _closing: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def bring(self, number: int) -> None:
        """Bring a bundle's job here where the one that is here is not as far. Raises as `restore_job` does."""
        if restore_job(self.storage, number, bundle_folder(self.work, number)):
            self.tell(f"Bundle {number} goes on from its saved job")

    def begin(self, number: int) -> None:
        """Bring a bundle's job here, and save it from time to time. Raises as `bring` does."""
        self.bring(number)
        self._due[number] = self.clock() + self.save_seconds
        if self._thread is None:
            self._thread = Thread(target=self._save_from_time_to_time, name="job-keeper", daemon=True)
            self._thread.start()

    def end(self, number: int) -> None:
        """Save the job of a bundle whose crawl has ended, and its log."""
        with self._saving:
            self._due.pop(number, None)
            self._save(number)

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _save_from_time_to_time(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            self.save_due()

    def save_due(self) -> None:
        """Save the job that has waited longest, if it is time."""
        with self._saving:
            started, due = self.clock(), self._due.copy()
            number = min(due, key=due.__getitem__, default=None)
            if number is None or started < max(self._none_before, due[number]):
                return
            self._save(number)
            now = self.clock()
            self._none_before = now + (_SAVE_SHARE - 1) * (now - started)
            self._due[number] = now + self.save_seconds

    def _save(self, number: int) -> None:
        log = bundle_log(self.work, number)
        try:
            save_job(bundle_folder(self.work, number), self.storage, number)
            if log.exists():
                self.storage.upload(log.relative_to(self.work).as_posix(), log)
        except (OSError, ConfigError, sqlite3.Error) as error:  # until later the one that was saved before is there
            self.tell(f"The job of bundle {number} could not be saved: {error}")
