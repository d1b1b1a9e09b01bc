"""Shortens log lines of items: Scrapy prints whole items, and a page item holds the page's text."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Spider
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from llmcrawler.items import Page, Template, Url


class ShortLogFormatter(LogFormatter):
    def scraped(self, item: Any, response: Response | Failure | None, spider: Spider) -> LogFormatterResult:
        if isinstance(item, Page):
            outcome = (
                f"{item.error.kind} ({item.error.stage})" if item.error else f"{item.page_type} by {item.decided_by}"
            )
            return _line("Page %(url)s: %(outcome)s", {"url": item.url, "outcome": outcome})
        if isinstance(item, Template):
            return _line("Template %(name)s: %(pages)d pages", {"name": item.template, "pages": item.page_count})
        if isinstance(item, Url):
            # A map has tens of thousands of them, and the feed has them too; Scrapy logs nothing for None.
            return None  # type: ignore[return-value]
        return super().scraped(item, response, spider)


def _line(message: str, values: dict[str, Any]) -> LogFormatterResult:
    return {"level": logging.DEBUG, "msg": message, "args": values}
