"""Builds the crawl before other components ask for it, and sets up its process: garbage collector, threads, memory."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from typing import Any, Final, Self

from scrapy.crawler import Crawler

from llmcrawler.crawl.context import build_crawl
from llmcrawler.crawl.start_checks import check, check_settings
from llmcrawler.engine.scheduler import check_scheduler
from llmcrawler.extensions import connect_handlers

# Python's own is 5 ms. So long a thread keeps the interpreter's lock while the event loop waits for it; and the loop
# gives the lock up, and waits for it anew, in every system call and every larger operation of NumPy.
_SWITCH_SECONDS: Final = 0.0005
# malloc.h of glibc
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 2**20
_KEPT_FREE_BYTES: Final = 16 * 2**20


class CrawlSetup:
    """Builds the crawl as the first extension: these are made once settings are final, also for `scrapy shell`, `fetch`
    and `parse` and for the user's own spiders.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        needed = getattr(crawler.spider, "SCHEDULER_CLASS", None)
        if needed is not None:  # one of this project's spiders
            check_scheduler(crawler.settings, needed)
            spider: Any = crawler.spider
            if spider.changes_arguments():  # by code of its own, so nobody could check them before it was made
                check(crawler.settings, spider.options, spider.name)
        check_settings(crawler.settings)
        build_crawl(crawler)
        return cls()


class ResponsivenessExtension:
    """Keeps the garbage collector and busy threads from blocking the event loop, and gives free memory back.

    A full collection visits every object, 60 ms for those of the modules alone, which stay for good: without them it is
    short.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        give_large_blocks_back()
        extension = cls()
        connect_handlers(crawler, extension, "spider_opened")
        return extension

    def spider_opened(self) -> None:
        gc.freeze()
        sys.setswitchinterval(min(_SWITCH_SECONDS, sys.getswitchinterval()))


def give_large_blocks_back() -> None:
    """Make the C library return each block of a megabyte or more to the system once it is freed.

    glibc keeps blocks up to the largest ever freed: one body of 20 MB left 30 MB of holes that later copies did not
    fit. Nothing happens where the environment has MALLOC_* or GLIBC_TUNABLES, or with other C libraries.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    with suppress(OSError, AttributeError, TypeError):  # TypeError: Windows has no library of that name
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
