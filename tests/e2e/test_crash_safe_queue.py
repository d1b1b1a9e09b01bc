"""The add-on CrashSafeQueue in a project of somebody else's: kill -9 at any moment, and the same command goes on."""

from __future__ import annotations

import re
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from llmcrawler.core.storage import State, read_job_file
from llmcrawler.core.storage.job_file import JOB_FILE, holds_job
from llmcrawler.core.storage.job_status import job_status
from tests.e2e.strangers_project import StrangersProject
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

COUNT = 90
EARLIER = '{"url": "http://earlier.example/"}\n'
# It has what ordinary spiders have: rules, an item class with a serializer, a date, a pipeline and a start url that is
# asked for with dont_filter, and so comes twice: once from the start, once as a link.
SPIDERS = """
from datetime import datetime
from decimal import Decimal
import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Thing(scrapy.Item):
    url = scrapy.Field()
    title = scrapy.Field(serializer=str.upper)
    seen = scrapy.Field()
    price = scrapy.Field()


class Numbering:
    def process_item(self, item):
        item["price"] = Decimal("1.10")
        return item


class ShopSpider(CrawlSpider):
    name = "shop"
    custom_settings = {"ITEM_PIPELINES": {Numbering: 1}}
    rules = [Rule(LinkExtractor(allow="/(item|list)/"), callback="parse_page", follow=True)]

    def parse_page(self, response):
        yield Thing(url=response.url, title=response.css("title::text").get(), seen=datetime(2026, 1, 2))

    parse_start_url = parse_page
"""


@pytest.fixture
def pages():
    return ManyPages(COUNT, latency_seconds=0.03)


@pytest.fixture
def site(pages):
    with MockSite(pages.routes()).in_thread() as site:
        yield site


def crash_safe(folder: Path, spider: str) -> StrangersProject:
    project = StrangersProject(folder, spider)
    project.set("CrashSafeQueue")
    return project


def paths_of(items) -> Counter[str]:
    return Counter(urlsplit(item["url"]).path or "/" for item in items)


def stored(job) -> set[str]:
    """The paths that are done in the job's file, with all that came of them."""
    if not holds_job(job / JOB_FILE):
        return set()
    with closing(read_job_file(job / JOB_FILE)) as connection:
        rows = connection.execute("SELECT url FROM urls WHERE state = ?", (State.DONE,)).fetchall()
    return {urlsplit(url).path or "/" for (url,) in rows}


def test_kill_9_again_and_again_loses_no_item_and_repeats_nothing_that_was_done(tmp_path, pages, site):
    shop = crash_safe(tmp_path, SPIDERS)
    command = ("crawl", "shop", "-a", f"at={site.url()}", "-s", "JOBDIR=job", "-O", "things.jsonl")
    random, repeats = Random(3), Counter[str]()
    shop.write_spider(SPIDERS + START)
    for _kill in range(3):
        done, before = stored(tmp_path / "job"), len(pages.requested)
        assert shop.run_until(pages, before + random.randint(10, 30), *command) == -signal.SIGKILL
        repeats += Counter(path for path in pages.requested[before:] if path in done)
    assert len(stored(tmp_path / "job")) > 1
    assert shop.run(*command) == 0, shop.log
    things = shop.items("things.jsonl")
    assert paths_of(things) == Counter(pages.paths)
    assert not repeats
    assert {thing["seen"] for thing in things} == {"2026-01-02T00:00:00"}
    assert {thing["price"] for thing in things} == {"1.10"}
    assert {thing["title"] for thing in things} >= {"EVERYTHING", "ITEM 0"}
    status = job_status(tmp_path / "job", 0.0)
    assert (status.state, status.urls["done"], status.urls["queued"]) == ("finished", COUNT, 0)


START = """
    async def start(self):
        yield scrapy.Request(self.at)
"""


