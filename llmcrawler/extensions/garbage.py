"""Keeps what is loaded at the start out of Python's full garbage collections, which hold the event loop."""

from __future__ import annotations

import gc
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler


class GarbageExtension:
    """A full collection looks at every object of the process, 60 ms for those of the modules alone, and it comes when a
    quarter as many new ones have lived for a while. Modules stay for good: without them it comes earlier, and is short.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls()
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        gc.freeze()
