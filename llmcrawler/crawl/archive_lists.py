"""The pages of web archives, and those that jobs keep, as a list of what to extract: each task names a record, and is
answered from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import glob, has_magic
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from llmcrawler.core.storage import StoredBody
from llmcrawler.core.storage.archives.archived_pages import (
    INDEXES,
    ArchivedPage,
    RecordPlace,
    is_jobdir,
    open_archive,
    page_at,
    page_of_job,
    pages_of_index,
    pages_of_job,
    pages_of_warc,
    size_of_job,
)
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.crawl.task_lists import ListedTask, TaskList, open_list, read_url
from llmcrawler.errors import ConfigError, install_command

_PLACE: Final = "archived"  # the key of a record's place among a task's details
_SHARED: Final = "it shares a gzip member with others, and cannot be read by itself; `warcio recompress` mends the file"


@dataclass(frozen=True, slots=True)
class ArchiveList:
    """Pages of WARC files, and of indexes of such. `argument` is the user's name for them, for messages; an index's
    files are below `root`. Iterating raises ConfigError where the rest of a file cannot be read.
    """

    files: tuple[str, ...]
    argument: str
    root: str = ""
    kind: Final = "warc"

    @classmethod
    def of(cls, given: str, root: str = "") -> Self:
        """Find the files that the argument `warc` names. Raises ConfigError."""
        files = tuple(archive_files(given))
        if root and not any(file.endswith(INDEXES) for file in files):
            raise ConfigError(
                f"warc_root={root}: it is where the files of an index are, and there is none in warc={given}"
            )
        return cls(files, f"warc={given}", root)

    def __iter__(self) -> Iterator[ListedTask]:
        for page in archived_pages(self.files, self.root):
            yield _task(page)

    def digest(self) -> str:
        """Return what tells these archives from others."""
        sizes = [archive_size(file) for file in self.files]
        return blake2b(repr((self.files, sizes, self.root)).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class CaptureIndex:
    """An index of archives: files of it, or a CDX server. `given` is the user's name for it."""

    given: str
    files: tuple[str, ...] = ()
    server: str = ""

    @classmethod
    def of(cls, given: str) -> Self:
        """Find what the argument `cdx` names. Raises ConfigError."""
        if given.startswith(("http://", "https://")):
            return cls(given, server=read_url(given))
        files = tuple(archive_files(given))
        for file in files:
            if not file.endswith(INDEXES):
                raise ConfigError(f"cdx={file}: it is no index: {', '.join(INDEXES)}, or the url of a CDX server")
        return cls(given, files)

    def __str__(self) -> str:
        return self.given


def archive_files(given: str) -> list[str]:
    """Return the files that an argument names: paths and urls with commas between them, and patterns as *.warc.gz; and
    JOBDIRs. Raises ConfigError where one of them cannot be read.
    """
    files: list[str] = []
    for name in filter(None, map(str.strip, given.split(","))):
        is_pattern = "://" not in name and has_magic(name) and not Path(name).exists()
        found = sorted(glob(name)) if is_pattern else [name]  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not found:
            raise ConfigError(f"{name}: no such files")
        files += found
    for file in files:
        try:
            archive_size(file)
        except OSError as error:
            raise ConfigError(f"{file}: it cannot be read: {error.strerror or error}") from error
        except ImportError as error:
            raise ConfigError(f"{file}: it is read with pyarrow: {install_command('parquet')}") from error
    return files


def archive_size(file: str) -> int:
    """Return the size of a file, or of a job. Raises OSError, or ConfigError for a job without pages."""
    if is_jobdir(file):
        return size_of_job(file)
    with open_archive(file) as opened:
        return opened.seek(0, 2)


def archived_pages(files: tuple[str, ...], root: str = "") -> Iterator[ArchivedPage]:
    """Yield the pages of archives, file by file. Raises ConfigError where the rest of one cannot be read."""
    for file in files:
        try:
            yield from pages_of_index(file, root) if file.endswith(INDEXES) else pages_between(file)
        except (WarcFault, OSError) as error:
            raise ConfigError(f"{file}: {error}") from error


def pages_between(archive: str, start: int = 0, end: int | None = None) -> Iterator[ArchivedPage]:
    """Yield the pages of a WARC file that begin between two offsets, or of a job between two of its lines."""
    return (pages_of_job if is_jobdir(archive) else pages_of_warc)(archive, start, end)


def read_place(place: RecordPlace) -> StoredBody:
    """Read a page. Raises WarcFault where there is none, OSError where the archive cannot be read."""
    return (page_of_job if is_jobdir(place.file) else page_at)(place)


def place_of(details: dict[str, Any]) -> RecordPlace | None:
    """Return the record that answers a task, by the task's details; None for a task of the network."""
    place = details.get(_PLACE)
    return None if place is None else RecordPlace(*place)


def list_of(given: Mapping[str, Any]) -> TaskList | ArchiveList:
    """Find the list that a spider's arguments name. Raises ConfigError where they name none, or several."""
    names = [name for name in ("urls", "tasks", "warc") if name in given]
    if len(names) != 1:
        raise ConfigError(
            f"{' and '.join(names)} are several lists: give one of them"
            if names
            else "no list: say what to fetch with -a urls=FILE (txt, csv or jsonl; - for standard input), "
            "-a tasks=FILE.json or -a warc=FILE.warc.gz"
        )
    if names == ["warc"]:
        _refuse_network(given)
        return ArchiveList.of(str(given["warc"]), str(given.get("warc_root", "")))
    if "warc_root" in given:
        raise ConfigError(f"warc_root={given['warc_root']}: it goes with warc=FILE.cdxj")
    return open_list(names[0], str(given[names[0]]))


def _refuse_network(given: Mapping[str, Any]) -> None:
    """Raise ConfigError where pages of an archive were to be fetched."""
    if given.get("render", NEVER) not in (NEVER, "auto"):
        raise ConfigError(f"render={given['render']}: pages of an archive are as they were, and nothing is fetched")
    if str(given.get("refresh", "0")).lower() not in ("0", "false", "no", "off"):
        raise ConfigError("refresh: an archive does not change; give the urls with -a urls=FILE to fetch them again")


def _task(page: ArchivedPage) -> ListedTask:
    fault = page.fault or ("" if page.place is not None else f"{page.url}: {_SHARED}")
    try:
        url = read_url(page.url) if not fault else page.url
    except ValueError as error:
        url, fault = page.url, str(error)
    return ListedTask(url, fault=fault) if fault else ListedTask(url, json.dumps({_PLACE: page.place}))
