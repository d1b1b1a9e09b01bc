"""Extracts listed urls, or listed requests: gives one line for each, and follows no links."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar, Final
from urllib.parse import urlsplit

from scrapy import Request

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.crawl.arguments import ExtractOptions
from llmcrawler.crawl.compat import is_closing
from llmcrawler.crawl.task_lists import ListedTask, place_of
from llmcrawler.items import Link
from llmcrawler.spiders.base import faulty_task
from llmcrawler.spiders.explore import ExploreSpider

_TASKS_AT_ONCE = 500
_AS_IT_WAS: Final = {"dont_redirect": True, "dont_retry": True, "dont_cache": True}
# Without a JOBDIR the queue is in memory, and the rest of a long list stays in its file until there is room.
_MAX_QUEUED, _LOOK_SECONDS = 20_000, 0.5


class ExtractSpider(ExploreSpider):
    """Fetches what a list names, through the stages of `explore`; see docs/extract.md for the arguments."""

    name = "extract"
    WITHHOLDS: ClassVar[bool] = False  # the user has named each url
    Options: ClassVar[type[ExtractOptions]] = ExtractOptions
    options: ExtractOptions

    async def _queue_given(self) -> None:
        assert self.options.listed is not None
        tasks = iter(self.options.listed)
        while some := [_task(listed) for listed in islice(tasks, _TASKS_AT_ONCE)]:
            await self._room()
            if is_closing(self.crawler):
                break
            await self._scheduler().add(some)
            await asyncio.sleep(0)

    def request_of(self, lease: Lease) -> Request:
        request = super().request_of(lease)
        if lease.task.payload is None:
            return request
        task = lease.task.details()
        if place_of(task) is not None:  # it is answered as it was: a redirect or a 503 are old ones
            return request.replace(url=lease.task.address, meta={**request.meta, **_AS_IT_WAS})
        meta = {**request.meta, "proxy_country": task.get("country"), "download_timeout": task.get("timeout")}
        if "cookies" in task:
            meta["cookiejar"] = lease.url  # they are of this task alone
        return request.replace(
            url=lease.task.address,
            method=task["method"],
            body=task.get("body"),
            headers=task.get("headers"),
            cookies=task.get("cookies"),
            meta={name: value for name, value in meta.items() if value is not None},
        )

    async def _follow(self, links: Iterable[Link], depth: int, referer: str, of: str | None = None) -> None:
        """Follow no link."""

    async def _room(self) -> None:
        while True:
            queued = self._scheduler().frontier.counts().queued
            if self.crawl.job is not None or queued < _MAX_QUEUED or is_closing(self.crawler):
                return
            await asyncio.sleep(_LOOK_SECONDS)


def _task(listed: ListedTask) -> UrlTask:
    if listed.fault:
        return faulty_task(listed)
    host = urlsplit(listed.url).netloc
    if listed.payload is None:
        return UrlTask(listed.url, host)
    return UrlTask.with_payload(listed.url, host, listed.payload)
