"""A stage that learns over a site runs at the worker that owns it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.distributed.page_json import page_to_json
from llmcrawler.errors import STOPPED, StorageFailed, WorkGivenBack
from llmcrawler.items import Page, PageContent, PageError
from llmcrawler.pipelines.site_stage import SiteStage
from llmcrawler.pipelines.stage import StageRules

URL = "http://site.test/1"
SITES: Any = SimpleNamespace(of=lambda _url: SimpleNamespace(name="site.test"))


class Typing(SiteStage):
    name = "typing"

    async def run_here(self, page: Page) -> PageError | None:
        page.page_type = "product"
        return PageError("typing", "doubtful", "it may be another") if page.title == "?" else None


class Session:
    """Another worker owns the site unless `is_owner`."""

    def __init__(self, *, is_owner: bool = False) -> None:
        self.handlers: dict[str, Any] = {}
        self.site_requests = SimpleNamespace(ask=self._ask)
        self._is_owner = is_owner

    def answer(self, kind: str, handler: Any) -> None:
        self.handlers[kind] = handler

    async def _ask(self, _site: str, kind: str, body: Any) -> tuple[bool, Any]:
        if self._is_owner:
            return True, None
        return False, await self.handlers[kind](body())


def a_page(title: str = "A lamp") -> Page:
    page = Page(url=URL, title=title)
    page.content = PageContent(features=frozenset({"html>body"}))
    return page


def rules(**options: Any) -> StageRules:
    return StageRules(MemoryStatsCollector(get_crawler()), **options)


@pytest.mark.parametrize("session", [None, Session(is_owner=True), Session()])
async def test_a_page_gets_what_the_stage_finds_wherever_it_runs(session: Any) -> None:
    stage, page = Typing(rules(), SITES, session=session), a_page()
    await stage.process_item(page)
    assert (page.page_type, page.error) == ("product", None)
    await stage.process_item(doubtful := a_page("?"))
    assert doubtful.error == PageError("typing", "doubtful", "it may be another")


async def test_a_question_of_another_worker_goes_back_when_this_one_is_stopped_over_it() -> None:
    class Stopped(Typing):
        async def run_here(self, page: Page) -> PageError | None:
            return PageError("typing", STOPPED, f"the crawl was stopped before {page.url} was judged")

    session: Any = Session()
    Stopped(rules(), SITES, session=session)
    with pytest.raises(WorkGivenBack):
        await session.handlers["typing"](page_to_json(a_page(), with_html=False))


async def test_a_question_of_another_worker_is_answered() -> None:
    session: Any = Session()
    Typing(rules(), SITES, session=session)
    answer = await session.handlers["typing"](page_to_json(a_page(), with_html=False))
    assert (answer["page_type"], answer["error"]) == ("product", None)


async def test_a_page_is_dropped_and_goes_back_when_this_worker_leaves_or_its_redis_is_gone() -> None:
    async def leave(*_: Any) -> Any:
        raise WorkGivenBack

    def fail() -> None:
        raise StorageFailed("Redis is gone")

    leaving: Any = SimpleNamespace(site_requests=SimpleNamespace(ask=leave), answer=lambda *_: None)
    for stage in (Typing(rules(), SITES, session=leaving), Typing(rules(check_storage=fail), SITES)):
        with pytest.raises(Exception, match=r"this worker leaves|the crawl is being closed"):
            await stage.process_item(a_page())
