"""Makes lines of all pages of web archives, in parts: each is a file that is there as a whole or not at all.

A part is a range of bytes of an archive, or some entries of an index, which a process reads by itself: nothing of a
page goes from process to process, and each has one page at a time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from itertools import islice, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from filelock import FileLock, Timeout

from llmcrawler.core.content import decode_page, is_binary
from llmcrawler.core.storage import StoredBody, TemplatesFile, replace_file
from llmcrawler.core.storage.archives.archived_pages import (
    INDEXES,
    ArchivedPage,
    is_jobdir,
    open_archive,
    ranges_of_job,
)
from llmcrawler.core.storage.archives.warc_reader import WarcFault, part_starts
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import clean, columns_of
from llmcrawler.core.storage.shared_file import temporary_of
from llmcrawler.core.understanding.page_extractor import LineRules, PageExtractor
from llmcrawler.core.urls import normalise
from llmcrawler.crawl.task_lists import archive_size, archived_pages, pages_between, read_place
from llmcrawler.errors import ConfigError, CrawlFailed, JobBusy, StorageFailed
from llmcrawler.items import Page, PageError

_COLUMNS: Final = columns_of(Page)
STATE: Final = "apply.json"
_PART_BYTES: Final = 16 * 2**20
_PART_ENTRIES: Final = 1_000  # of an index, or of a job
_ours: list[tuple[Application, PageExtractor]] = []  # of a process of the pool


class ArchivePart(NamedTuple):
    """Pages of one archive that a process makes lines of: those between two offsets, of a job two of its lines; or the
    `entries` of an index.
    """

    name: str
    file: str
    start: int = 0
    end: int | None = None
    entries: tuple[ArchivedPage, ...] | None = None

    def pages(self) -> Iterator[ArchivedPage]:
        return pages_between(self.file, self.start, self.end) if self.entries is None else iter(self.entries)


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of lines, of those with a record, and of those with an error."""

    lines: int = 0
    records: int = 0
    errors: int = 0

    def __add__(self, other: PartCounts) -> PartCounts:
        return PartCounts(self.lines + other.lines, self.records + other.records, self.errors + other.errors)

    def __str__(self) -> str:
        return f"{self.lines:,} pages, {self.records:,} with a record, {self.errors:,} with an error"


@dataclass(frozen=True)
class Application:
    """What is to be done: the lines of `archives` by `templates`, written into the folder `out` in this `form` (jsonl
    or parquet). The files of an index are below `root`.
    """

    templates: TemplatesFile
    archives: tuple[str, ...]
    out: Path
    rules: LineRules
    form: str = "jsonl"
    root: str = ""
    part_bytes: int = _PART_BYTES

    def parts(self) -> Iterator[ArchivePart]:
        """Yield the parts of all archives in their order, the same each time. Raises ConfigError."""
        for at, file in enumerate(self.archives):
            if file.endswith(INDEXES):
                pages = archived_pages((file,), self.root)
                number = 0
                while entries := tuple(islice(pages, _PART_ENTRIES)):
                    yield ArchivePart(self._name(at, number), file, entries=entries)
                    number += 1
                continue
            if is_jobdir(file):
                for number, (after, until) in enumerate(ranges_of_job(file, _PART_ENTRIES)):
                    yield ArchivePart(self._name(at, number), file, after, until)
                continue
            with open_archive(file) as opened:
                starts = part_starts(opened, self.part_bytes, reads_heads="://" not in file)
            for number, (start, end) in enumerate(zip_longest(starts, starts[1:])):
                yield ArchivePart(self._name(at, number), file, start, end)

    def _name(self, archive: int, number: int) -> str:
        return f"part-{archive:05}-{number:05}.{self.form}"

    def identity(self) -> dict[str, Any]:
        """Return what two runs must have in common, as plain JSON."""
        archives = [[file, archive_size(file)] for file in self.archives]
        learned = blake2b(self.templates.path.read_bytes(), digest_size=8).hexdigest()
        rules = blake2b(repr(self.rules).encode(), digest_size=8).hexdigest()
        own = {"form": self.form, "root": self.root, "part_bytes": self.part_bytes}
        return {"archives": archives, "templates": learned, "rules": rules, **own}


def apply_archives(
    work: Application, processes: int, on_part: Callable[[PartCounts, int, int], None] = lambda *_: None
) -> PartCounts:
    """Do what is not done yet, and return the counts of this run. `on_part` gets the counts so far, how many parts are
    done, and of how many. Raises ConfigError for a folder of other work, JobBusy while another one works there,
    StorageFailed where the disk takes no more, CrawlFailed where a process died; the same call goes on after each.
    """
    work.out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work.out / ".lock", timeout=0):
            _claim(work)
            return _apply(work, processes, on_part)
    except Timeout:
        raise JobBusy(f"{work.out}: another process writes there") from None
    except OSError as error:
        raise StorageFailed(f"{work.out}: {error.strerror or error}") from error


