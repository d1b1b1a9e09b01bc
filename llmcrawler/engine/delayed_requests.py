"""Requests that wait before they go out, as a host asked for or a back-off wants."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import CallLaterResult, call_later

from llmcrawler.engine.compat import wake_engine
from llmcrawler.engine.request_context import context_of, update_context


class DelayedRequests:
    """Gives requests to `come_back` after the seconds that their contexts ask for, and lets the engine ask then."""

    def __init__(self, crawler: Crawler, come_back: Callable[[Request], object]) -> None:
        self._crawler = crawler
        self._come_back = come_back
        self._held: dict[Request, CallLaterResult] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, request: Request) -> bool:
        """Hold a request back if its context asks for that; return whether it does."""
        wait_seconds = context_of(request).wait_seconds
        if not wait_seconds:
            return False
        update_context(request, wait_seconds=0.0)
        self._held[request] = call_later(wait_seconds, self._let_go, request)
        return True

    def drain(self, of: Callable[[Request], bool] = lambda _request: True) -> list[Request]:
        """Return the requests that wait and that `of` names, and keep none of them."""
        requests = [request for request in self._held if of(request)]
        for request in requests:
            self._held.pop(request).cancel()
        return requests

    def _let_go(self, request: Request) -> None:
        del self._held[request]
        self._come_back(request)
        wake_engine(self._crawler)
