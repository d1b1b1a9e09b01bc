"""Writes pages as CSV, with a column for each field of the records."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter

from llmcrawler.core.storage.feeds.tables import RECORD, FlatTable, as_json, clean, columns_of, neutral
from llmcrawler.core.understanding.extraction.record_schema import completed
from llmcrawler.crawl.context import find_crawl
from llmcrawler.errors import ConfigError
from llmcrawler.exporters.plain import item_columns, line_of
from llmcrawler.items import Page

logger = logging.getLogger(__name__)


class PagesCsvExporter(CsvItemExporter):
    """Writes rows at the end, from a temporary file, as the last page may have a new record field for the header. They
    are written at once where the columns are given: by the `fields` of the feed or the file that is added to. A record
    that was `asked` for has all of its columns, filled or not.
    """

    lines = 0  # taken, the header aside

    def __init__(
        self,
        file: Any,
        *,
        waiting_folder: str | None = None,
        neutralises: bool = True,
        asked: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        columns = columns_there(file) if kwargs.get("fields_to_export") is None else None
        kwargs.setdefault("errors", "replace")  # an encoding of the user's may lack a page's letters
        super().__init__(file, **kwargs)
        self._neutralises = neutralises
        self._asked = asked
        self._table: FlatTable | None = None
        self._waiting: IO[str] | None = None
        self._missing: set[str] = set()
        self._is_added_to = columns is not None
        if columns is not None:
            self.fields_to_export, self.include_headers_line = columns, False
        elif self.fields_to_export is None:
            self._waiting = TemporaryFile("w+", encoding="utf-8", dir=waiting_folder)  # noqa: SIM115 - until the end

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        neutralises = crawler.settings.getbool("CSV_NEUTRALISE_FORMULAS")
        crawl = find_crawl(crawler)
        wanted = None if crawl is None else crawl.options.wanted
        asked = None if wanted is None else completed(wanted.fields, {})
        return cls(
            file, waiting_folder=crawler.settings["FEED_TEMPDIR"], neutralises=neutralises, asked=asked, **kwargs
        )

    def export_item(self, item: Any) -> None:
        line = line_of(item)
        if line is None:
            return
        self.lines += 1
        if self._table is None:
            self._table = FlatTable(item_columns(item), self._asked)
        row = self._table.row_of(line)
        if self._neutralises:
            row = {name: neutral(cell) for name, cell in row.items()}
        if self._waiting is not None:
            self._waiting.write(as_json(row) + "\n")
            return
        if line.get(RECORD) is not None:
            row[RECORD] = as_json(clean(line[RECORD]))  # who names the column gets the whole
        if self._is_added_to:
            self._warn_of(row)
        super().export_item(row)

    def finish_exporting(self) -> None:
        try:
            if self._waiting is not None:
                with self._waiting:
                    self._write_waiting(self._waiting)
        finally:
            super().finish_exporting()

    def _write_waiting(self, waiting: IO[str]) -> None:
        columns = (self._table or FlatTable(columns_of(Page), self._asked)).columns
        waiting.seek(0)
        rows = map(json.loads, waiting)
        self.csv_writer.writerow(columns)
        # Not by way of Scrapy's items: there is nothing left to look up, and the crawl's end waits for this.
        self.csv_writer.writerows([row.get(name) for name in columns] for row in rows)

    def _warn_of(self, row: dict[str, Any]) -> None:
        missing = {name for name, value in row.items() if value is not None and name != RECORD}
        missing -= {*(self.fields_to_export or ()), *self._missing}
        if missing:
            self._missing |= missing
            warn_of_missing(missing)


def warn_of_missing(names: Iterable[str]) -> None:
    logger.warning("The CSV file that is added to has no column for %s", ", ".join(sorted(names)[:10]))


def columns_there(file: Any) -> list[str] | None:
    """Return the header of a file on this machine that has something in it."""
    path = getattr(file, "name", None)
    if not isinstance(path, str) or not Path(path).is_file() or not Path(path).stat().st_size:
        return None
    with Path(path).open(newline="", encoding="utf-8-sig", errors="replace") as there:
        try:
            return next(csv.reader(there), None)
        except csv.Error as error:
            raise ConfigError(f"{path}: it has no line of CSV that could be its header: {error}") from error