def _claim(work: Application) -> None:
    """Write down what the folder is for. Raises ConfigError where that is something else."""
    state, identity = work.out / STATE, work.identity()
    if not state.exists():
        if any(work.out.glob("part-*")):
            raise ConfigError(f"{work.out}: it has parts of something else; name another folder")
        replace_file(state, json.dumps(identity, indent=1).encode())
        return
    try:
        before = json.loads(state.read_text(encoding="utf-8"))
    except ValueError:
        before = {}
    if before != identity:
        changed = next((name for name, value in identity.items() if before.get(name) != value), "")
        raise ConfigError(f"{work.out}: it has lines of other {changed}; name another folder, or remove it")


def _apply(work: Application, processes: int, on_part: Callable[[PartCounts, int, int], None]) -> PartCounts:
    parts = list(work.parts())
    open_parts = [one for one in parts if not (work.out / one.name).exists()]
    counts, done = PartCounts(), len(parts) - len(open_parts)
    with closing(PageExtractor(work.templates, work.rules)) as extractor:
        for found in _counts_of(work, extractor, open_parts, processes):
            counts, done = counts + found, done + 1
            on_part(counts, done, len(parts))
    return counts


def _counts_of(
    work: Application, extractor: PageExtractor, parts: Sequence[ArchivePart], processes: int
) -> Iterator[PartCounts]:
    if processes == 1 or len(parts) < 2:
        for part in parts:
            yield write_part(extractor, part.pages(), part.file, work.out / part.name)
        return
    # What was read of the templates is shared with forked processes; elsewhere than on Linux a fork is not safe.
    method = "fork" if sys.platform == "linux" else "spawn"
    gc.freeze()
    with ProcessPoolExecutor(
        min(processes, len(parts)), get_context(method), _begin, (work, extractor if method == "fork" else None)
    ) as pool:
        try:
            running: list[Future[PartCounts]] = [pool.submit(_work_on, part) for part in parts]
            yield from (one.result() for one in as_completed(running))
        except BrokenProcessPool as error:
            raise CrawlFailed(1, "a process died, perhaps for want of memory; the same command goes on") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(work: Application, extractor: PageExtractor | None) -> None:
    gc.set_threshold(20_000, 20, 20)
    _ours[:] = [(work, extractor or PageExtractor(work.templates, work.rules))]


def _work_on(part: ArchivePart) -> PartCounts:
    ((work, extractor),) = _ours
    return write_part(extractor, part.pages(), part.file, work.out / part.name)


def write_part(extractor: PageExtractor, pages: Iterator[ArchivedPage], file: str, path: Path) -> PartCounts:
    """Write a line for each page of the archive `file`; the file at `path` is there when all of them are in it. Raises
    OSError where the disk takes no more, ConfigError where the archive is none.
    """
    temporary = temporary_of(path)
    try:
        with temporary.open("wb") as out:
            write, end = _parquet_into(out) if path.suffix == ".parquet" else _json_lines_into(out)
            try:
                counts = asyncio.run(_write(extractor, pages, write))
            except WarcFault as error:
                raise ConfigError(f"{file}: {error}") from error
            end()
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return counts


async def _write(
    extractor: PageExtractor, pages: Iterator[ArchivedPage], write: Callable[[dict[str, Any]], object]
) -> PartCounts:
    lines = records = errors = 0
    for one in pages:
        page = await _page_of(extractor, one)
        write(clean(page.as_line()))
        lines += 1
        records += page.record is not None
        errors += page.error is not None
    return PartCounts(lines, records, errors)


async def _page_of(extractor: PageExtractor, archived: ArchivedPage) -> Page:
    url = normalise(archived.url) or archived.url
    if archived.fault:
        return Page(url, error=PageError("fetch", "body", archived.fault))
    try:
        stored = archived.page or read_place(archived.place) if archived.place else archived.page
    except (WarcFault, OSError) as error:
        return Page(url, error=PageError("fetch", "body", f"{archived.place}: {error}"))
    assert stored is not None
    page = await _read(extractor, stored, url)
    page.status, page.fetched_at = stored.status, stored.fetched_at or None
    return page


async def _read(extractor: PageExtractor, stored: StoredBody, url: str) -> Page:
    assert stored.body is not None
    if not 200 <= stored.status < 300:
        return Page(url, error=PageError("fetch", f"http_{stored.status}", _phrase(stored.status)))
    kind = stored.header("content-type")
    if is_binary(stored.body):
        return Page(url, error=PageError("fetch", "not_html", f"not a web page: {kind or 'unknown'}"))
    return await extractor.page_of(decode_page(stored.body, kind), url)


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown Status"


def _json_lines_into(out: BinaryIO) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object]]:
    def write(line: dict[str, Any]) -> None:
        out.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")

    return write, lambda: None


def _parquet_into(out: BinaryIO) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object]]:
    file = ParquetFile(out, [(column.name, column) for column in _COLUMNS])
    return (lambda line: file.add([line[column.name] for column in _COLUMNS])), file.close
