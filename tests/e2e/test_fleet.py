"""Several workers on one crawl, in processes of their own, with a real Redis."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS, command, environment, scrapy
from tests.e2e.killing import lines_of, wait_until
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_hosts import ManyHosts
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer

LABELS = [("/item/", "product"), ("/list/", "listing")]
MOST_LEASES = 24  # that a worker holds of one host: what it fetches, what it has buffered, what waits for the model


class Fleet:
    def __init__(self, folder: Path, url: str, settings: dict[str, Any], max_pages: int = 10_000) -> None:
        self._folder = folder
        self._command = command({"url": url, "max_pages": max_pages}, settings, folder / "pages-%(worker)s.jsonl")
        self.workers: list[warm.Process] = []

    def start(self) -> warm.Process:
        with (self._folder / f"log{len(self.workers)}").open("w") as log:
            self.workers.append(warm.start(self._command, environment(), log, log))
        return self.workers[-1]

    def log(self, number: int) -> str:
        return (self._folder / f"log{number}").read_text(encoding="utf-8")

    def pages(self) -> Counter[str]:
        """How often each url has a line in all feeds together."""
        lines = [line for feed in self._folder.glob("pages-*.jsonl") for line in lines_of(feed)]
        return Counter(line["url"] for line in lines if line["kind"] == "page")

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


def test_a_worker_may_die_and_another_may_leave_and_no_page_is_lost(tmp_path):
    pages = ManyPages(120, latency_seconds=0.05)
    (tmp_path / "redis").mkdir()
    with (
        MockSite(pages.routes()).in_thread() as site,
        FakeLLM(label_by_url(LABELS, "homepage")).in_thread() as llm,
        RedisServer(tmp_path / "redis") as redis,
    ):
        settings = {
            "REDIS_URL": redis.url,
            "CRAWL_ID": "shop",
            "REDIS_LEASE_SECONDS": 10,  # long enough for a worker of a busy machine to be heard of
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": llm.base_url,
        }
        with Fleet(tmp_path, site.url(), settings) as fleet:
            first, second = fleet.start(), fleet.start()
            wait_until(lambda: len(pages.requested) >= 30, pages, first)
            first.kill()
            third = fleet.start()
            wait_until(lambda: len(pages.requested) >= 80, pages, second)
            second.send_signal(signal.SIGTERM)
            assert (second.wait(TIMEOUT_SECONDS), third.wait(TIMEOUT_SECONDS)) == (3, 0), fleet.log(2)
            found = fleet.pages()
            assert found.keys() == {site.url(path) for path in pages.paths}
            assert found.total() <= len(pages.paths) + MOST_LEASES
            assert "Traceback" not in fleet.log(1) + fleet.log(2)
        status = scrapy("status", redis.url, "shop")
        assert "finished" in status.stdout
        assert "lost" in status.stdout


@pytest.mark.parametrize("is_stopped", rest_by_night([True, False]))
def test_no_page_is_asked_for_twice_as_a_worker_joins_or_is_stopped(tmp_path, redis, is_stopped):
    """Pages of its sites wait then for others of their template, to be learned from."""
    hosts = ManyHosts(4, ManyPages(30))
    settings = {"REDIS_URL": redis.url, "CRAWL_ID": "shop", "DOWNLOAD_DELAY": 0.2}
    with hosts.in_thread(), Fleet(tmp_path, ",".join(hosts.urls), settings) as fleet:
        first = fleet.start()
        wait_until(lambda: hosts.requested >= 24, hosts.pages, first)
        second = fleet.start()
        if is_stopped:
            first.send_signal(signal.SIGTERM)
        statuses = (first.wait(TIMEOUT_SECONDS), second.wait(TIMEOUT_SECONDS))
        logs, found = fleet.log(0) + fleet.log(1), fleet.pages()
    assert statuses == (3 if is_stopped else 0, 0), logs
    assert ("This worker gave up" in logs) == (not is_stopped)
    assert "Traceback" not in logs
    asked = Counter(f"http://{host}:{hosts.port}{path}" for host, starts in hosts.starts.items() for _, path in starts)
    once = dict.fromkeys(hosts.all_pages, 1)
    assert (found, {url: asked[url] for url in once}) == (once, once)
