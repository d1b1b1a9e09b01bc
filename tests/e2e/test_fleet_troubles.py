"""What befalls the workers of one crawl and their Redis: each url has one line, and its host its gap, all the same."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest
from aiohttp import web

from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS
from tests.e2e.killing import wait_until
from tests.e2e.test_fleet import Fleet
from tests.servers.many_hosts import ManyHosts
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.server, pytest.mark.nightly]


def settings_of(redis: RedisServer, **others: Any) -> dict[str, Any]:
    """Without records: no page waits for others of its template."""
    own = {"REDIS_URL": redis.url, "CRAWL_ID": "shop", "REDIS_LEASE_SECONDS": 6, "RECORD_PAGE_TYPES": "none"}
    return own | others


def ended(workers: list[warm.Process]) -> list[int]:
    return [worker.wait(TIMEOUT_SECONDS) for worker in workers]


def done_in(client: Any) -> int:
    return int(client.hget("llmcrawler:shop:counts", "done") or 0)


def test_a_redis_that_stands_still_or_is_started_again_doubles_nothing_and_loses_nothing(tmp_path, redis):
    hosts = ManyHosts(4, ManyPages(60, latency_seconds=0.02))
    settings = settings_of(redis, REDIS_LEASE_SECONDS=3, DOWNLOAD_DELAY=0.1)
    with hosts.in_thread(), Fleet(tmp_path, ",".join(hosts.urls), settings) as fleet:
        workers = [fleet.start() for _ in range(3)]
        wait_until(lambda: hosts.requested >= 60, hosts.pages, workers[0])
        assert redis.process is not None
        redis.process.send_signal(signal.SIGSTOP)
        time.sleep(7)  # longer than a lease, and than a client waits for an answer
        redis.process.send_signal(signal.SIGCONT)
        asked = hosts.requested
        wait_until(lambda: hosts.requested >= asked + 30, hosts.pages, workers[0])
        redis.stop()
        time.sleep(4)
        redis.start()
        assert ended(workers) == [0] * 3, fleet.log(0)
        found, logs = fleet.pages(), "".join(map(fleet.log, range(3)))
    assert found == Counter(dict.fromkeys(hosts.all_pages, 1))
    assert "Traceback" not in logs


def test_a_worker_that_comes_back_after_others_took_over_writes_no_line_of_what_it_had(tmp_path, redis):
    """It stands still while the answers to its requests are on their way."""
    pages = ManyPages(60)
    answers = threading.Event()
    asked: list[str] = []

    async def item(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if len(asked) > 10:
            await asyncio.to_thread(answers.wait, TIMEOUT_SECONDS)
        return await pages._answer(request)

    routes = {path: item if path.startswith("/item/") else answer for path, answer in pages.routes().items()}
    with (
        MockSite(routes).in_thread() as site,
        Fleet(tmp_path, site.url(), settings_of(redis)) as fleet,
        redis.client() as client,
    ):
        first = fleet.start()
        wait_until(lambda: len(asked) >= 13 and done_in(client) == len(pages.answered), pages, first)
        first.send_signal(signal.SIGSTOP)
        second = fleet.start()
        wait_until(lambda: "This worker took over" in fleet.log(1), pages, second)
        answers.set()
        wait_until(lambda: done_in(client) >= len(pages.paths) - 5, pages, second)
        first.send_signal(signal.SIGCONT)
        assert ended([first, second]) == [0, 0], fleet.log(0) + fleet.log(1)
        assert fleet.pages() == Counter({site.url(path): 1 for path in pages.paths})
        assert "taken over this worker's sites" in fleet.log(0)
        assert "Traceback" not in fleet.log(0) + fleet.log(1)
