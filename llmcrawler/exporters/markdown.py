"""Writes a Markdown file for each page: in a folder on this machine, in a ZIP archive anywhere else."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter

from llmcrawler.core.storage.feeds.markdown_files import (
    MarkdownArchive,
    MarkdownFolder,
    MarkdownStore,
    markdown_file_of,
)
from llmcrawler.exporters.plain import line_of


class MarkdownExporter(BaseItemExporter):
    """Writes to a MarkdownFolder where `file` is one, else a ZIP archive; its `fields` choose the front matter."""

    lines = 0  # written

    def __init__(self, file: Any, *, waiting_folder: str | None = None, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self._store: MarkdownStore = file if isinstance(file, MarkdownFolder) else MarkdownArchive(file, waiting_folder)
        self._fields = None if self.fields_to_export is None else frozenset(self.fields_to_export)

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        return cls(file, waiting_folder=crawler.settings["FEED_TEMPDIR"], **kwargs)

    def export_item(self, item: Any) -> None:
        line = line_of(item)
        if line is not None and line.get("url") is not None:
            self._store.add(*markdown_file_of(line, self._fields))
            self.lines += 1

    def finish_exporting(self) -> None:
        self._store.finish()
