"""Feeds in files and folders, which an interrupted crawl can take back when it goes on."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path
from typing import IO, Any, Self, cast

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FileFeedStorage
from twisted.internet.defer import Deferred

from llmcrawler.core.reporting.exit_status import nothing_came
from llmcrawler.core.storage.feeds.feed_checks import MARKDOWN, check_addable
from llmcrawler.core.storage.feeds.markdown_files import MarkdownFolder
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.request_scheduler import RequestScheduler
from llmcrawler.engine.scheduler import running_scheduler

logger = logging.getLogger(__name__)


class _CrawlFileStorage(FileFeedStorage):
    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None, crawler: Crawler) -> None:
        super().__init__(uri, feed_options=feed_options)
        self._format = str((feed_options or {}).get("format"))
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler, uri: str, *, feed_options: dict[str, Any] | None = None) -> Self:
        return cls(uri, feed_options=feed_options, crawler=crawler)


class RequestFeedStorage(_CrawlFileStorage):
    """Has the job of a spider that makes its own requests remember what the file held before."""

    def open(self, spider: Spider) -> IO[bytes]:
        file = super().open(spider)
        running_scheduler(self._crawler, RequestScheduler).job.note_feed(Path(self.path), file.fileno())
        return file


class JobFileStorage(_CrawlFileStorage):
    """Extends Scrapy's: a markdown feed is a folder, and with a JOBDIR the job remembers what the file held before.
    Without one, a file is replaced (-O) when the new one is complete, and not by a crawl that got nothing.
    """

    written_to: str | None = None  # the file beside, where the feed's own was left as it was
    _replaced: Path | None = None

    def open(self, spider: Spider) -> IO[bytes]:
        path, overwrite = Path(self.path), self.write_mode == "wb"
        if self._format == MARKDOWN:
            folder = MarkdownFolder(path, overwrite=overwrite)
            self._remember(folder.index_path, folder.fileno())
            return cast("IO[bytes]", folder)  # the exporter knows what it gets, and all others close it
        if not overwrite:
            check_addable(path, self._format)
        if overwrite and path.is_file() and path.stat().st_size and crawl_of(self._crawler).job is None:
            self._replaced = path.resolve()
            self.path = f"{path}.new"
        file = super().open(spider)
        self._remember(path, file.fileno())
        return file

    def store(self, file: IO[bytes]) -> Deferred[None] | None:
        place = None if isinstance(file, MarkdownFolder) else os.fstat(file.fileno())
        stored = super().store(file)
        if place is not None and not place.st_nlink and not Path(self.path).exists():
            raise FileNotFoundError(errno.ENOENT, "it was removed while being written", self.path)
        if self._replaced is not None:
            assert self._crawler.stats is not None
            if nothing_came(self._crawler.stats.get_stats()):
                logger.warning("%s is left as it was: nothing came from the start URLs", self._replaced)
                self.written_to = self.path
            else:
                shutil.copymode(self._replaced, self.path)
                Path(self.path).replace(self._replaced)
        return stored

    def _remember(self, path: Path, file: int) -> None:
        job = crawl_of(self._crawler).job
        if job is not None:
            job.note_feed(path, file)
