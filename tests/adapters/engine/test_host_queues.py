"""Hosts take turns, and one without room is looked at again when somebody says so; requests that wait come back."""

from __future__ import annotations

import asyncio

from scrapy import Request

from llmcrawler.engine.host_queues import DelayedRequests, HostQueues
from llmcrawler.engine.request_context import context_of, update_context
from tests.adapters.stubs import stub


def queues(*entries: str) -> HostQueues[str]:
    made: HostQueues[str] = HostQueues()
    for entry in entries:
        made.put(entry[0], entry)
    return made


def test_hosts_take_turns_and_each_gives_its_entries_in_order():
    made = queues("a1", "a2", "a3", "b1", "c1", "c2")
    assert [made.take(lambda _host: True) for _ in range(7)] == ["a1", "b1", "c1", "a2", "c2", "a3", None]
    assert (len(made), made.ready, list(made)) == (0, 0, [])


def test_a_host_without_room_is_not_asked_about_again_until_it_may_have_some():
    made, asked, full = queues("a1", "a2", "b1"), [], {"a"}

    def may_have(host: str) -> bool:
        asked.append(host)
        return host not in full

    assert made.take(may_have) == "b1"
    assert made.take(may_have) is None
    made.put("a", "a3")
    assert asked == ["a", "b"]
    assert (len(made), made.ready, made.count("a")) == (3, 0, 3)
    assert not made.look_again("a", may_have)
    full.clear()
    assert made.look_again("a", may_have)
    assert not made.look_again("b", may_have)
    assert made.ready == 3
    assert made.take(may_have) == "a1"


def test_all_entries_are_drained_those_of_hosts_without_room_too():
    made = queues("a1", "b1")
    made.take(lambda host: host == "b")
    assert made.drain() == ["a1"]
    assert (len(made), made.ready) == (0, 0)


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
