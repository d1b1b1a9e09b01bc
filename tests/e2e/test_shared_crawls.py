"""`scrapy status` and `scrapy workers` on crawls that workers share, as a user types them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scrapy.exceptions import UsageError

from llmcrawler.commands import workers
from tests.adapters.commands.run_here import run_here
from tests.e2e.crawling import TIMEOUT_SECONDS, scrapy
from tests.e2e.test_fleet import Fleet
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer


class HeldSite:
    """A site whose items are answered when they are let go."""

    def __init__(self) -> None:
        self.pages = ManyPages(60)
        self.asked = threading.Event()  # for an item
        self.go = threading.Event()
        self._answer: Any = self.pages.routes()["/"]
        held = {path: self._item for path in self.pages.paths if path.startswith("/item/")}
        self.site = MockSite({**self.pages.routes(), **held})

    async def _item(self, request: web.Request) -> web.Response:
        self.asked.set()
        await asyncio.to_thread(self.go.wait, TIMEOUT_SECONDS)
        answer: web.Response = await self._answer(request)
        return answer

    @property
    def all_urls(self) -> set[str]:
        return {self.site.url(path) for path in self.pages.paths}


@pytest.fixture
def held() -> Iterator[HeldSite]:
    one = HeldSite()
    with one.site.in_thread():
        yield one
        one.go.set()


def crawl(folder: Path, url: str, redis: RedisServer, crawl_id: str, **settings: Any) -> Fleet:
    (folder / crawl_id).mkdir()
    given = {"REDIS_URL": redis.url, "CRAWL_ID": crawl_id, "LOG_LEVEL": "INFO", **settings}
    return Fleet(folder / crawl_id, url, given)


def until(claim: Callable[[], Any]) -> Any:
    """Wait for what holds sooner or later, and return it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := claim()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def status(redis: RedisServer, crawl_id: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(scrapy("status", redis.url, crawl_id, "--json").stdout)
    return value


@pytest.mark.nightly
def test_a_paused_crawl_ends_what_is_under_way_and_waits_while_another_one_goes_on(tmp_path, held, redis):
    other = ManyPages(10)
    with (
        MockSite(other.routes()).in_thread() as other_site,
        crawl(tmp_path, held.site.url(), redis, "shop") as shop,
        crawl(tmp_path, other_site.url(), redis, "blog") as blog,
    ):
        first = shop.start()
        until(held.asked.is_set)
        done = scrapy("workers", "pause", redis.url, "shop")
        assert (done.returncode, f"scrapy workers resume {redis.url} shop" in done.stdout) == (0, True), done.stderr
        until(lambda: f"The crawl is paused; resume it with: scrapy workers resume {redis.url} shop" in shop.log(0))
        second = shop.start()
        until(lambda: "The crawl is paused" in shop.log(1))
        held.go.set()
        shown = until(lambda: (one := status(redis, "shop"))["urls"]["leased"] == 0 and one)
        assert (shown["state"], shown["urls"]["queued"] > 0) == ("paused", True)
        assert [one["state"] for one in shown["workers"]] == ["here", "here"]
        asked = len(held.pages.answered)
        assert blog.start().wait(TIMEOUT_SECONDS) == 0, blog.log(0)
        assert blog.pages().keys() == {other_site.url(path) for path in other.paths}
        assert (len(held.pages.answered), first.poll(), second.poll()) == (asked, None, None)
        assert scrapy("status", redis.url).stdout.splitlines() == ["blog", "shop"]
        done = scrapy("workers", "resume", redis.url, "shop")
        assert (done.returncode, done.stdout) == (0, "shop: goes on\n"), done.stderr
        assert [one.wait(TIMEOUT_SECONDS) for one in (first, second)] == [0, 0], shop.log(0) + shop.log(1)
        assert shop.pages() == dict.fromkeys(held.all_urls, 1)
        assert "Traceback" not in shop.log(0) + shop.log(1)
        made = scrapy("report", tmp_path / "shop" / "pages-*.jsonl", "-o", tmp_path / "report.html")
        assert (made.returncode, f"{len(held.pages.paths)} pages" in made.stdout) == (0, True), made.stderr
    assert json.loads(scrapy("status", redis.url, "--json").stdout)["crawls"] == ["blog", "shop"]
    for name, paths in (("blog", other.paths), ("shop", held.pages.paths)):
        over = status(redis, name)
        assert (over["state"], over["urls"]["done"]) == ("finished", len(paths))


def test_a_crawl_of_an_older_version_is_refused_and_what_is_wrong_is_said(tmp_path, held, redis):
    with redis.client() as client:
        client.hset("llmcrawler:shop:meta", mapping={"spec": "{}", "id": "one", "state": "running"})
    with crawl(tmp_path, held.site.url(), redis, "shop") as shop:
        assert shop.start().wait(TIMEOUT_SECONDS) == 2
        assert "another version of llmcrawler started it" in shop.log(0)
    for given, words in (
        (("pause", redis.url, "shop"), "another version"),
        (("pause", redis.url, "none"), "there is no crawl none"),
        (("resume", redis.url), "say what to do with which crawl"),
        (("stop", redis.url, "shop"), "say what to do with which crawl"),
        (("pause", "redis://127.0.0.1:1", "shop"), "no Redis responds there"),
    ):
        with pytest.raises(UsageError, match=words):
            run_here(workers.Command(), *given)
