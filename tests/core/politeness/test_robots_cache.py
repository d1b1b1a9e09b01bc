"""How long a robots.txt is kept, and which one is forgotten."""

import pytest

from llmcrawler.core.politeness.robots import RobotsAnswer, RobotsCache, robots_answer

HOUR, DAY = 3600.0, 24 * 3600.0
HTTP, HTTPS = "http://a.example", "https://a.example"


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_hosts_not_asked_for_are_forgotten_first(clock: Clock) -> None:
    kept = RobotsCache[str](clock, max_bytes=100)
    for host in "abc":
        kept.keep(host, host.upper(), 40)
        kept.get("a")
    assert [kept.get(host) for host in "abc"] == ["A", None, "C"]
    kept.keep("a", "larger", 500)
    assert [kept.get(host) for host in "ac"] == ["larger", None]
    kept.keep("a", "small", 1)
    kept.keep("d", "D", 99)
    assert [kept.get(host) for host in "ad"] == ["small", "D"]


def test_a_copy_serves_for_a_day(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    kept.keep(HTTPS, "one", 10)
    clock.seconds += DAY - 1
    assert kept.get(HTTPS) == "one"
    clock.seconds += 1
    assert kept.get(HTTPS) is None
    assert kept.last(HTTPS) == "one"
    kept.keep(HTTPS, "two", 10)
    assert kept.get(HTTPS) == "two"


def test_the_schemes_of_a_host_have_files_of_their_own(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    kept.keep(HTTPS, "one", 10)
    assert kept.get(HTTP) is None
    assert kept.last(HTTP) is None


def test_the_last_copy_serves_while_no_new_one_can_be_had_but_not_for_ever(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    assert not kept.renew(HTTP)
    kept.keep(HTTP, "one", 10)
    clock.seconds += DAY
    hours = 0
    while kept.renew(HTTP):
        assert kept.get(HTTP) == "one"
        clock.seconds += HOUR
        assert kept.get(HTTP) is None  # it is to be asked for again
        hours += 1
    assert hours == 29 * 24


def test_what_is_kept_for_a_time_is_asked_for_after_it(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    kept.keep(HTTP, "nothing", 10, until=1005.0)
    assert kept.get(HTTP) == "nothing"
    clock.seconds = 1005.0
    assert kept.get(HTTP) is None
    assert kept.last(HTTP) == "nothing"


@pytest.mark.parametrize(
    ("statuses", "answer"),
    [
        (range(200, 300), RobotsAnswer.FILE),
        (range(300, 400), RobotsAnswer.ABSENT),  # one that leads nowhere, or on and on
        ([*range(400, 429), *range(430, 500)], RobotsAnswer.ABSENT),
        ([429], RobotsAnswer.UNREACHABLE),
        (range(500, 1000), RobotsAnswer.UNREACHABLE),
        (range(100, 200), RobotsAnswer.UNREACHABLE),
    ],
)
def test_each_status_has_a_meaning(statuses: list[int], answer: RobotsAnswer) -> None:
    assert {robots_answer(status) for status in statuses} == {answer}
