"""Writes what was asked and answered for each page as a web archive (WARC)."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter
from scrapy.extensions.feedexport import ItemFilter

from llmcrawler import __version__
from llmcrawler.core.storage.archives.warc_writer import AS_IT_CAME, Pairs, WarcWriter
from llmcrawler.crawl.configuration import PolitenessSettings
from llmcrawler.items import Page

_HOW = (
    "Bodies are unpacked, with a Content-Length of their own; the headers that they came with are "
    f"{AS_IT_CAME}Content-Encoding and {AS_IT_CAME}Content-Length. Cookies and credentials are left out."
)


class WarcExporter(BaseItemExporter):
    """Writes the exchanges of a page when its line goes to the feeds; of other items nothing."""

    lines = 0  # pages that are in there

    def __init__(self, file: Any, *, name: str = "", about: Pairs = (), **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self._writer = WarcWriter(file, is_packed=not name.endswith(".warc"))
        self._name = name
        self._about = about

    @classmethod
    def from_crawler(cls, crawler: Crawler, file: Any, **kwargs: Any) -> Self:
        politeness = PolitenessSettings.of(crawler.settings)
        robots = "obey" if politeness.robotstxt_obey else "ignore"
        return cls(file, about=(("http-header-user-agent", politeness.user_agent), ("robots", robots)), **kwargs)

    @classmethod
    def feeds_of(
        cls, _crawler: Crawler, uri: str, options: dict[str, Any], others: ItemFilter
    ) -> dict[str, tuple[dict[str, Any], ItemFilter]]:
        """Return the feed, whose exporter is told the name of its file."""
        name = PurePath(urlsplit(uri).path if "://" in uri else uri).name
        options["item_export_kwargs"] = {"name": name, **options["item_export_kwargs"]}
        return {uri: (options, others)}

    def start_exporting(self) -> None:
        fields = (("software", f"llmcrawler/{__version__}"), ("format", "WARC File Format 1.1"), *self._about)
        name = "" if "%(" in self._name else self._name
        self._writer.add_info((*fields, ("description", _HOW)), name)

    def export_item(self, item: Any) -> None:
        if isinstance(item, Page) and item.exchanges:
            self._writer.add(item.exchanges)
            self.lines += 1
