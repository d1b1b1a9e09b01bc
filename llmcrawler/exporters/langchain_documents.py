"""Writes pages as JSON Lines of LangChain documents, without LangChain."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.storage.feeds.langchain import document_of
from llmcrawler.core.storage.feeds.tables import as_json
from llmcrawler.exporters.plain import line_of


class DocumentsExporter(BaseItemExporter):
    """Writes a line for each page with text. The feed's `fields` choose the metadata; the source is always there."""

    lines = 0  # written

    def __init__(self, file: Any, *, stats: StatsCollector | None = None, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self._file = file
        self._stats = stats
        self._fields = None if self.fields_to_export is None else frozenset(self.fields_to_export)

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        return cls(file, stats=crawler.stats, **kwargs)

    def export_item(self, item: Any) -> None:
        line = line_of(item)
        if line is None:
            return
        document = document_of(line, self._fields)
        if document is not None:
            self._file.write(as_json(document).encode() + b"\n")
            self.lines += 1
        elif self._stats is not None:
            self._stats.inc_value("llmcrawler/storage/feeds/documents/without_text")
