"""`scrapy crawl explore` through real proxies, as a user runs it."""

import json

import pytest

from tests.e2e.crawling import explore
from tests.servers.mock_site import MockSite
from tests.servers.proxy_server import (
    CAPTCHA_PAGE,
    FORBIDDEN,
    ProxyServer,
    all_in_thread,
    dead_proxy,
)


@pytest.fixture
def site():
    with MockSite().in_thread() as site:
        yield site


def through(*proxies: str) -> dict[str, object]:
    return {"PROXIES": ",".join(proxies)}


def test_of_twenty_proxies_the_fourteen_bad_ones_are_dropped_and_no_page_is_lost(tmp_path, site):
    alone = explore(tmp_path, site.url())
    good = [ProxyServer() for _ in range(6)]
    forbidden = [ProxyServer(FORBIDDEN) for _ in range(4)]
    captcha = [ProxyServer(CAPTCHA_PAGE) for _ in range(2)]
    with all_in_thread(*good, *forbidden, *captcha):
        addresses = [server.url for server in (*captcha, *forbidden)] + [dead_proxy() for _ in range(8)]
        outcome = explore(tmp_path, site.url(), through(*addresses, *(server.url for server in good)))
    assert outcome.exit_status == 0, outcome.log
    assert not outcome.error_kinds()
    assert {page["url"] for page in outcome.pages} == {page["url"] for page in alone.pages}
    assert len(outcome.pages) == len(alone.pages)
    assert {page["attempts"] for page in (page["error"] or {"attempts": 1} for page in outcome.pages)} == {1}
    assert "captcha" not in json.dumps(outcome.items)
    assert "'llmcrawler/proxies/dropped': 14" in outcome.log
    assert "'llmcrawler/proxies/dropped/dead': 8" in outcome.log
    assert "'llmcrawler/proxies/dropped/banned': 6" in outcome.log
    assert all(len(server.targets) > 3 for server in good)  # they take turns
    assert all(len(server.targets) <= 5 for server in (*forbidden, *captcha))
