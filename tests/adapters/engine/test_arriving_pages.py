"""The engine asks for requests again as soon as fewer pages are being read, and not when one of them is through."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import date

from llmcrawler.core.frontier import Admission, MemoryFrontier
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.urls import AddressGuard, Scope, TrapGuard
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.context import ArrivingPages
from llmcrawler.engine.page_budget import PageBudget, SiteBudgets
from llmcrawler.engine.scheduler import FrontierScheduler
from tests.adapters.stubs import stub


def test_the_engine_is_woken_once_when_pages_that_came_in_at_once_have_been_read():
    woken: list[str] = []
    engine = stub(_slot=stub(nextcall=stub(schedule=lambda: woken.append("now"))))
    arriving = ArrivingPages()
    frontier = MemoryFrontier()
    scheduler = FrontierScheduler(
        stub(signals=stub(connect=lambda *_: None), stats=None, engine=engine),
        CrawlBackend(frontier, 3600.0),
        PageBudget(100),
        SiteBudgets(frontier, None),
        Admission(Scope(["http://a.test/"]), TrapGuard(date(2026, 1, 1)), AddressGuard(["http://a.test/"])),
        TemplateStore(None, {}),
        arriving,
    )
    with ExitStack() as reading:
        while not arriving.is_full:
            reading.enter_context(arriving.one())
        assert arriving.count == 32
        assert scheduler.next_request() is None
        assert woken == []
    assert arriving.count == 0
    assert woken == ["now"]
