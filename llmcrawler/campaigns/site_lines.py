"""Takes the lines of a bundle's crawl out of its JOBDIR: a file for each site, and what became of the site.

The lines are read from the job's ledger, where each url has one, however often the crawl was begun; and each file is
put in its place as a whole. So this may be done again at any time, and whatever ended it before.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from llmcrawler.campaigns.campaign_file import SiteOutcome
from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.campaigns.sites_file import Bundle
from llmcrawler.core.storage import SPENT, State, read_value
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import clean, columns_of
from llmcrawler.core.storage.job_file import JOB_FILE, JobConnection
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.ledger import line_of_row, read_lines
from llmcrawler.core.storage.shared_file import temporary_of
from llmcrawler.core.urls import site_name
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page

FORMATS: Final = ("jsonl", "parquet")
PAGES_FOLDER: Final = "pages"
_LINES_AT_ONCE: Final = 200
_FILES_AT_ONCE: Final = 8
_MAX_REASON: Final = 300
_COLUMNS: Final = columns_of(Page)


@dataclass
class _SiteLines:
    """The lines of one site as they come. Its file is a temporary one until `finish`."""

    folder: Path
    name: str  # of its file
    counts: Counter[str] = field(default_factory=Counter)
    asked: set[str] = field(default_factory=set)  # templates, and single pages, that the model was asked about
    start_error: str = ""
    has_start: bool = False
    first: float | None = None
    last: float | None = None
    _file: IO[bytes] | None = None
    _parquet: ParquetFile | None = None

    def take(self, line: Mapping[str, Any], finished: float) -> None:
        if self._file is None:
            path = self.folder / self.name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = temporary_of(path).open("wb")
            if path.suffix == ".parquet":
                self._parquet = ParquetFile(self._file, [(column.name, column) for column in _COLUMNS])
        if self._parquet is None:
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        else:
            self._parquet.add([clean(line.get(column.name)) for column in _COLUMNS])
        error = line.get("error") or {}
        self.counts["errors" if error else "pages"] += 1
        self.counts["records"] += line.get("record") is not None
        sources = (line.get("decided_by"), line.get("record_by"))
        if "llm" in sources:
            self.asked.add(str(line.get("url")))
        elif "template" in sources:
            self.asked.add(str(line.get("template")))
        if line.get("depth") == 0:
            self.has_start = True
            if error.get("stage") == "fetch":
                self.start_error = f"{error.get('kind')}: {error.get('message')}"[:_MAX_REASON]
        self.first, self.last = self.first or finished, finished

    def finish(self, storage: CampaignStorage) -> None:
        """Put the file in its place; one of an earlier round goes where there are no lines any more."""
        if self._file is None:
            storage.delete(self.name)
            return
        if self._parquet is not None:
            self._parquet.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        storage.take(self.name, temporary_of(self.folder / self.name))

    def drop(self) -> None:
        if self._file is not None and not self._file.closed:
            self._file.close()
            temporary_of(self.folder / self.name).unlink(missing_ok=True)


def take_lines(  # noqa: PLR0913 - where from, what, where to, and how
    jobdir: Path, bundle: Bundle, folder: Path, storage: CampaignStorage, *, form: str, failure: str
) -> list[SiteOutcome]:
    """Put the files of a bundle's sites into the storage; `failure`: why it was given up, or "". Raises OSError."""
    lines = {one.name: _SiteLines(folder, file_of(one.name, form)) for one in bundle.sites}
    with ExitStack() as drops:
        for one in lines.values():
            drops.callback(one.drop)
        try:
            if not (jobdir / JOB_FILE).exists():
                raise ConfigError(failure)  # its crawl has never begun, or its saved job could not be brought
            spent, unfinished = _share_out(jobdir, lines)
        except ConfigError as error:  # what there is of earlier rounds stays
            return [_outcome(name, _SiteLines(folder, ""), 0.0, {}, str(error)) for name in lines]
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:  # most of their time is waiting
            for _done in pool.map(lambda one: one.finish(storage), lines.values()):
                pass
    asked = sum(len(one.asked) for one in lines.values())
    found = sum(one.counts["pages"] for one in lines.values())
    outcomes = []
    for name, one in lines.items():
        is_whole = one.has_start and (name not in unfinished or one.counts["pages"] >= bundle.max_pages)
        # What was spent on the model is shared by what it was asked about.
        share = len(one.asked) / asked if asked else one.counts["pages"] / max(found, 1)
        outcomes.append(_outcome(name, one, share, spent, "" if is_whole else failure))
    return outcomes


def _share_out(jobdir: Path, lines: Mapping[str, _SiteLines]) -> tuple[Mapping[str, float], set[str]]:
    """Give each site its lines. Return what was spent on the model, and the sites that have urls queued yet."""
    with open_snapshot(jobdir) as connection:
        owners = _owners(connection, [*lines])
        first = next(iter(lines))  # no line is left out, whatever host it may be of
        for line, finished in _lines(connection):
            lines[owners.get(site_name(str(line.get("url"))), first)].take(line, finished)
        hosts = "SELECT DISTINCT h.name FROM urls u JOIN hosts h ON h.id = u.host WHERE u.state IN (?, ?)"
        waiting = connection.execute(hosts, (State.QUEUED, State.LEASED)).fetchall()
        return read_value(connection, SPENT, {}), {owners.get(site_name(f"//{host}"), first) for (host,) in waiting}


def _owners(connection: JobConnection, names: Sequence[str]) -> dict[str, str]:
    """Return sites by their hosts: a start that leads to another host takes that in, as the crawl does."""
    owners = {name: name for name in names}
    starts = (
        "SELECT u.url, b.final_url, u.id, p.line, p.crc FROM urls u LEFT JOIN pages p ON p.url = u.id"
        " LEFT JOIN bodies b ON b.url = u.id WHERE u.referer IS NULL AND u.depth = 0"
    )
    for url, final_url, *row in connection.execute(starts):
        owner = owners.get(site_name(url))
        target = final_url or (line_of_row(connection, *row).get("final_url") if row[1] else None)
        if owner is not None and target:
            owners.setdefault(site_name(str(target)), owner)
    return owners


def file_of(site: str, form: str) -> str:
    """Return the path of a site's file in the campaign's folder, named as Hive, and pyarrow, name partitions."""
    return f"{PAGES_FOLDER}/site={quote(site, safe='')}/pages.{form}"


def _lines(connection: JobConnection) -> Iterator[tuple[dict[str, Any], float]]:
    last = 0
    while some := read_lines(connection, last, 2**62, _LINES_AT_ONCE):
        ends = dict(
            connection.execute("SELECT seq, finished FROM pages WHERE seq > ? AND seq <= ?", (last, some[-1][0]))
        )
        last = some[-1][0]
        yield from ((line, ends[seq]) for seq, line in some)


def _outcome(name: str, one: _SiteLines, share: float, spent: Mapping[str, float], failure: str) -> SiteOutcome:
    if failure or not one.has_start:
        outcome, reason = "failed", failure or "its start url has no line"
    elif one.start_error:
        outcome, reason = "unreachable", one.start_error
    else:
        outcome, reason = "done", ""
    cost = spent.get("cost_usd")
    return SiteOutcome(
        name=name,
        outcome=outcome,
        reason=reason,
        **{kind: one.counts[kind] for kind in ("pages", "records", "errors")},
        calls=round(share * spent.get("calls", 0), 3),
        cost_usd=None if cost is None else round(share * cost, 9),
        file=one.name if one.counts["pages"] or one.counts["errors"] else None,
        started=one.first,
        ended=one.last,
    )
