"""Feeds that are tables: of the records of pages (CSV, Parquet, JSON Lines), and of rights in pages (CSV)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from tempfile import TemporaryFile
from typing import Any, Final, Self

from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter
from scrapy.extensions.feedexport import ItemFilter

from llmcrawler.core.storage.feeds.feed_checks import page_types_of_feed, record_form, require_format
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.rights_table import RIGHTS_COLUMNS, rights_row
from llmcrawler.core.storage.feeds.tables import RECORD, Column, as_json, clean, columns_of, neutral
from llmcrawler.core.understanding.extraction.record_table import RecordTable, typed_cell
from llmcrawler.crawl.configuration import FeedSettings, RightsSettings, page_types_of
from llmcrawler.crawl.context import crawl_of
from llmcrawler.exporters.page_formats import LinesExporter, columns_there, warn_of_missing
from llmcrawler.items import Page

logger = logging.getLogger(__name__)

_PLACEHOLDER: Final = "%(page_type)s"
_OF_ALL_EXPORTERS: Final = ("encoding", "fields_to_export", "export_empty_fields", "indent")  # Scrapy's options
_BETWEEN: Final = "; "  # the values of a list in a cell of CSV
_OF_PAGES: Final = {column.name: column for column in columns_of(Page) if column.name != RECORD}

_Row = tuple[dict[str, Any], str]  # values by their columns, and the language of their page


class RecordsFilter(ItemFilter):
    """Lets pages with a record into a feed, of these page types if there are any."""

    def __init__(self, page_types: tuple[str, ...], others: ItemFilter) -> None:
        super().__init__(None)
        self._page_types = page_types
        self._others = others

    def accepts(self, item: Any) -> bool:
        if not isinstance(item, Page) or not isinstance(item.record, dict):
            return False
        return (not self._page_types or item.page_type in self._page_types) and self._others.accepts(item)


class RecordsExporter(LinesExporter):
    """Writes all rows at the end, from a temporary file: the last page may bring a new field, or text into a column of
    numbers. The feed's `fields` choose and rename columns of records or pages; other options are csv.writer's, and
    `join_multivalued`, which stands between the values of a list.
    """

    def __init__(  # noqa: PLR0913 - Scrapy's options of exporters, and ours
        self,
        file: Any,
        *,
        form: str = "csv",
        table: RecordTable | None = None,
        waiting_folder: str | None = None,
        neutralises: bool = True,
        join_multivalued: str = _BETWEEN,
        **options: Any,
    ) -> None:
        super().__init__(file, **options)
        require_format(form)
        self._csv_options = {name: value for name, value in options.items() if name not in _OF_ALL_EXPORTERS}
        self._form = form
        self._table = RecordTable() if table is None else table
        self._neutralises = neutralises
        self._between = join_multivalued
        # The records' columns are chosen when all are known; of a page's values those that may be chosen are kept.
        self._of_page = [name for name in self.fields_to_export or () if name in _OF_PAGES]
        self._waiting = TemporaryFile("w+", encoding="utf-8", dir=waiting_folder)  # noqa: SIM115 - until the end

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        wanted, feeds = crawl_of(crawler).options.wanted, FeedSettings.of(crawler.settings)
        return cls(
            file,
            table=RecordTable(wanted.fields if wanted is not None else ()),
            waiting_folder=feeds.feed_tempdir,
            neutralises=feeds.csv_neutralise_formulas,
            **kwargs,
        )

    @classmethod
    def feeds_of(
        cls, crawler: Crawler, uri: str, options: dict[str, Any], others: ItemFilter
    ) -> dict[str, tuple[dict[str, Any], ItemFilter]]:
        """Return the feeds that one feed is, by their uris: one for each page type where its name has %(page_type)s."""
        options["item_export_kwargs"] = {"form": record_form(uri), **options["item_export_kwargs"]}
        crawl = crawl_of(crawler)
        page_types = page_types_of_feed(options) or crawl.options.goal
        if _PLACEHOLDER not in uri:
            return {uri: (options, RecordsFilter(page_types, others))}
        if not page_types:
            page_types = tuple(one for one in page_types_of(crawl.options).names if one in crawl.record_types)
            options["store_empty"] = False  # no file for each type that there might have been
        return {uri.replace(_PLACEHOLDER, name): (options, RecordsFilter((name,), others)) for name in page_types}

    def export_line(self, _item: Any, line: dict[str, Any]) -> bool:
        if not isinstance(line.get(RECORD), dict):
            return False
        of_page = {name: clean(line.get(name)) for name in self._of_page}
        self._waiting.write(as_json([self._table.row_of(line), of_page, line.get("lang")]) + "\n")
        return True

    def finish_exporting(self) -> None:
        with self._waiting as waiting:
            waiting.seek(0)
            of_records = {column.name: column for column in self._table.columns}
            columns = self._columns(of_records)
            # A page's value stands in a row where no record has a field of its name.
            free = [name for name in self._of_page if name not in of_records]
            rows = (
                ({name: of_page[name] for name in free} | values, lang or "")
                for values, of_page, lang in map(json.loads, waiting)
            )
            if self._form == "csv":
                self._write_csv(columns, rows)
            elif self._form == "jsonl":
                for row in rows:
                    line = dict(zip(columns, _typed(columns.values(), row), strict=True))
                    self._file.write(as_json(line).encode() + b"\n")
            else:
                out = ParquetFile(self._file, list(columns.items()))
                for row in rows:
                    out.add(_typed(columns.values(), row))
                out.close()

    def _columns(self, of_records: dict[str, Column]) -> dict[str, Column]:
        fields = self.fields_to_export
        if fields is None:
            return of_records
        names = fields if isinstance(fields, Mapping) else {name: name for name in fields}
        known = {**_OF_PAGES, **of_records, **{f"{RECORD}.{name}": one for name, one in of_records.items()}}
        if never := names.keys() - known.keys():
            logger.warning("No record has had a field %s: its column is empty", ", ".join(sorted(never)))
        return {header: known.get(name) or Column(name, "text") for name, header in names.items()}

    def _write_csv(self, columns: dict[str, Column], rows: Iterable[_Row]) -> None:
        there = columns_there(self._file)
        if there is not None:
            if lacking := columns.keys() - set(there):
                warn_of_missing(lacking)
            columns = {header: columns.get(header) or Column("", "text") for header in there}
        out = CsvItemExporter(self._file, encoding=self.encoding, errors="replace", **self._csv_options)
        if there is None:
            out.csv_writer.writerow([self._cell(header) for header in columns])
        out.csv_writer.writerows([self._cell(one) for one in _typed(columns.values(), row)] for row in rows)
        out.finish_exporting()

    def _cell(self, value: Any) -> Any:
        if isinstance(value, list):
            is_plain = not any(isinstance(one, (dict, list)) for one in value)
            value = self._between.join(map(str, value)) if is_plain else as_json(value)
        elif isinstance(value, dict):
            value = as_json(value)
        return neutral(value) if self._neutralises else value


def _typed(columns: Iterable[Column], row: _Row) -> list[Any]:
    values, lang = row
    return [typed_cell(column, values.get(column.name), lang) for column in columns]


class RightsExporter(CsvItemExporter):
    """Writes each row at once: its columns are the same in every crawl. The feed's `fields` choose and rename them."""

    lines = 0

    def __init__(
        self, file: Any, *, purpose: str = "", neutralises: bool = True, fields_to_export: Any = None, **kwargs: Any
    ) -> None:
        there = columns_there(file)
        columns = fields_to_export or there or RIGHTS_COLUMNS
        has_header = kwargs.pop("include_headers_line", True) and not there
        self._header = list(columns.values() if isinstance(columns, Mapping) else columns) if has_header else None
        kwargs.setdefault("errors", "replace")  # an encoding of the user's may lack a page's letters
        super().__init__(file, fields_to_export=columns, include_headers_line=False, **kwargs)
        self._purpose = purpose
        self._neutralises = neutralises

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        purpose = RightsSettings.of(crawler.settings).crawl_purpose
        neutralises = FeedSettings.of(crawler.settings).csv_neutralise_formulas
        return cls(file, purpose=purpose, neutralises=neutralises, **kwargs)

    def start_exporting(self) -> None:
        if self._header is not None:
            self.csv_writer.writerow(self._header)

    def export_item(self, item: Any) -> None:
        if isinstance(item, Page):
            super().export_item(rights_row(item.as_line(), self._purpose, neutralises=self._neutralises))
            self.lines += 1
