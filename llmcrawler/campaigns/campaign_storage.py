"""Where a campaign is kept: in a folder, or in a bucket of S3 or Google Cloud Storage."""

from __future__ import annotations

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from llmcrawler.core.storage import replace_file
from llmcrawler.core.storage.shared_file import temporary_of
from llmcrawler.errors import ConfigError, require

T = TypeVar("T")

_CHUNK_BYTES: Final = 8 * 2**20
_MAX_READS: Final = 10
# In these an object appears when its stream is closed: no reader ever sees a part of one.
_SCHEMES: Final = ("s3", "gs")


class CampaignStorage(ABC):
    """Keeps files by relative paths with "/" between their parts; a file is there as a whole or not at all. It can be
    pickled, and used by several threads. All methods raise OSError where the place does not do what they ask.
    """

    @staticmethod
    def at(place: str | Path) -> CampaignStorage:
        """Return the storage at a folder, or at a url as s3://bucket/path. Raises ConfigError where it cannot be
        reached.
        """
        if "://" not in str(place):
            return FolderStorage(Path(place))
        return _bucket_storage(str(place))

    @abstractmethod
    def is_at(self, folder: Path) -> bool:
        """Tell whether this is the storage at that folder."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None: ...

    @abstractmethod
    def read(self, path: str) -> bytes | None: ...

    @abstractmethod
    def upload(self, path: str, local: Path) -> None:
        """Put a local file into the storage."""

    def take(self, path: str, local: Path) -> None:
        """Move a local file into the storage."""
        self.upload(path, local)
        local.unlink()

    @abstractmethod
    def download(self, path: str, local: Path) -> bool:
        """Replace a local file by what the storage has; False where it has none."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, sorted."""


@dataclass(frozen=True, slots=True)
class FolderStorage(CampaignStorage):
    """A folder on this machine."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)

    def is_at(self, folder: Path) -> bool:
        return self.folder.resolve() == folder.resolve()

    def write(self, path: str, data: bytes) -> None:
        target = self._made(path)
        replace_file(target, data)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def upload(self, path: str, local: Path) -> None:
        target = self._made(path)
        if not (target.exists() and target.samefile(local)):
            with local.open("rb") as source:
                _replace(target, source)

    def take(self, path: str, local: Path) -> None:
        try:
            local.replace(self._made(path))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            CampaignStorage.take(self, path, local)

    def download(self, path: str, local: Path) -> bool:
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
        found = (self.folder / folder).rglob("*")
        # Files that are being written begin with a dot.
        files = (path for path in found if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self.folder).as_posix() for path in files)

    def _made(self, path: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


@dataclass(frozen=True, slots=True)
class BucketStorage(CampaignStorage):
    """A folder of a bucket. `system` is a pyarrow.fs.FileSystem, `root` the bucket and the path in it; `name` is the
    url without what may be secret in it.
    """

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

    def download(self, path: str, local: Path) -> bool:
        def read(source: Any) -> bool:
            _replace(local, source)
            return True

        return self._read(path, read) or False

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.system.delete_file(self._key(path))

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs  # noqa: PLC0415 - only those who keep campaigns elsewhere have it

        found = self.system.get_file_info(fs.FileSelector(self._key(folder), recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"{self.root}/") for one in found if one.type == fs.FileType.File)

    def _read(self, path: str, read: Callable[[Any], T]) -> T | None:
        """Read an object; None where there is none. pyarrow asks for its size, and then for its parts: one that was
        replaced in between comes as parts of both, and is read again.
        """
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


def _bucket_storage(place: str) -> BucketStorage:
    parts = urlsplit(place)
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"{name}: a campaign is kept in a folder, or at s3://BUCKET/PATH or gs://BUCKET/PATH")
    require("pyarrow", "parquet", f"a campaign at {name}")
    from pyarrow import fs  # noqa: PLC0415 - as above

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
    """Replace a file by what can be read from `source`."""
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
