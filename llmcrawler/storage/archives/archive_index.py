"""Reads indexes of WARC files: CDXJ, as pywb and Common Crawl write it, and CDX with 11 columns."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from typing import Any, Final

from llmcrawler.storage.archives.archive_files import open_archive
from llmcrawler.storage.archives.archived_pages import ArchivedPage, RecordPlace, may_be_page
from llmcrawler.storage.archives.warc_reader import WarcFault

INDEXES: Final = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_MAX_LINE: Final = 2**20
# The letters of a CDX file's columns, in its first line: iipc.github.io/warc-specifications/specifications/cdx-format
_COLUMNS: Final = {"a": "url", "m": "mime", "s": "status", "S": "length", "V": "offset", "g": "filename"}


def pages_of_index(file: str, root: str = "") -> Iterator[ArchivedPage]:
    """Yield the pages that an index names, without reading them. Its files are those below `root`, a folder or a url;
    without one they are beside the index. Raises WarcFault where the index cannot be read.
    """
    root = root or dirname(file)
    columns: list[str] | None = None
    with open_archive(file) as opened:
        raw: Any = opened
        text = gzip.GzipFile(fileobj=raw) if file.endswith(".gz") else io.BufferedReader(raw)
        try:
            for number, line in enumerate(iter(lambda: text.readline(_MAX_LINE), b""), 1):
                words = line.decode("utf-8", "replace").strip()
                if words.startswith("CDX "):
                    columns = [_COLUMNS.get(letter, letter) for letter in words.split()[1:]]
                elif words and not words.startswith("!"):
                    try:
                        page = _page_of(_entry(words, columns), root)
                    except (ValueError, RecursionError) as error:
                        page = ArchivedPage(file, None, fault=f"{file} line {number:,}: {error}")
                    if page is not None:
                        yield page
        except (OSError, EOFError, zlib.error) as error:
            raise WarcFault(f"it cannot be read further: {error}") from error


def _entry(line: str, columns: list[str] | None) -> dict[str, Any]:
    if columns is not None:
        return dict(zip(columns, line.split(), strict=False))
    start = line.find("{")
    try:
        found = json.loads(line[start:]) if start >= 0 else None
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(
            "it is neither CDXJ (a key, a date and a JSON object) nor CDX (a first line names its columns)"
        )
    return found


def _page_of(entry: dict[str, Any], root: str) -> ArchivedPage | None:
    """Return the page of an entry; None where it is none. Raises ValueError where it does not say where it stands."""
    url, status = str(entry.get("url", "")), str(entry.get("status", "-"))
    mime = str(entry.get("mime", "-"))
    if mime == "warc/revisit" or not url.startswith(("http:", "https:")):
        return None
    if not may_be_page(int(status) if status.isdigit() else 200, None if mime in ("-", "unk") else mime):
        return None
    try:
        offset, length, name = int(entry["offset"]), int(entry["length"]), str(entry["filename"])
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError("it has no offset, length and filename of its record") from error
    if offset < 0 or length <= 0 or "://" in name or normpath(name).startswith(("/", "..")):
        raise ValueError(f"its record cannot be at {name[:200]!r}, {offset}, {length}")
    return ArchivedPage(url, RecordPlace(join(root, normpath(name)), offset, length))
