"""Requests that wait before they go out."""

from __future__ import annotations

import asyncio

from scrapy import Request

from llmcrawler.engine.host_queues import DelayedRequests
from llmcrawler.engine.request_context import context_of, update_context
from tests.adapters.stubs import stub


def waiting(seconds: float) -> Request:
    request = Request("http://a.test/")
    update_context(request, wait_seconds=seconds)
    return request


async def test_a_request_comes_back_after_the_time_that_it_asks_for_and_does_not_wait_again() -> None:
    back: asyncio.Future[Request] = asyncio.get_running_loop().create_future()
    delayed = DelayedRequests(stub(engine=None), back.set_result)
    request = waiting(0.001)
    assert delayed.hold(request)
    assert len(delayed) == 1
    assert await back is request
    assert len(delayed) == 0
    assert not delayed.hold(request)
    assert context_of(request).wait_seconds == 0


async def test_what_still_waits_is_given_out_when_it_need_not_wait_any_more() -> None:
    delayed = DelayedRequests(stub(engine=None), lambda _request: None)
    requests = [waiting(3600), waiting(3600)]
    assert all(map(delayed.hold, requests))
    assert delayed.drain() == requests
    assert delayed.drain() == []
    assert len(delayed) == 0
