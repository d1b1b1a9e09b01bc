"""Which hosts count as the user's proxies, and which names were refused."""

from __future__ import annotations

from llmcrawler.core.urls import AddressGuard
from llmcrawler.crawl import reachable_hosts
from llmcrawler.crawl.reachable_hosts import ReachableHosts


def hosts() -> ReachableHosts:
    return ReachableHosts(AddressGuard(("https://example.com/",)), None, checks_names=True)


def test_a_proxy_that_a_request_was_given_is_known_however_it_is_written() -> None:
    reachable = hosts()
    for address in ("http://me:secret@one.example:80", "two.example:8080", "http://[broken"):
        reachable.add_proxy(address)
    assert [reachable.is_proxy(name) for name in ("one.example", "two.example", "example.com")] == [True, True, False]


def test_of_the_refused_names_the_latest_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(reachable_hosts, "_MAX_REFUSED_NAMES", 2)
    reachable = hosts()
    for name in ("a.example", "b.example", "c.example"):
        reachable.add_refused_name(name, "private")
    assert list(reachable.refused_names) == ["b.example", "c.example"]
