"""Where one worker learns a site for all: a page's stage runs here if that is this one, else there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from llmcrawler.fleet.pages import RESULTS, page_of_json, page_to_json, results_to_json
from llmcrawler.items import Page, PageError
from llmcrawler.wiring import Crawl

Work = Callable[[Page], Awaitable[PageError | None]]


async def led(crawl: Crawl, page: Page, stage: str, work: Work) -> PageError | None:
    """The stage's work on the page. Raises WorkGivenBack when this worker leaves while it waits for the other."""
    if crawl.crew is None:
        return await work(page)
    site = crawl.site_of(page.url).name
    leads, answer = await crawl.crew.desk.ask(site, stage, lambda: page_to_json(page, with_html=stage == "record"))
    if leads:
        return await work(page)
    for name in RESULTS:
        setattr(page, name, answer[name])
    return PageError(**answer["error"]) if answer["error"] else None


async def answer_for_another(work: Work, body: Any) -> dict[str, Any]:
    page = page_of_json(body)
    error = await work(page)
    return results_to_json(page, None if error is None else asdict(error))
