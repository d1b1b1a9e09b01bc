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
from typing import Any, Final, NamedTuple

from filelock import FileLock, Timeout

from llmcrawler.core.content import decode_page, is_binary
from llmcrawler.core.storage import TemplatesFile, replace_file
from llmcrawler.core.storage.archives.archived_pages import (
    INDEXES,
    ArchivedPage,
    open_archive,
    page_at,
    pages_of_warc,
)
from llmcrawler.core.storage.archives.warc_reader import WarcFault, part_starts
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import clean, columns_of
from llmcrawler.core.storage.shared_file import temporary_of
from llmcrawler.core.understanding.page_extractor import LineRules, PageExtractor
from llmcrawler.core.urls import normalise
from llmcrawler.crawl.task_lists import archive_size, archived_pages
from llmcrawler.errors import ConfigError, CrawlFailed, JobBusy, StorageFailed
from llmcrawler.items import Page, PageError

_COLUMNS: Final = columns_of(Page)
STATE: Final = "apply.json"
_PART_BYTES: Final = 16 * 2**20
_PART_ENTRIES: Final = 1_000  # of an index
_ours: list[tuple[Application, PageExtractor]] = []  # of a process of the pool


class ArchivePart(NamedTuple):
    """Pages of one archive that a process makes lines of: those between two offsets, or the `entries` of an index."""

    name: str
    file: str
    start: int = 0
    end: int | None = None
    entries: tuple[ArchivedPage, ...] | None = None

    def pages(self) -> Iterator[ArchivedPage]:
        return pages_of_warc(self.file, self.start, self.end) if self.entries is None else iter(self.entries)


@dataclass(frozen=True, slots=True)
class PartCounts:
    lines: int = 0
    records: int = 0
    errors: int = 0

    def __add__(self, other: PartCounts) -> PartCounts:
        return PartCounts(self.lines + other.lines, self.records + other.records, self.errors + other.errors)

    def __str__(self) -> str:
        return f"{self.lines:,} pages, {self.records:,} with a record, {self.errors:,} with an error"


@dataclass(frozen=True)
class Application:
    """Makes the lines of `archives` by `templates`, written into the folder `out` in this `form` (jsonl or parquet).
    The files of an index are below `root`.
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
            with open_archive(file) as opened:
                starts = part_starts(opened, self.part_bytes, reads_heads="://" not in file)
            for number, (start, end) in enumerate(zip_longest(starts, starts[1:])):
                yield ArchivePart(self._name(at, number), file, start, end)

    def _name(self, archive: int, number: int) -> str:
        return f"part-{archive:05}-{number:05}.{self.form}"

    def claim_folder(self) -> None:
        """Write down what the folder is for, which all runs have in common. Raises ConfigError where that is something
        else.
        """
        identity = {
            "archives": [[file, archive_size(file)] for file in self.archives],
            "templates": blake2b(self.templates.path.read_bytes(), digest_size=8).hexdigest(),
            "rules": blake2b(repr(self.rules).encode(), digest_size=8).hexdigest(),
            "form": self.form,
            "root": self.root,
            "part_bytes": self.part_bytes,
        }
        state = self.out / STATE
        if not state.exists():
            if any(self.out.glob("part-*")):
                raise ConfigError(f"{self.out}: it contains parts of something else; name another folder")
            replace_file(state, json.dumps(identity, indent=1).encode())
            return
        try:
            before = json.loads(state.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        changed = next((name for name, value in identity.items() if before.get(name) != value), None)
        if changed:
            raise ConfigError(f"{self.out}: it has lines of other {changed}; name another folder, or remove it")


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
            work.claim_folder()
            parts = list(work.parts())
            left = [one for one in parts if not (work.out / one.name).exists()]
            counts, done = PartCounts(), len(parts) - len(left)
            with closing(PageExtractor(work.templates, work.rules)) as extractor:
                for found in _counts_of(work, extractor, left, processes):
                    counts, done = counts + found, done + 1
                    on_part(counts, done, len(parts))
            return counts
    except Timeout:
        raise JobBusy(f"{work.out}: another process writes there") from None
    except OSError as error:
        raise StorageFailed(f"{work.out}: {error.strerror or error}") from error


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
            raise CrawlFailed(
                1, "a process died, perhaps out of memory; run the same command again to continue"
            ) from error
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
            table = None
            if path.suffix == ".parquet":
                table = ParquetFile(out, [(column.name, column) for column in _COLUMNS])

            def write(line: dict[str, Any]) -> None:
                if table is None:
                    out.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")
                else:
                    table.add([line[column.name] for column in _COLUMNS])

            try:
                counts = asyncio.run(_write_lines(extractor, pages, write))
            except WarcFault as error:
                raise ConfigError(f"{file}: {error}") from error
            if table is not None:
                table.close()
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return counts


async def _write_lines(
    extractor: PageExtractor, pages: Iterator[ArchivedPage], write: Callable[[dict[str, Any]], None]
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
        stored = archived.page or page_at(archived.place) if archived.place else archived.page
    except (WarcFault, OSError) as error:
        return Page(url, error=PageError("fetch", "body", f"{archived.place}: {error}"))
    assert stored is not None
    assert stored.body is not None
    status, kind = stored.status, stored.header("content-type")
    if not 200 <= status < 300:
        phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else "Unknown Status"
        page = Page(url, error=PageError("fetch", f"http_{status}", f"{status} {phrase}"))
    elif is_binary(stored.body):
        page = Page(url, error=PageError("fetch", "not_html", f"not a web page: {kind or 'unknown'}"))
    else:
        page = await extractor.page_of(decode_page(stored.body, kind), url)
    page.status, page.fetched_at = status, stored.fetched_at or None
    return page
