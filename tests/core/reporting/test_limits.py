"""Little's law names the limit that binds."""

from __future__ import annotations

import pytest

from llmcrawler.core.reporting import DownloadFlow, HostThrottle, binding_limit


def flow(concurrency: float = 5, gap: float = 0.2, waiting: int = 2, hosts: int = 1, total: int = 32) -> DownloadFlow:
    throttles = [HostThrottle(f"h{n}", concurrency, gap, in_flight=1, waiting=waiting) for n in range(hosts)]
    return DownloadFlow(throttles, total)


@pytest.mark.parametrize(
    ("state", "rate", "latency", "name", "words"),
    [
        # 5 in flight at 1.4 s allow 3.6 starts/s, the gap would allow 5.
        (flow(), 3.5, 1.4, "requests in flight per host", "3.5/s x 1.40 s = 4.9 of 5"),
        (flow(), 4.9, 0.1, "the gap between requests", "4.9 of 5.0 requests/s"),
        # Ten hosts with room for 50 in flight, but 8 over all.
        (flow(gap=0, hosts=10, total=8), 7.9, 1.0, "requests in flight", "7.9/s x 1.00 s = 7.9 of 8"),
        # The slower of the limits would let 50 through.
        (flow(gap=0), 20, 0.1, "the speed of this machine", "20.0 requests/s where 50.0 are allowed"),
        (flow(gap=0), 100, 0.0, "the speed of this machine", "5000.0 are allowed"),
        (DownloadFlow(flow().hosts, 32, backing_out=True), 4.9, 0.1, "pages in process", "downloads wait"),
    ],
)
def test_the_limit_that_binds_is_named_with_its_figures(
    state: DownloadFlow, rate: float, latency: float, name: str, words: str
) -> None:
    limit = binding_limit(state, rate, latency, queued=100)
    assert limit is not None
    assert limit.name == name
    assert words in limit.words


def test_a_crawl_with_nothing_waiting_is_held_back_by_the_urls_it_knows() -> None:
    limit = binding_limit(flow(waiting=0), 1.0, 0.1, queued=0)
    assert limit is not None
    assert limit.name == "waiting for links to follow"


@pytest.mark.parametrize(
    ("rate", "latency", "state"), [(0.0, 0.1, flow()), (1.0, None, flow()), (1.0, 0.1, DownloadFlow())]
)
def test_nothing_is_said_before_there_is_something_to_judge_by(
    rate: float, latency: float | None, state: DownloadFlow
) -> None:
    assert binding_limit(state, rate, latency, queued=10) is None
