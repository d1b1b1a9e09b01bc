"""The add-on CrashSafeQueue in a project of somebody else's: kill -9 at any moment, and the same command goes on."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.strangers_project import StrangersProject
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

COUNT = 90
EARLIER = '{"url": "http://earlier.example/"}\n'


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


def test_without_a_jobdir_it_leaves_scrapys_scheduler_in_its_place(tmp_path, pages, site):
    shop = crash_safe(tmp_path, QUEUE)
    assert shop.run("crawl", "queue", "-a", f"at={site.url()}", "-O", "things.jsonl") == 0
    assert "scheduler/enqueued/memory" in shop.log
    settings = ("-s", "JOBDIR=job", "-s", "SCHEDULER=scrapy.core.scheduler.Scheduler")
    assert shop.run("crawl", "queue", "-a", f"at={site.url()}", *settings) == 1
    assert "CrashSafeQueue has a scheduler of its own" in shop.log
