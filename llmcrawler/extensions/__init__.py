"""Scrapy extensions."""

from __future__ import annotations

from scrapy import signals
from scrapy.crawler import Crawler


def connect_handlers(crawler: Crawler, extension: object, *names: str, **others: object) -> None:
    """Connect methods to Scrapy's signals of the same names, and `others` to the signals that they are given."""
    for name, signal in {**{name: getattr(signals, name) for name in names}, **others}.items():
        crawler.signals.connect(getattr(extension, name), signal)
