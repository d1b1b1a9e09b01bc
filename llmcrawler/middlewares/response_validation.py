"""Refuses responses that are not the page: captchas, and what the user's own `validate_response` refuses."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.http.request import NO_CALLBACK

from llmcrawler.core.politeness.proxies import BanRules
from llmcrawler.crawl.configuration import load_validator
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.refusals import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of
from llmcrawler.engine.response_text import page_text
from llmcrawler.errors import NotThePage
from llmcrawler.middlewares.proxy_choice import ProxySwitch

_INLINE_BYTES = 64 * 1024  # what takes some milliseconds

logger = logging.getLogger(__name__)

Validator = Callable[[Response], Any]


class ValidatorBroke(Exception):
    """Raised for a user's validate_response that has a fault of its own; the page's error is of kind `internal`."""


@dataclass(eq=False)
class ValidationMiddleware:
    """Asks again for a response that is not the page: through another proxy, as it counts as a ban, or without proxies
    RETRY_TIMES times. A page that never comes has an error of kind `validation`.
    """

    crawler: Crawler
    validators: Sequence[Validator]
    bans: BanRules
    switch: ProxySwitch | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        given = (getattr(crawler.spider, "validate_response", None), load_validator(crawler.settings))
        validators = [validator for validator in given if validator is not None]
        if not validators and crawl.proxies is None:
            raise NotConfigured
        switch = None if crawl.proxies is None else ProxySwitch(crawler, crawl.proxies)
        return cls(crawler, validators, crawl.bans, switch)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        label = None if "cached" in response.flags else context_of(request).proxy
        reason = await self._reason(request, response)
        if reason is None:
            if label is not None and self.switch is not None and self._is_an_answer(response.status):
                suspects = context_of(request).suspects
                self.switch.pool.succeed(label, suspects, is_page=self._is_page(request))
            return response
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("llmcrawler/not_the_page")
        again = self._again(request, label, reason)
        if again is None:
            # In a spider without an errback nothing else would tell of it.
            level = self.crawler.settings["RETRY_GIVE_UP_LOG_LEVEL"]
            level = level if isinstance(level, int) else logging.getLevelName(level)
            logger.log(level, "Gave up %s: not the page: %s", request, reason)
            raise RequestRefused(RefusalKind.VALIDATION, f"not the page: {reason}")
        return again

    async def _reason(self, request: Request, response: Response) -> str | None:
        if self.switch is not None and isinstance(response, TextResponse):
            reason = await self._ban_of(response)
            if reason is not None:
                return reason
        if not self._is_page(request) or not 200 <= response.status < 300:  # an error page is known for what it is
            return None
        try:
            for validate in self.validators:
                verdict = validate(response)
                if inspect.isawaitable(verdict):
                    await verdict
        except NotThePage as error:
            return str(error) or "validate_response says so"
        except Exception as error:  # the user's code; some of its errors would pass for errors of the body
            raise ValidatorBroke(f"validate_response raised {type(error).__name__}: {error}") from error
        return None

    async def _ban_of(self, response: TextResponse) -> str | None:
        if len(response.body) <= _INLINE_BYTES:
            return self.bans.of_text(page_text(response))
        return await asyncio.to_thread(lambda: self.bans.of_text(page_text(response)))

    def _is_page(self, request: Request) -> bool:
        """Return whether a request is for a page, and not for robots.txt or a sitemap.

        A spider without a frontier has pages without leases.
        """
        if context_of(request).lease is not None:
            return True
        return not hasattr(self.crawler.spider, "request_of") and request.callback is not NO_CALLBACK

    def _again(self, request: Request, label: str | None, reason: str) -> Request | None:
        if label is not None and self.switch is not None:
            again = self.switch.switched(request, label, "banned", reason)
        else:
            assert self.crawler.spider is not None
            again = get_retry_request(request, spider=self.crawler.spider, reason="validation")
        if again is not None:
            again.meta["dont_cache"] = True  # what is in the cache was not the page
        return again

    def _is_an_answer(self, status: int) -> bool:
        """Return whether a status is of a working site, and not of a proxy or of a site in trouble."""
        return status < 500 and status != 429 and self.bans.of_status(status) is None
