"""What is known of a site comes back as it was, however many other sites there are."""

from __future__ import annotations

import sqlite3
import sys
from threading import Thread
from typing import Any

import pytest

from llmcrawler.core.content import Boilerplate, PageReader
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.understanding.templates import words_of
from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.crawl.site_shelf import SiteShelf
from tests.adapters.stubs import stub


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


def test_sites_stay_in_memory_where_no_file_can_be_written(monkeypatch, caplog):
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("llmcrawler.crawl.site_shelf.sqlite3.connect", refuse)
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
