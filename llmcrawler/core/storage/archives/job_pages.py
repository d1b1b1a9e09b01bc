"""Reads the pages whose bodies a job keeps as those of an archive, in the order of its lines. Of pages with an error
status it keeps none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from llmcrawler.core.storage.archives.archived_pages import ArchivedPage, RecordPlace
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.ledger import BODY_COLUMNS, StoredBody, body_of_row
from llmcrawler.errors import ConfigError

_KEPT: Final = "bodies b JOIN urls u ON u.id = b.url JOIN (SELECT url AS page, seq FROM pages) p ON p.page = b.url"
_PAGES: Final = f"SELECT u.id, u.url, {BODY_COLUMNS} FROM {_KEPT} WHERE b.body IS NOT NULL"  # noqa: S608 - names of columns
_SEQS: Final = f"SELECT p.seq FROM {_KEPT} WHERE b.body IS NOT NULL AND p.seq IS NOT NULL ORDER BY p.seq"  # noqa: S608 - likewise
_LOST: Final = "its body cannot be unpacked: its dictionary is damaged"


def is_jobdir(archive: str) -> bool:
    return "://" not in archive and Path(archive).is_dir()


def size_of_job(folder: str) -> int:
    """Return a number that grows with each line of a job. Raises ConfigError where there is none, or it has no pages
    to read.
    """
    with open_snapshot(Path(folder)) as connection:
        seqs = connection.execute(f"{_SEQS} DESC LIMIT 1").fetchone()
    if seqs is None:
        raise ConfigError(f"{folder}: the job keeps no pages: it has fetched none, or without STORE_BODIES")
    return int(seqs[0])


def ranges_of_job(folder: str, pages: int) -> list[tuple[int, int]]:
    """Return the ranges of so many pages each that a job's lines fall into, for `pages_of_job`."""
    with open_snapshot(Path(folder)) as connection:
        seqs = [seq for (seq,) in connection.execute(_SEQS)]
    return list(pairwise([0, *seqs[pages - 1 : -1 : pages], seqs[-1]]))


def pages_of_job(folder: str, after: int = 0, until: int | None = None) -> Iterator[ArchivedPage]:
    """Yield the pages whose lines are in (after, until]."""
    query = f"{_PAGES} AND p.seq > ? AND p.seq <= ? ORDER BY p.seq"
    with open_snapshot(Path(folder)) as connection:
        last = size_of_job(folder) if until is None else until
        for number, url, *row in connection.execute(query, (after, last)):
            body, place = body_of_row(connection, url, row), RecordPlace(folder, number, 0)
            if body is None:
                yield ArchivedPage(url, None, fault=_LOST)
            else:
                yield ArchivedPage(body.url, place, body)


def page_of_job(place: RecordPlace) -> StoredBody:
    """Read a page. Raises WarcFault where the job does not keep it any more."""
    with open_snapshot(Path(place.file)) as connection:
        row = connection.execute(f"{_PAGES} AND b.url = ?", (place.offset,)).fetchone()
        body = None if row is None else body_of_row(connection, row[1], row[2:])
    if body is None:
        raise WarcFault("the job does not keep it any more" if row is None else _LOST)
    return body
