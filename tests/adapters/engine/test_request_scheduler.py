"""The scheduler that keeps any spider's requests in a job: which go out, in which order, and what is refused."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from itemadapter import ItemAdapter
from scrapy import Field, FormRequest, Item, Request, Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.exceptions import DropItem
from scrapy.http import JsonRequest, Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler

from llmcrawler.engine.request_context import context_of
from llmcrawler.engine.request_scheduler import RequestScheduler, pack_item, pack_request, unpack_item, unpack_request
from llmcrawler.errors import ConfigError, WorkGivenBack
from tests.adapters.crawlers import NO_HANDLERS

URL = "http://a.test/"


class ShopSpider(Spider):
    name = "shop"
    found: tuple[Any, ...] = ()

    async def start(self):
        unused: tuple[Request, ...] = ()
        for request in unused:
            yield request

    def parse_item(self, response):
        yield from self.found

    def failed(self, failure):
        yield from self.found


class Opened:
    """An engine with a spider and this scheduler, which takes requests only where a test does."""

    def __init__(self, jobdir) -> None:
        settings = {"SCHEDULER": RequestScheduler, "JOBDIR": str(jobdir), "DOWNLOAD_HANDLERS": NO_HANDLERS}
        self.crawler = get_crawler(ShopSpider, settings)
        self.spider: Any = self.crawler._create_spider()
        self.crawler.spider = self.spider
        self.reasons: list[str] = []
        self.closed = asyncio.Event()
        self.crawler.signals.connect(self._note_reason, signals.spider_closed)

    async def __aenter__(self):
        self.crawler.engine = engine = ExecutionEngine(self.crawler, lambda _spider: None)
        await engine.open_spider_async()
        nextcall: Any = engine._slot.nextcall
        nextcall.schedule = lambda: None
        self.scheduler: Any = engine.scheduler
        return self

    async def __aexit__(self, *_):
        if not self.reasons:
            await self.crawler.engine.close_spider_async(reason="shutdown")

    def _note_reason(self, reason):
        self.reasons.append(reason)
        self.closed.set()

    @property
    def waiting(self) -> int:
        counts = self.scheduler.job.frontier.counts()
        return int(counts.queued + counts.leased)

    async def put(self, *requests) -> None:
        for request in requests:
            self.crawler.engine.crawl(request)
        await self.settle()

    async def settle(self) -> None:
        while self.scheduler._tasks:
            await asyncio.wait(self.scheduler._tasks)

    async def take(self) -> Request | None:
        """The next request, of those that are in the file by now."""
        request: Request | None = self.scheduler.next_request()
        if request is None:
            await self.settle()
            request = self.scheduler.next_request()
        return request

    async def take_all(self) -> list[str]:
        found = []
        while (request := await self.take()) is not None:
            found.append(request.url.removeprefix(URL))
            await self.scrape(request)
        return found

    async def scrape(self, request, *found) -> None:
        """Give a response to the request, of which its callback makes `found`."""
        self.spider.found = found
        response = Response(request.url, request=request)
        await maybe_deferred_to_future(self.crawler.engine.scraper.enqueue_scrape(response, request))
        await self.settle()


def page(path="", **values) -> Request:
    return Request(URL + path, **values)


def in_spider(opened, path="", **values) -> Request:
    return page(path, callback=opened.spider.parse_item, **values)


async def test_higher_priorities_go_out_first_and_then_what_came_first(tmp_path):
    async with Opened(tmp_path) as opened:
        await opened.put(*(in_spider(opened, f"{n}", priority=n % 3) for n in range(30)))
        first = await opened.take()
        await opened.scrape(first, in_spider(opened, "best", priority=9))
        assert first.url == f"{URL}2"
        order = [2, *(n for rest in (2, 1, 0) for n in range(30) if n % 3 == rest and n != 2)]
        assert await opened.take_all() == ["best", *map(str, order[1:])]


async def test_a_request_comes_out_as_it_went_in(tmp_path):
    async with Opened(tmp_path) as opened:
        given = Request(
            URL,
            callback=opened.spider.parse_item,
            errback=opened.spider.failed,
            method="PUT",
            headers={"X-Y": ["1", "2"]},
            body=b"\x00\xff",
            cookies=[{"name": "a", "value": "b"}],
            meta={"when": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, {2})},
            cb_kwargs={"thing": Thing(name="x")},
            priority=3,
            dont_filter=True,
            flags=["f"],
        )
        form = FormRequest(URL, formdata={"q": "1"})
        json = JsonRequest(URL, data={"q": 1})
        await opened.put(given, form, json)
        taken = [await opened.take() for _ in range(3)]
        assert [type(one) for one in taken] == [Request, FormRequest, JsonRequest]
        for one, other in zip((given, form, json), taken, strict=True):
            other.meta.pop("llmcrawler")
            assert one.to_dict(spider=opened.spider) == other.to_dict(spider=opened.spider)
        assert taken[0].callback == opened.spider.parse_item


async def test_duplicates_are_known_by_fingerprint_and_dont_filter_passes(tmp_path):
    async with Opened(tmp_path) as opened:
        same = page("?a=1&b=2"), page("?b=2&a=1"), page("?a=1&b=2#part"), page("?a=1&b=2", method="POST")
        await opened.put(*same, page("?a=1&b=2", dont_filter=True), page("?a=1&b=2", dont_filter=True))
        assert opened.waiting == 4
        assert opened.crawler.stats.get_value("dupefilter/filtered") == 2


async def test_what_was_not_through_is_there_again_and_what_was_is_not(tmp_path):
    def start(path):
        return page(path, dont_filter=True, meta={"is_start_request": True})

    async with Opened(tmp_path) as opened:
        await opened.put(start("1"), start("2"), start("2"))
        request = await opened.take()
        request.callback = opened.spider.parse_item
        again = in_spider(opened, "again", dont_filter=True)
        await opened.scrape(request, {"n": 1}, again, again.copy())
        await opened.take()  # it stays under way
    async with Opened(tmp_path) as opened:
        await opened.put(start("1"), start("2"), start("2"))
        assert opened.waiting == 4
        (line,) = [line async for _, line in opened.scheduler.job.earlier_lines()]
        assert [unpack_item(text) for text in line["items"]] == [{"n": 1}]


async def test_a_request_whose_item_was_cut_off_by_a_stop_is_for_the_next_run(tmp_path):
    class GiveBack:
        def process_item(self, item):
            raise DropItem("the crawl is being stopped") from WorkGivenBack()

    async with Opened(tmp_path) as opened:
        opened.crawler.engine.scraper.itemproc._add_middleware(GiveBack())
        await opened.put(page("1"))
        request = await opened.take()
        request.callback = opened.spider.parse_item
        await opened.scrape(request, {"n": 1})
    async with Opened(tmp_path) as again:
        assert [line async for line in again.scheduler.job.earlier_lines()] == []
        request = await again.take()
        assert request.url == f"{URL}1"


async def test_a_retry_goes_on_with_its_request_and_a_spiders_copy_of_the_meta_is_a_request_of_its_own(tmp_path):
    async with Opened(tmp_path) as opened:
        await opened.put(in_spider(opened, "1"))
        request = await opened.take()
        retry = request.copy()
        await opened.put(retry)
        assert opened.waiting == 1
        assert await opened.take() is retry
        await opened.scrape(retry, in_spider(opened, "2", meta=dict(retry.meta)), retry.replace(dont_filter=True))
        assert (opened.waiting, opened.scheduler.job.frontier.counts().done) == (2, 1)
        taken = [await opened.take() for _ in range(2)]
        assert [one.url for one in taken] == [URL + "2", URL + "1"]
        assert len({context_of(one).lease.url for one in (*taken, request)}) == 3


async def test_a_redirect_to_what_was_asked_for_before_ends_there_as_scrapy_has_it(tmp_path):
    async with Opened(tmp_path) as opened:
        await opened.put(in_spider(opened, "old"), in_spider(opened, "older"), in_spider(opened, "known"))
        old, older, known = [await opened.take() for _ in range(3)]
        await opened.put(old.replace(url=URL + "new"), older.replace(url=URL + "known"))
        assert (await opened.take()).url == URL + "new"
        assert await opened.take() is None
        await opened.scrape(known, page("new"), page("newer"))
        assert opened.waiting == 2  # old, which is on its way to new, and newer
        assert opened.crawler.stats.get_value("dupefilter/filtered") == 2
    async with Opened(tmp_path) as opened:
        old = await opened.take()
        await opened.put(old.replace(url=URL + "new"))
        assert (await opened.take()).url in {URL + "new", URL + "newer"}
        assert not opened.crawler.stats.get_value("dupefilter/filtered")


async def test_a_request_that_was_dropped_on_its_way_is_done_when_the_spider_is_idle(tmp_path):
    async with Opened(tmp_path) as opened:
        await opened.put(page("1"))
        await opened.take()
        opened.crawler.signals.send_catch_log(signals.spider_idle, spider=opened.spider)
        await opened.settle()
        counts = opened.scheduler.job.frontier.counts()
        assert (counts.leased, counts.dead + counts.done) == (0, 1)


async def test_what_cannot_be_kept_ends_the_crawl_and_its_page_is_read_again(tmp_path, caplog):
    async with Opened(tmp_path) as opened:
        await opened.put(in_spider(opened, "1"))
        await opened.scrape(await opened.take(), page("2", callback=lambda _response: None))
        await opened.closed.wait()
        assert opened.reasons == ["not_kept"]
        assert "<GET http://a.test/2> cannot be kept" in caplog.text
        await opened.crawler.signals.send_catch_log_async(signals.engine_stopped)
        assert opened.crawler.spider is None  # so that the exit status is 1
    async with Opened(tmp_path) as opened:
        assert await opened.take_all() == ["1"]


class Thing(Item):
    name = Field()
    price = Field(serializer=str)


@dataclass
class Offer:
    price: Decimal
    until: datetime


def no_method(response):
    return response


REFUSED = [
    ({"callback": no_method}, "its callback is the function no_method, and no method of the spider"),
    ({"errback": lambda _failure: None}, "its errback is the function REFUSED... and no method"),
    ({"meta": {"ok": 1, "lock": threading.Lock()}}, "its meta['lock'] is a lock, which pickle refuses"),
    ({"cb_kwargs": {"give": (x for x in "")}}, "its cb_kwargs['give'] is the generator"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_a_refusal_names_request_and_field_and_cure(values, message):
    with pytest.raises(ConfigError) as refused:
        pack_request(page(**values), ShopSpider())
    text = str(refused.value)
    assert re.search(re.escape(message).replace("REFUSED\\.\\.\\.", ".*"), text)
    assert text.startswith("JOBDIR: <GET http://a.test/> cannot be kept for a later run")
    assert text.endswith("or crawl without JOBDIR")


def test_a_request_whose_callback_is_gone_is_named():
    payload = pack_request(page(callback=(spider := ShopSpider()).parse_item), spider)
    with pytest.raises(ConfigError, match="parse_item"):
        unpack_request(payload, Spider("other"))


@pytest.mark.parametrize(
    "item",
    [
        {"price": Decimal("1.10"), "tags": {"a"}},
        Thing(name="x", price=Decimal(2)),
        Offer(Decimal("1.10"), datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_items_keep_their_class_and_values(item):
    found = unpack_item(pack_item(item, ItemAdapter(item), URL))
    assert type(found) is type(item)
    assert ItemAdapter(found).asdict() == ItemAdapter(item).asdict()


def test_an_item_that_cannot_be_kept_is_named_by_its_field():
    item = {"url": URL, "lock": threading.Lock()}
    with pytest.raises(ConfigError, match=r"an item of http://a.test/ cannot be kept.*its lock is a lock"):
        pack_item(item, item, URL)
