"""One line per leased url, also when the spider breaks."""

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request
from scrapy.http import HtmlResponse

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.engine.request_context import CONTEXT, RequestContext
from llmcrawler.middlewares.leases import LeaseMiddleware
from tests.adapters.stubs import stub

URL = "https://example.com/x"


class Held(LeaseMiddleware):
    def _scheduler(self):
        return stub(holds=lambda held: held is lease)


lease = Lease(UrlTask(URL, "example.com"))


def middleware() -> LeaseMiddleware:
    return Held(stub(spider=None, stats=stub(inc_value=lambda _name: None)))


def response() -> HtmlResponse:
    return HtmlResponse(URL, request=Request(URL, meta={CONTEXT: RequestContext(lease=lease)}))


async def nothing() -> AsyncIterator[Any]:
    pages: tuple[Any, ...] = ()
    for page in pages:
        yield page


async def test_a_spider_without_a_page_gives_one_line():
    lines = [page async for page in middleware().process_spider_output(response(), nothing())]
    assert [page.error.kind for page in lines] == ["no_page"]


async def test_a_spider_that_breaks_gives_one_line():
    broken, guard = response(), middleware()
    lines = list(guard.process_spider_exception(broken, ValueError("no")))
    lines += [page async for page in guard.process_spider_output(broken, nothing())]
    assert [page.error.kind for page in lines] == ["internal"]
