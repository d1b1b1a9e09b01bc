"""Feeds of pages: JSON Lines, CSV, XML, Parquet, LangChain documents and Markdown."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler
from scrapy.exporters import (
    BaseItemExporter,
    CsvItemExporter,
    JsonLinesItemExporter,
    XmlItemExporter,
)
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.storage.feeds.feed_checks import require_format
from llmcrawler.core.storage.feeds.langchain import document_of
from llmcrawler.core.storage.feeds.markdown_files import MarkdownFolder, markdown_file_of
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import (
    RECORD,
    Column,
    FlatTable,
    as_json,
    clean,
    columns_of,
    neutral,
)
from llmcrawler.core.storage.feeds.xml_elements import xml_value
from llmcrawler.core.understanding.extraction.record_schema import completed
from llmcrawler.crawl.configuration import FeedSettings
from llmcrawler.crawl.context import find_crawl
from llmcrawler.errors import ConfigError
from llmcrawler.items import FeedItem, Page, Template

logger = logging.getLogger(__name__)


def line_of(item: Any) -> dict[str, Any] | None:
    """Return the fields of a page or of another spider's item; None for a template, which is about many pages."""
    return None if isinstance(item, Template) else plain(item)


def plain(item: Any) -> dict[str, Any]:
    """Return the item's fields, with plain values in place of dataclasses and other items."""
    return item.as_line() if isinstance(item, FeedItem) else ItemAdapter(item).asdict()


def item_columns(item: Any) -> tuple[Column, ...]:
    """Return the columns of an item's class; text ones for items that say nothing of their types."""
    if isinstance(item, dict) or not hasattr(type(item), "__dataclass_fields__"):
        return tuple(Column(name, "text") for name in ItemAdapter(item).field_names())
    return columns_of(type(item))


class PagesJsonLinesExporter(JsonLinesItemExporter):
    """Has each line in the file as soon as it has come, for those who read along."""

    def export_item(self, item: Any) -> None:
        super().export_item(item)
        self.file.flush()


class PagesXmlExporter(XmlItemExporter):
    """Writes what every parser takes."""

    def export_item(self, item: Any) -> None:
        super().export_item(xml_value(clean(plain(item))))


class PagesCsvExporter(CsvItemExporter):
    """Writes rows at the end, from a temporary file, as the last page may bring a new record field; at once where the
    `fields` of the feed or the file that is added to give the columns. A record that was `asked` for has all of its
    columns.
    """

    lines = 0

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
        crawl, feeds = find_crawl(crawler), FeedSettings.of(crawler.settings)
        wanted = None if crawl is None else crawl.options.wanted
        return cls(
            file,
            waiting_folder=feeds.feed_tempdir,
            neutralises=feeds.csv_neutralise_formulas,
            asked=None if wanted is None else completed(wanted.fields, {}),
            **kwargs,
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
            missing = {name for name, value in row.items() if value is not None and name != RECORD}
            missing -= {*(self.fields_to_export or ()), *self._missing}
            if missing:
                self._missing |= missing
                warn_of_missing(missing)
        super().export_item(row)

    def finish_exporting(self) -> None:
        try:
            if self._waiting is not None:
                with self._waiting as waiting:
                    waiting.seek(0)
                    columns = (self._table or FlatTable(columns_of(Page), self._asked)).columns
                    self.csv_writer.writerow(columns)
                    # Not by way of Scrapy's items: nothing is left to look up, and the crawl's end waits for this.
                    rows = map(json.loads, waiting)
                    self.csv_writer.writerows([row.get(name) for name in columns] for row in rows)
        finally:
            super().finish_exporting()


def warn_of_missing(names: Iterable[str]) -> None:
    logger.warning("The CSV file that is appended to has no column for %s", ", ".join(sorted(names)[:10]))


def columns_there(file: Any) -> list[str] | None:
    """Return the header of a file on this machine that has something in it."""
    path = getattr(file, "name", None)
    if not isinstance(path, str) or not Path(path).is_file() or not Path(path).stat().st_size:
        return None
    with Path(path).open(newline="", encoding="utf-8-sig", errors="replace") as there:
        try:
            return next(csv.reader(there), None)
        except csv.Error as error:
            raise ConfigError(f"{path}: it has no line that could be a CSV header: {error}") from error


class LinesExporter(BaseItemExporter):
    """Base of exporters that skip templates. `lines` counts what was written; Scrapy counts all items."""

    lines = 0

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self._file = file
        self._fields = None if self.fields_to_export is None else frozenset(self.fields_to_export)

    def export_item(self, item: Any) -> None:
        line = line_of(item)
        if line is not None:
            self.lines += self.export_line(item, line)

    def export_line(self, item: Any, line: dict[str, Any]) -> bool:
        """Write the fields of an item; return whether it is in the feed."""
        raise NotImplementedError


class ParquetExporter(LinesExporter):
    """Takes types from the item's class, never from values, so that all files have the same. Records and other nested
    values are JSON text, an error is a struct. The feed's `fields` choose and rename columns.
    """

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        require_format("parquet")
        self._columns: list[Column] = []
        self._out: ParquetFile | None = None

    @classmethod
    def prepare(cls) -> None:
        """Load pyarrow, and with its first array pandas, before there are pages that wait for it."""
        import pyarrow as pa  # only those who want Parquet have it
        import pyarrow.parquet

        pa.array([None, "text"], pa.string())

    def export_line(self, item: Any, line: dict[str, Any]) -> bool:
        out = self._out or self._open(item_columns(item))
        out.add([clean(line.get(column.name)) for column in self._columns])
        if self.fields_to_export is None:
            for name in line.keys() - {column.name for column in self._columns}:
                out.warn_of_loss(name, "the first item had no such field, so there is no column for it")
        return True

    def finish_exporting(self) -> None:
        (self._out or self._open(columns_of(Page))).close()

    def _open(self, columns: Sequence[Column]) -> ParquetFile:
        fields = self.fields_to_export
        by_name = {column.name: column for column in columns}
        self._columns = [by_name.get(name) or Column(name, "text") for name in (by_name if fields is None else fields)]
        names = fields if isinstance(fields, Mapping) else {}
        self._out = ParquetFile(self._file, [(names.get(one.name, one.name), one) for one in self._columns])
        return self._out


class DocumentsExporter(LinesExporter):
    """Writes a line for each page with text. The feed's `fields` choose the metadata; the source is always there."""

    def __init__(self, file: Any, *, stats: StatsCollector | None = None, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        self._stats = stats

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        return cls(file, stats=crawler.stats, **kwargs)

    def export_line(self, _item: Any, line: dict[str, Any]) -> bool:
        document = document_of(line, self._fields)
        if document is not None:
            self._file.write(as_json(document).encode() + b"\n")
        elif self._stats is not None:
            self._stats.inc_value("llmcrawler/storage/feeds/documents/without_text")
        return document is not None


class MarkdownExporter(LinesExporter):
    """Writes into a MarkdownFolder, which `file` is; the feed's `fields` choose the front matter."""

    _file: MarkdownFolder

    def export_line(self, _item: Any, line: dict[str, Any]) -> bool:
        if line.get("url") is None:
            return False
        self._file.add(*markdown_file_of(line, self._fields))
        return True
