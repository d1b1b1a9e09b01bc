"""Cuts the feed files of a job back to what they held before, as a resumed run writes all lines again."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from llmcrawler.core.storage.feeds import INDEX, sweep

_PLACEHOLDER = re.compile(r"%\(\w+\)[-+ #0]*\d*\w")  # of Scrapy's feed uris

logger = logging.getLogger(__name__)


def note_feed_file(connection: sqlite3.Connection, path: Path, offset: int, place: os.stat_result) -> None:
    """Note that a feed's file was opened, with `offset` bytes in it that are not of this job."""
    connection.execute(
        "INSERT OR REPLACE INTO feeds VALUES (?, ?, ?, ?)", (str(path), offset, place.st_dev, place.st_ino)
    )


def truncate_feeds(connection: sqlite3.Connection, feeds: Iterable[str] | None = None) -> None:
    """Cut the files back to what they held before the job, but leave alone those that have been replaced since.
    `feeds`: cut only files that these uris may name.
    """
    wanted = None if feeds is None else [_pattern_of(uri) for uri in feeds]
    for name, offset, device, inode in connection.execute("SELECT path, offset, device, inode FROM feeds").fetchall():
        path = Path(name)
        feed = str(path.parent if path.name == INDEX else path)
        if wanted is not None and not any(pattern.fullmatch(feed) for pattern in wanted):
            continue
        try:
            place = path.stat()
            if (place.st_dev, place.st_ino) == (device, inode) and place.st_size >= offset:
                _cut(path, offset)
                if path.name == INDEX:
                    sweep(path.parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("%s cannot be cut back to what it held before this job: %s", path, error)
    connection.execute("DELETE FROM feeds")


def _pattern_of(uri: str) -> re.Pattern[str]:
    """Return the pattern of the absolute paths that a feed uri with placeholders may name."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path) if parts.scheme == "file" else uri).absolute()
    return re.compile(".*".join(map(re.escape, _PLACEHOLDER.split(str(path)))), re.DOTALL)


def _cut(path: Path, offset: int) -> None:
    if offset:
        os.truncate(path, offset)
    else:
        path.unlink()
