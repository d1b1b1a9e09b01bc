"""Finds the browser, starts it when the first page needs it, and again when it has died."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from playwright.async_api import Error as PlaywrightError

from llmcrawler.engine.compat.rendering_handler import RenderingHandlerBase
from llmcrawler.errors import BrowserMissing, ConfigError

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
            path = system_browser(self.crawler.settings["PLAYWRIGHT_EXECUTABLE"] or "", shutil.which)
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
