"""Scrapy extensions."""

from __future__ import annotations

from scrapy import signals
from scrapy.crawler import Crawler


def connect_handlers(crawler: Crawler, extension: object, *names: str) -> None:
    """Connect the extension's methods of these names to the signals of the same names."""
    for name in names:
        crawler.signals.connect(getattr(extension, name), getattr(signals, name))
