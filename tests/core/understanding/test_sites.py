"""The sites of one crawl, and how many templates they have together."""

from __future__ import annotations

import sqlite3
import sys
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest

from llmcrawler.core.content import Boilerplate, PageReader
from llmcrawler.core.understanding.sites import SiteRegistry, SiteShelf
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.understanding.templates.page_sample import words_of
from tests.adapters.stubs import stub


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


def html_of(host: str, number: int) -> str:
    kind = "article" if number % 2 else "section"
    rows = "".join(f"<p>Row {row} of page {number} of {host} says something else again.</p>" for row in range(6))
    return f"<html><body><nav><a href='/'>{host}</a></nav><{kind}><h1>Page {number}</h1>{rows}</{kind}></body></html>"


async def visit(sites: Any, visits: list[tuple[str, int]]) -> list[str]:
    """Put pages into groups, host by host as they come, and return their templates."""
    reader, found = PageReader(1_000_000), []
    for host, number in visits:
        url = f"http://{host}.test/{number}"
        content = await reader.read(html_of(host, number), url)
        site = sites.of(url)
        site.boilerplate.observe(content.blocks)
        assigned = site.grouper.assign(url, content.features, words_of(content), title=content.title)
        await sites.recluster(site)
        sites.count_templates(site)
        found.append(site.grouper.resolve(assigned.template))
    return found


def registry(most_awake: int) -> tuple[SiteRegistry, TemplateStore]:
    templates = TemplateStore(None, {})
    learning: Any = stub(regroup=lambda *_: None)
    return SiteRegistry(templates, learning, learning, most_awake=most_awake), templates


async def test_sites_that_were_put_away_go_on_as_if_they_had_not_been():
    visits = [(f"host{number % 7}", number // 7) for number in range(7 * 16)]
    whole, kept_whole = registry(100)
    small, kept_small = registry(2)
    assert await visit(small, visits) == await visit(whole, visits)
    assert small.template_count == whole.template_count > 7
    names = [site.name for site in whole]
    assert [site.name for site in small] == names
    for name in names:
        assert kept_small.state_of(name) == kept_whole.state_of(name)
    blocks = [[vars(site.boilerplate) for site in sites] for sites in (small, whole)]
    assert blocks[0] == blocks[1]


def test_what_somebody_holds_is_not_put_away():
    shelf: SiteShelf[Boilerplate] = SiteShelf(1)
    shelf["a"] = held = Boilerplate()
    shelf["b"], shelf["c"] = Boilerplate(), Boilerplate()
    held.observe(())
    assert shelf["a"] is held
    assert [name in shelf for name in "abcd"] == [True, True, True, False]
    with pytest.raises(KeyError):
        shelf["d"]


class Packed:
    times = 0

    def __getstate__(self) -> None:
        Packed.times += 1


def test_what_is_held_is_not_packed_in_vain():
    shelf: SiteShelf[Packed] = SiteShelf(1)
    held = [Packed() for _ in range(100)]
    for number, value in enumerate(held):
        shelf[str(number)] = value
    assert not Packed.times
    assert shelf["0"] is held[0]


def test_sites_stay_in_memory_where_no_file_can_be_written(monkeypatch, caplog):
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("llmcrawler.core.understanding.sites.sqlite3.connect", refuse)
    shelf: SiteShelf[Boilerplate] = SiteShelf(1)
    for name in "abc":
        shelf[name] = Boilerplate()
    assert all(isinstance(shelf[name], Boilerplate) for name in "abc")
    assert len(caplog.records) == 1


def test_a_shelf_that_another_thread_collects_closes_its_file_without_an_error(monkeypatch):
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    shelves: list[SiteShelf[Boilerplate]] = [SiteShelf(1)]
    for name in "ab":
        shelves[0][name] = Boilerplate()
    thread = Thread(target=shelves.clear)
    thread.start()
    thread.join()
    assert not errors
