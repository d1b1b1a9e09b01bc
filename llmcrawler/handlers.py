"""Who downloads a request: Scrapy's handler of its scheme, or the browser."""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import suppress

from scrapy import Request
from scrapy.core.downloader.handlers import DownloadHandlerProtocol, DownloadHandlers
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler, load_object

from llmcrawler.errors import BrowserMissing
from llmcrawler.rendering import RENDER

logger = logging.getLogger(__name__)

_BROWSER = "browser"  # no scheme of a url
_BROWSER_HANDLER = "llmcrawler.browser.handler.BrowserDownloadHandler"


class PageHandlers(DownloadHandlers):
    """The browser is imported and started with the first page that wants it. Without one the page comes as it is."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.no_browser: str | None = None

    async def download_request_async(self, request: Request) -> Response:
        if request.meta.get(RENDER) and request.method == "GET" and self.no_browser is None:
            if _BROWSER not in self._handlers:
                with suppress(ImportError):  # _browser() says so; in a thread, as it takes a tenth of a second
                    await asyncio.to_thread(importlib.import_module, _BROWSER_HANDLER.rpartition(".")[0])
            try:
                return await self._browser().download_request(request)
            except BrowserMissing as error:
                self._note_missing(str(error))
        return await super().download_request_async(request)

    def _browser(self) -> DownloadHandlerProtocol:
        if _BROWSER not in self._handlers:
            try:
                handler_type = load_object(_BROWSER_HANDLER)
            except ImportError as error:
                raise BrowserMissing(f"{error}: pip install scrapy-playwright") from error
            self._handlers[_BROWSER] = build_from_crawler(handler_type, self._crawler)
        return self._handlers[_BROWSER]

    def _note_missing(self, reason: str) -> None:
        if self.no_browser is None:
            self.no_browser = reason
            logger.warning("Pages are not rendered, the crawl goes on without: %s", reason)
