"""scrapy-playwright's download handler with public names; nothing imports it before a page is to be rendered."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from playwright.async_api import Page
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]


class RenderingHandlerBase(ScrapyPlaywrightDownloadHandler):  # type: ignore[misc]  # scrapy-playwright has no types
    """Opens contexts and pages for requests; a subclass says what is done with a page."""

    async def work_on_page(self, request: Request, page: Page) -> Response:
        """Go to the request's url in a new page, and return what came of it."""
        raise NotImplementedError

    async def go(self, request: Request, page: Page) -> Any:
        """Send the page to the request's url; return Playwright's response, None for some kinds of urls."""
        answer, _download = await self._get_response_and_download(request, page, self.crawler.spider)
        return answer

    async def render(self, request: Request) -> Response:
        """Open a page in the context that the request's meta names, and have `work_on_page` done in it."""
        response: Response = await self._download_request(request)
        return response

    async def start_playwright(self) -> None:
        """Start Playwright's process, in a session of its own: Ctrl-C, and the SIGTERM of `timeout`, reach all
        processes of the crawl's group, and pages in flight would be lost.
        """
        start = asyncio.create_subprocess_exec
        asyncio.create_subprocess_exec = partial(start, start_new_session=True)  # Playwright has no option for it
        try:
            await self._launch()
        finally:
            asyncio.create_subprocess_exec = start

    async def launch_browser(self) -> None:
        """Open the browser if it is not."""
        await self._maybe_launch_browser()

    async def _download_request_with_page(self, request: Request, page: Page, spider: Spider) -> Response:  # noqa: ARG002 (its)
        return await self.work_on_page(request, page)
