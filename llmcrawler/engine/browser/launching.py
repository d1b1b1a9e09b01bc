"""Finds the browser, starts it when the first page needs it, and again when it has died."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]

from llmcrawler.crawl.configuration import RenderSettings
from llmcrawler.errors import BrowserMissing, ConfigError


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


_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
INSTALL: Final = "apt-get install chromium, or: playwright install --with-deps chromium"


def system_browser(chosen: str, find: Callable[[str], str | None]) -> str | None:
    """Return the path of the chosen browser, else of one of the system's; None for Playwright's own.

    `find` is shutil.which. Raises ConfigError when the chosen one is not there.
    """
    if chosen:
        path = find(chosen)
        if path is None:
            raise ConfigError(f"PLAYWRIGHT_EXECUTABLE={chosen}: no such program")
        return path
    return next((path for path in map(find, _NAMES) if path is not None), None)


logger = logging.getLogger(__name__)

# No traffic but through the gateway, none of the browser's own, and no frames in processes of their own.
_ARGUMENTS: Final = (
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-remote-fonts",
    "--blink-settings=imagesEnabled=false",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=IsolateOrigins,site-per-process,BackForwardCache,MediaRouter,OptimizationHints,Translate",
)
_NO_WAY_OUT: Final = "http://127.0.0.1:9"  # for what the browser asks on its own account; contexts have the gateway
CLOSE_SECONDS: Final = 10.0


class LaunchingHandler(RenderingHandlerBase):
    _starting: asyncio.Task[None] | None = None

    async def started(self) -> None:
        """Wait for the browser. Raises BrowserMissing when it does not start."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        await asyncio.shield(self._starting)

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        with suppress(PlaywrightError):
            await super().close()

    async def _start(self) -> None:
        try:
            path = system_browser(RenderSettings.of(self.crawler.settings).playwright_executable, shutil.which)
            await self.start_playwright()
            if path is None:
                own = Path(self.browser_provider.browser_type.executable_path)
                if not await asyncio.to_thread(own.exists):
                    raise BrowserMissing(f"there is no browser: {INSTALL}")
            self.config.launch_options = {
                **self.config.launch_options,
                **({"executable_path": path} if path is not None else {}),
                "args": [*_ARGUMENTS, *self.config.launch_options.get("args", ())],
                "proxy": {"server": _NO_WAY_OUT},
                "env": {**os.environ, "LLM_API_KEY": "", "OPENAI_API_KEY": "", "BOT_AUTH_KEY": ""},
            }
            await self._open_browser()
        except (PlaywrightError, ConfigError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise BrowserMissing(f"the browser does not start: {lines[0][:300]} ({INSTALL})") from error

    async def forget_if_gone(self) -> None:
        """Start all anew when Playwright's own process has died. A browser that dies alone is noticed by others."""
        browser = getattr(self, "browser", None)
        if browser is None or not browser.is_connected():
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await (await browser.new_browser_cdp_session()).detach()
        except (PlaywrightError, TimeoutError):
            if browser.is_connected() and getattr(self, "browser", None) is browser:
                logger.warning("The browser has gone without a word: it is started anew")
                del self.browser
                self.context_wrappers.clear()
                self._starting = None

    async def _open_browser(self) -> None:
        """Open the browser in its sandbox where there can be one: never as root, and not in every container."""
        self.config.launch_options.setdefault("chromium_sandbox", os.geteuid() != 0)
        try:
            await self.launch_browser()
        except PlaywrightError:
            if not self.config.launch_options["chromium_sandbox"]:
                raise
            logger.warning("The browser starts without its sandbox: it does not start with it")
            self.config.launch_options["chromium_sandbox"] = False
            await self.launch_browser()
        logger.info("A browser is open: pages that need it are rendered (%s)", self.browser.version)
