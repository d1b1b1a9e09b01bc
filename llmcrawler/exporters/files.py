"""Feeds in files, which an interrupted crawl can take back when it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FileFeedStorage

from llmcrawler.wiring import crawl_of


class JobFileStorage(FileFeedStorage):
    """Scrapy's; with a JOBDIR the job remembers the file, and what it held before."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None, crawler: Crawler) -> None:
        super().__init__(uri, feed_options=feed_options)
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler, uri: str, *, feed_options: dict[str, Any] | None = None) -> Self:
        return cls(uri, feed_options=feed_options, crawler=crawler)

    def open(self, spider: Spider) -> IO[bytes]:
        file = super().open(spider)
        job = crawl_of(self._crawler).job
        if job is not None:
            job.note_feed(Path(self.path), file)
        return file
