"""Chooses what downloads a request: Scrapy's handler of its scheme, or the browser."""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import suppress

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.misc import load_object

from llmcrawler.engine.compat.components import DownloadHandlersBase
from llmcrawler.engine.request_context import RENDER
from llmcrawler.errors import BrowserMissing, install_command

logger = logging.getLogger(__name__)

_BROWSER = "browser"  # no scheme of a url
_BROWSER_HANDLER = "llmcrawler.engine.browser.handler.BrowserDownloadHandler"


class NotRendered(Exception):
    """Raised by the browser for a download: it is fetched as what needs no browser is."""


class PageHandlers(DownloadHandlersBase):
    """Imports and starts the browser with the first page that needs it. Without one pages come as the server sends
    them, and `no_browser` says why.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.no_browser: str | None = None

    async def download_request_async(self, request: Request) -> Response:
        if request.meta.get(RENDER) and request.method == "GET" and self.no_browser is None:
            if not self.has_handler(_BROWSER):
                with suppress(ImportError):  # _load_browser() tells; in a thread, as it takes a tenth of a second
                    await asyncio.to_thread(importlib.import_module, _BROWSER_HANDLER.rpartition(".")[0])
            try:
                return await self.extra_handler(_BROWSER, _load_browser).download_request(request)
            except BrowserMissing as error:
                self._note_missing(str(error))
            except NotRendered:
                pass
        return await super().download_request_async(request)

    def _note_missing(self, reason: str) -> None:
        if self.no_browser is None:
            self.no_browser = reason
            logger.warning("Pages are not rendered, the crawl goes on without: %s", reason)


def _load_browser() -> type:
    try:
        handler_class: type = load_object(_BROWSER_HANDLER)
    except ImportError as error:
        raise BrowserMissing(f"{error}: {install_command('browser')}") from error
    return handler_class