QUEUE = '''
import json
import threading
import scrapy
from pathlib import Path


class QueueSpider(scrapy.Spider):
    """It hands an item on from page to page, and has an errback."""

    name = "queue"
    CALLBACK = None

    async def start(self):
        yield scrapy.Request(self.at, self.parse_home, dont_filter=True)

    def parse_home(self, response):
        for path in response.css("ul.links a::attr(href)").getall():
            yield response.follow(path, self.parse_list, cb_kwargs={"found_on": (response.url,)})
        yield response.follow("/nothing/", self.parse_list, errback=self.note, cb_kwargs={"found_on": ()})

    def parse_list(self, response, found_on):
        for path in response.css("ul.links a::attr(href)").getall():
            if "/item/" in path:
                meta = {**response.meta, "found_on": (*found_on, response.url)}
                yield response.follow(path, self.CALLBACK or self.parse_item, meta=meta)

    def parse_item(self, response):
        yield {"url": response.url, "trail": response.meta["found_on"]}

    def note(self, failure):
        yield {"url": failure.request.url, "trail": failure.value.response.status}
'''


def test_asked_to_stop_it_says_how_to_go_on_and_appends_each_item_once(tmp_path, pages, site):
    shop = crash_safe(tmp_path, QUEUE)
    (tmp_path / "things.jsonl").write_text(EARLIER)
    command = ("crawl", "queue", "-a", f"at={site.url()}", "-s", "JOBDIR=job", "-o", "things.jsonl")
    shop.run_until(pages, 20, *command, number=signal.SIGINT)
    assert "run the same command again" in shop.log
    assert shop.run_until(pages, 50, *command) == -signal.SIGKILL
    assert shop.run("crawl", "queue", "-a", "at=http://other.test", "-s", "JOBDIR=job") == 1
    assert "was started with other arguments: at was" in shop.log
    assert shop.run(*command) == 0, shop.log
    earlier, *things = shop.items("things.jsonl")
    assert earlier == {"url": "http://earlier.example/"}
    wanted = Counter(path for path in pages.paths if "/item/" in path)
    assert paths_of(things) == wanted + Counter(["/nothing/"])
    assert {len(thing["trail"]) for thing in things if "/item/" in thing["url"]} == {2}
    assert shop.run(*command) == 0, shop.log  # it is finished, and nothing is asked for again but robots.txt
    assert "'llmcrawler/replayed'" in shop.log
    assert shop.items("things.jsonl") == [earlier, *things]


@pytest.mark.nightly
def test_what_cannot_be_kept_is_refused_at_once_and_lost_to_nobody(tmp_path, pages, site):
    broken = QUEUE.replace("CALLBACK = None", "CALLBACK = staticmethod(lambda response: None)")
    shop = crash_safe(tmp_path, broken)
    command = ("crawl", "queue", "-a", f"at={site.url()}", "-s", "JOBDIR=job", "-O", "things.jsonl")
    assert shop.run(*command) == 1
    assert re.search(
        r"ERROR: JOBDIR: <GET http://.*/item/\d+/> cannot be kept .* its callback is the function", shop.log
    )
    assert "Traceback" not in shop.log
    assert not any("/item/" in path for path in pages.requested)
    shop.write_spider(QUEUE)
    assert shop.run(*command) == 0, shop.log
    assert sum("/item/" in thing["url"] for thing in shop.items("things.jsonl")) == sum(
        "/item/" in path for path in pages.paths
    )


def test_without_a_jobdir_it_leaves_scrapys_scheduler_in_its_place(tmp_path, pages, site):
    shop = crash_safe(tmp_path, QUEUE)
    assert shop.run("crawl", "queue", "-a", f"at={site.url()}", "-O", "things.jsonl") == 0
    assert "scheduler/enqueued/memory" in shop.log
    settings = ("-s", "JOBDIR=job", "-s", "SCHEDULER=scrapy.core.scheduler.Scheduler")
    assert shop.run("crawl", "queue", "-a", f"at={site.url()}", *settings) == 1
    assert "CrashSafeQueue has a scheduler of its own" in shop.log
