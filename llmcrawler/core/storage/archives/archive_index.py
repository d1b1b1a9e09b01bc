"""Reads indexes of WARC files: CDX with 11 columns, CDXJ as pywb and Common Crawl write it, and answers of CDX servers:
a JSON object a line, or (Wayback) an array of arrays with the names first.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from posixpath import dirname, join, normpath
from typing import Any, Final, NamedTuple

from llmcrawler.core.storage.archives.archive_files import open_archive
from llmcrawler.core.storage.archives.archived_pages import ArchivedPage, RecordPlace, may_be_page
from llmcrawler.core.storage.archives.warc_reader import WarcFault

INDEXES: Final = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_MAX_LINE: Final = 2**20
# The letters of a CDX file's columns, in its first line: iipc.github.io/warc-specifications/specifications/cdx-format
_COLUMNS: Final = {"a": "url", "m": "mime", "s": "status", "S": "length", "V": "offset", "g": "filename"}
_WAYBACK: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}
_FORMS: Final = "it is neither CDXJ (a key, a date and a JSON object) nor CDX (a first line names its columns)"


class IndexEntry(NamedTuple):
    """What a line says of a capture, by names of CDXJ; or the `fault` of a line that says nothing."""

    line: int
    values: dict[str, Any]
    fault: str = ""

    def page(self) -> tuple[str, int] | None:
        """Return url and status (200 where it is not said) of a page; None for a capture of anything else."""
        url, status = str(self.values.get("url", "")), str(self.values.get("status", "-"))
        mime, code = str(self.values.get("mime", "-")), int(status) if status.isdecimal() and len(status) == 3 else 200
        is_page = mime != "warc/revisit" and may_be_page(code, None if mime in ("-", "unk") else mime)
        return (url, code) if is_page and url.startswith(("http:", "https:")) else None


def pages_of_index(file: str, root: str = "") -> Iterator[ArchivedPage]:
    """Yield the pages that an index names, without reading them. Its files are those below `root`, a folder or a url;
    without one they are beside the index. Raises WarcFault where the index cannot be read.
    """
    root = root or dirname(file)
    for entry in entries_of_file(file):
        found, fault = entry.page(), entry.fault
        try:
            place = None if found is None else _place_of(entry.values, root)
        except ValueError as error:
            fault = str(error)
        if fault:
            yield ArchivedPage(file, None, fault=f"{file} line {entry.line:,}: {fault}")
        elif found is not None:
            yield ArchivedPage(found[0], place)


def entries_of_file(file: str) -> Iterator[IndexEntry]:
    """Raises WarcFault where the file cannot be read."""
    with open_archive(file) as opened:
        raw: Any = opened
        text = gzip.GzipFile(fileobj=raw) if file.endswith(".gz") else io.BufferedReader(raw)
        try:
            yield from entries_in(text.readline)
        except (OSError, EOFError, zlib.error) as error:
            raise WarcFault(f"it cannot be read further: {error}") from error


def entries_in(read_line: Callable[[int], bytes]) -> Iterator[IndexEntry]:
    """Yield the entries of lines, of which each is read up to so many bytes."""
    columns: list[str] = []
    is_cdx = False
    for number, line in enumerate(iter(lambda: read_line(_MAX_LINE), b""), 1):
        words = line.decode("utf-8", "replace").strip()
        if words.startswith("CDX "):
            columns, is_cdx = [_COLUMNS.get(letter, letter) for letter in words.split()[1:]], True
        elif is_cdx and words:
            yield _entry(number, dict(zip(columns, words.split(), strict=False)))
        elif words.strip("[],") and not words.startswith("!"):
            try:
                rows = _rows(words)
            except (ValueError, RecursionError) as error:
                yield IndexEntry(number, {}, str(error))
                continue
            for row in rows:
                if isinstance(row, dict):
                    yield _entry(number, row)
                elif columns:
                    yield _entry(number, dict(zip(columns, row, strict=False)))
                else:
                    columns = [_WAYBACK.get(str(name), str(name)) for name in row]


def _entry(line: int, values: dict[str, Any]) -> IndexEntry:
    return IndexEntry(line, values, "" if "url" in values else "it names no url")


def _rows(words: str) -> list[dict[str, Any] | list[Any]]:
    """Return what a line has: an object, or rows of an array that goes on over many lines."""
    text = words.removesuffix(",")
    if text.startswith("["):
        text = text[text.startswith("[[") :]
        text = text[: len(text) - text.endswith("]]")]
    elif not text.startswith("{"):
        text = text.split(None, 2)[-1]
    if not text.startswith(("{", "[")):
        raise ValueError(_FORMS)
    try:
        rows = json.loads(f"[{text}]")
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not all(isinstance(row, dict | list) for row in rows):
        raise ValueError(_FORMS)
    return list(rows)


def _place_of(entry: dict[str, Any], root: str) -> RecordPlace:
    """Return where the record of an entry stands. Raises ValueError where it does not say."""
    try:
        offset, length, name = int(entry["offset"]), int(entry["length"]), str(entry["filename"])
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError("it has no offset, length and filename of its record") from error
    if offset < 0 or length <= 0 or "://" in name or normpath(name).startswith(("/", "..")):
        raise ValueError(f"its record cannot be at {name[:200]!r}, {offset}, {length}")
    return RecordPlace(join(root, normpath(name)), offset, length)
