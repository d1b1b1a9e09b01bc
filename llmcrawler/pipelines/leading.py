"""Where one worker learns a site for all: a page's stage runs here if that is this one, else there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any
from weakref import WeakValueDictionary

from llmcrawler.fleet.pages import RESULTS, page_of_json, page_to_json, results_to_json
from llmcrawler.items import Page, PageError
from llmcrawler.wiring import Crawl

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

Work = Callable[[Page], Awaitable[PageError | None]]


async def led(crawl: Crawl, page: Page, stage: str, work: Work) -> PageError | None:
    """The stage's work on the page. Raises WorkGivenBack when this worker leaves while it waits for the other."""
    if crawl.crew is None:
        return await work(page)
    site = crawl.site_of(page.url).name
    leads, answer = await crawl.crew.desk.ask(site, stage, lambda: page_to_json(page, with_html=stage == "record"))
    if leads:
        return await _alone(work, page)
    for name in RESULTS:
        setattr(page, name, answer[name])
    return PageError(**answer["error"]) if answer["error"] else None


async def _alone(work: Work, page: Page) -> PageError | None:
    """A page whose lease was lost may come from two workers; what waits for a template is known by its url."""
    lock = _locks.setdefault(page.id, asyncio.Lock())
    async with lock:
        return await work(page)


async def answer_for_another(work: Work, body: Any) -> dict[str, Any]:
    page = page_of_json(body)
    error = await _alone(work, page)
    return results_to_json(page, None if error is None else asdict(error))
