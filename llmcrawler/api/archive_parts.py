"""Writes the lines of some pages of an archive into a file, as JSON Lines or Parquet."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, Final

from llmcrawler.core.content import decode_page, is_binary
from llmcrawler.core.storage import StoredBody
from llmcrawler.core.storage.archives.archived_pages import ArchivedPage
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import clean, columns_of
from llmcrawler.core.storage.shared_file import temporary_of
from llmcrawler.core.understanding.page_extractor import PageExtractor
from llmcrawler.core.urls import normalise
from llmcrawler.crawl.archive_lists import read_place
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page, PageError

_COLUMNS: Final = columns_of(Page)


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of lines, of those with a record, and of those with an error."""

    lines: int = 0
    records: int = 0
    errors: int = 0

    def __add__(self, other: PartCounts) -> PartCounts:
        return PartCounts(self.lines + other.lines, self.records + other.records, self.errors + other.errors)


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
