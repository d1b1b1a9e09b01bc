"""Requests that wait before they go out, as a host asked for or a back-off wants."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import call_later

from llmcrawler.engine.compat import wake_engine
from llmcrawler.engine.request_context import context_of, update_context


class DelayedRequests:
    """Gives requests to `come_back` after the seconds that their contexts ask for, and lets the engine ask then."""

    def __init__(self, crawler: Crawler, come_back: Callable[[Request], object]) -> None:
        self._crawler = crawler
        self._come_back = come_back
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, request: Request) -> bool:
        """Hold a request back if its context asks for that; return whether it does."""
        wait_seconds = context_of(request).wait_seconds
        if not wait_seconds:
            return False
        update_context(request, wait_seconds=0.0)
        self._count += 1
        call_later(wait_seconds, self._let_go, request)
        return True

    def _let_go(self, request: Request) -> None:
        self._count -= 1
        self._come_back(request)
        wake_engine(self._crawler)
