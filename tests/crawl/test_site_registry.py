"""The sites of one crawl, and how many templates they have together."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.crawl.site_registry import SiteRegistry


@pytest.fixture
def sites() -> SiteRegistry:
    parts: Any = Mock()
    return SiteRegistry(TemplateStore(None, {}), parts, parts)


def add_page(sites: SiteRegistry, url: str, *features: str) -> None:
    site = sites.of(url)
    site.grouper.assign(url, frozenset(features))
    sites.count_templates(site)


async def test_the_templates_of_all_sites_are_counted(sites: SiteRegistry) -> None:
    for host in ("one", "two"):
        for number in range(6):
            add_page(sites, f"http://{host}.test/p{number}", "body>main", "main>p", f"p>b.own{number}")
            add_page(sites, f"http://{host}.test/list/{number}", "body>table", "table>tr", f"td>i.own{number}")
    before = sites.template_count
    both = [sites.of("http://one.test/"), sites.of("http://two.test/")]
    assert before == sum(site.grouper.group_count for site in both) > 2
    await sites.recluster(both[0])
    assert sites.template_count == sum(site.grouper.group_count for site in both) < before


def test_a_new_site_asks_nothing_of_those_before_it(monkeypatch: pytest.MonkeyPatch, sites: SiteRegistry) -> None:
    """A crawl of many thousand hosts would take quadratic time."""
    for number in range(20):
        add_page(sites, f"http://host{number}.test/", "body>main")
    for number in range(20):
        monkeypatch.setattr(sites.of(f"http://host{number}.test/"), "grouper", None)
    add_page(sites, "http://new.test/", "body>main")
    assert sites.template_count == 21
    assert sites.of("http://new.test/").grouper.prefix == "s20t"
