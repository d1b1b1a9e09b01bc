"""Writes what sites say of the use of their pages as a table: CSV, with a row for each page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter

from llmcrawler.core.storage.feeds import RIGHTS_COLUMNS, rights_row
from llmcrawler.exporters.csv import columns_there
from llmcrawler.items import Page


class RightsExporter(CsvItemExporter):
    """Writes each row at once: its columns are the same in every crawl. The feed's `fields` choose and rename them."""

    lines = 0  # written, the header aside

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
        settings = crawler.settings
        neutralises = settings.getbool("CSV_NEUTRALISE_FORMULAS")
        return cls(file, purpose=settings.get("CRAWL_PURPOSE") or "", neutralises=neutralises, **kwargs)

    def start_exporting(self) -> None:
        if self._header is not None:
            self.csv_writer.writerow(self._header)

    def export_item(self, item: Any) -> None:
        if isinstance(item, Page):
            super().export_item(rights_row(item.as_line(), self._purpose, neutralises=self._neutralises))
            self.lines += 1
