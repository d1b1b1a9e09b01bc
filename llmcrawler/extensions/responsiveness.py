"""Sets up Python so that neither its garbage collector nor a busy thread holds the event loop for long."""

from __future__ import annotations

import gc
import sys
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler

# Python's own is 5 ms. So long a thread keeps the interpreter's lock while the event loop waits for it; and the loop
# gives the lock up, and waits for it anew, in every system call and every larger operation of NumPy.
_SWITCH_SECONDS = 0.0005


class ResponsivenessExtension:
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
        sys.setswitchinterval(min(_SWITCH_SECONDS, sys.getswitchinterval()))
