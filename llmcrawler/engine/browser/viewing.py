"""Waits for the content of a page that has come, loads more of it, and looks for its links."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from playwright.async_api import Page

from llmcrawler.core.content import robots_metas
from llmcrawler.core.urls import route_of
from llmcrawler.engine.browser.page_scripts import LINKS, LOOK, METAS, MORE, PROBE, SIZE, SNAPSHOT
from llmcrawler.engine.browser.page_traffic import Traffic

_LOOK_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 0.3  # nothing under way, nothing changed for so long: the page is there
_RESTLESS_SECONDS: Final = 2.0  # nothing under way for so long: what still changes is a clock or a banner


@dataclass(frozen=True, slots=True)
class RenderRules:
    """Rules of a look. `wait_seconds`: the longest wait for the content, and for each step of `scrolls`. `clicks` at
    most on what may be links.
    """

    wait_seconds: float
    scrolls: int
    clicks: int


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A rendered page. `links` are those that `html` does not show, `robots` what the HTML that the server sent says to
    robots, as X-Robots-Tag headers.
    """

    html: str
    links: tuple[str, ...]
    robots: tuple[str, ...]


async def view(page: Page, traffic: Traffic, rules: RenderRules) -> RenderedPage:
    await _settle(page, traffic, rules.wait_seconds)
    passed: list[str] = []
    for _ in range(rules.scrolls):
        passed += await page.evaluate(LINKS)  # long lists drop what has been scrolled past
        if not await _load_more(page, traffic, rules.wait_seconds):
            break
    html: str = await page.evaluate(SNAPSHOT)
    said = robots_metas(await page.evaluate(METAS))
    shown = dict.fromkeys(await page.evaluate(LINKS))
    passed += filter(route_of, shown)  # in plain pages they are none
    traffic.probing = True
    found = [*passed, *await page.evaluate(PROBE, rules.clicks), *traffic.probed]
    links = tuple(url for url in dict.fromkeys(found) if url not in shown or route_of(url))
    return RenderedPage(html, links, tuple(f"{name}: {' '.join(text.split())}" for name, text in said.items()))


async def _settle(page: Page, traffic: Traffic, seconds: float) -> None:
    """Wait until nothing is under way, nothing changes and there is text, or until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(_LOOK_SECONDS)
        quiet_seconds = time.monotonic() - traffic.quiet_since
        if not traffic.is_quiet or quiet_seconds < _QUIET_SECONDS:
            continue
        look = await page.evaluate(LOOK)
        if look["waits"] or not look["words"]:
            continue
        if look["quiet"] >= 1000 * _QUIET_SECONDS or quiet_seconds >= _RESTLESS_SECONDS:
            return


async def _load_more(page: Page, traffic: Traffic, seconds: float) -> bool:
    """Scroll once, and return whether that brought more."""
    before = await page.evaluate(SIZE)
    await page.evaluate(MORE)
    await asyncio.sleep(_QUIET_SECONDS)  # a page may look where it stands some frames later
    await _settle(page, traffic, seconds)
    after = await page.evaluate(SIZE)
    return bool(after["items"] > before["items"] or after["height"] > before["height"])
