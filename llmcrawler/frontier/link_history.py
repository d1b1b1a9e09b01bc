"""Restores what earlier runs of a job have learned of its links, from the job's file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from llmcrawler.frontier.focused_crawl import FocusedCrawl
from llmcrawler.storage import JobConnection, unpack

_FETCHED = 'u."group" != 0 AND p.seq IS NOT NULL'


def restore_link_scorer(connection: JobConnection, focused_crawl: FocusedCrawl) -> None:
    """Train the link scorer on the pages of earlier runs, and count their records. Pages that run again are left out:
    they will be counted then.
    """
    scorer = focused_crawl.scorer
    for (name,) in connection.execute("SELECT name FROM groups ORDER BY id"):
        scorer.restore(name)
    verdicts = connection.execute(
        "SELECT g.name, p.page_type FROM pages p JOIN urls u ON u.id = p.url"  # noqa: S608 - a constant is put in
        f' JOIN groups g ON g.id = u."group" WHERE {_FETCHED} ORDER BY p.seq'
    )
    for group, page_type in verdicts:
        scorer.note_verdict(group, page_type)
    for group, found in _links(connection):
        scorer.note_links(group, found)
    focused_crawl.records = sum(map(focused_crawl.is_record, _wanted_lines(connection, scorer.page_types)))


def _links(connection: JobConnection) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each page that was read, its group and the groups of the links that were new on it, in the order in
    which pages ended. A redirect's target has no entry of its own, so its links are left out.
    """
    rows = connection.execute(
        "SELECT p.seq, g.name, h.name FROM pages p JOIN urls u ON u.id = p.url"  # noqa: S608 - a constant is put in
        ' JOIN groups g ON g.id = u."group" LEFT JOIN referers r ON r.url = u.url'
        ' LEFT JOIN urls c ON c.referer = r.id LEFT JOIN groups h ON h.id = c."group"'
        f" WHERE {_FETCHED} AND p.error_stage IS NULL ORDER BY p.seq"
    )
    for (_seq, group), found in groupby(rows, lambda row: row[:2]):
        yield group, [child for _seq, _group, child in found if child is not None]


def _wanted_lines(connection: JobConnection, page_types: frozenset[str]) -> Iterator[dict[str, Any]]:
    marks = ",".join("?" * len(page_types))
    rows = connection.execute(
        f"SELECT line FROM pages WHERE seq IS NOT NULL AND line IS NOT NULL AND page_type IN ({marks})",  # noqa: S608 - only question marks are put in
        sorted(page_types),
    )
    for (line,) in rows:
        yield json.loads(unpack(line))
