"""What every frontier backend does; a backend is one line in `frontier`'s params."""

import pytest

from llmcrawler.frontier import Counts, Frontier, MemoryFrontier, UrlTask

MANY = 100


@pytest.fixture(params=[MemoryFrontier])
def frontier(request: pytest.FixtureRequest) -> Frontier:
    return request.param()


def task(path: str, host: str = "a.example", rank: int = 0) -> UrlTask:
    return UrlTask(f"https://{host}{path}", host, rank=rank)


async def leased_paths(frontier: Frontier, limit: int = MANY, per_host: int = MANY) -> list[str]:
    return [lease.url.split("example")[1] for lease in await frontier.lease(limit, {}, per_host)]


async def test_a_url_is_queued_once_for_the_whole_crawl(frontier):
    assert await frontier.add([task("/1"), task("/2"), task("/1")]) == 2
    leases = await frontier.lease(MANY, {}, MANY)
    assert await frontier.ack(leases[0].url)
    assert await frontier.add([task("/1"), task("/2")]) == 0
    assert frontier.counts() == Counts(queued=0, leased=1, done=1)


async def test_lower_ranks_come_first_and_equal_ranks_in_order_of_arrival(frontier):
    await frontier.add([task("/late", rank=3), task("/b", rank=1), task("/a", rank=1), task("/first")])
    assert await leased_paths(frontier) == ["/first", "/b", "/a", "/late"]


async def test_no_more_than_the_limit_is_leased(frontier):
    await frontier.add(task(f"/{n}") for n in range(10))
    assert len(await frontier.lease(4, {}, MANY)) == 4
    assert frontier.counts() == Counts(queued=6, leased=4)


async def test_a_host_that_is_busy_leaves_room_for_the_others(frontier):
    await frontier.add([*(task(f"/{n}") for n in range(10)), task("/other", host="b.example", rank=9)])
    leases = await frontier.lease(MANY, {"a.example": 3}, per_host=5)
    assert [lease.task.host for lease in leases] == ["a.example", "a.example", "b.example"]


async def test_a_released_url_comes_back_at_its_old_place_with_one_more_attempt(frontier):
    await frontier.add([task("/1"), task("/2")])
    (first,) = await frontier.lease(1, {}, MANY)
    assert await frontier.release(first.url)
    (again,) = await frontier.lease(1, {}, MANY)
    assert (again.task, again.attempts) == (first.task, 2)


async def test_only_leased_urls_can_be_acknowledged_or_released(frontier):
    await frontier.add([task("/1")])
    assert not await frontier.ack("https://a.example/1")
    assert not await frontier.release("https://a.example/1")
    (lease,) = await frontier.lease(1, {}, MANY)
    assert await frontier.ack(lease.url)
    assert not await frontier.ack(lease.url)
    assert not await frontier.release(lease.url)


async def test_a_claimed_url_is_never_queued(frontier):
    assert await frontier.claim("https://a.example/target")
    assert not await frontier.claim("https://a.example/target")
    assert await frontier.add([task("/target")]) == 0


async def test_a_queued_url_cannot_be_claimed(frontier):
    await frontier.add([task("/1")])
    assert not await frontier.claim("https://a.example/1")
