"""From crawl to crawl by way of the file: which state a site gets, when it is saved, and what a fault does."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.storage import SiteState, TemplatesFile
from llmcrawler.core.understanding import template_store
from llmcrawler.core.understanding.extraction.corrections import correct_page_type
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.errors import ConfigError
from tests.core.understanding.templates.test_grouping import feed, pages


class Notes:
    """A part that keeps one word for a site."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def to_json(self, site: str) -> Any:
        return {"word": self.words.get(site, "")}

    def restore(self, site: str, value: Any, origin: str) -> None:
        self.words[site] = f"{value['word']} at {origin}"

    def describe(self, site: str, template: str) -> Mapping[str, Any]:
        return {"word": self.words.get(site)}


@pytest.fixture
def file(tmp_path: Path) -> TemplatesFile:
    return TemplatesFile(tmp_path / "learned.json")


async def crawl(file: TemplatesFile | None, origin: str = "http://site.test", count: int = 60) -> TemplateStore:
    """Crawl the same pages of a site, wherever it is."""
    crawl = TemplateStore(file, {"notes": Notes()})
    grouper = crawl.open(f"{origin}/")
    feed(grouper, [(url.replace("http://site.test", origin), features) for url, features in pages(count)])
    await crawl.close()
    return crawl


async def test_the_second_crawl_knows_what_the_first_has_learned(file: TemplatesFile) -> None:
    first = await crawl(file)
    second = TemplateStore(file, {})
    url, features = pages(60)[-1]
    assert second.open(url).assign(url, features).is_known
    third = await crawl(file)
    assert third.state_of("site.test").state["grouping"] == first.state_of("site.test").state["grouping"]


async def test_without_a_file_nothing_is_kept() -> None:
    crawl_of_nothing = TemplateStore(None, {"notes": Notes()})
    feed(crawl_of_nothing.open("http://site.test/"), pages(60))
    crawl_of_nothing.note_change()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is to be saved soon"
    await crawl_of_nothing.close()


@pytest.mark.parametrize(
    ("stored", "site", "found"),
    [
        (["a.test"], "a.test", "a.test"),
        (["a.test", "a.test:81"], "a.test:81", "a.test:81"),
        (["a.test:8000"], "a.test:9000", "a.test:8000"),
        (["a.test:8000"], "a.test", "a.test:8000"),
        (["a.test:8000", "a.test:8001"], "a.test:9000", None),
        (["b.test"], "a.test", None),
        (["[::1]:80"], "[::1]:81", "[::1]:80"),
    ],
)
def test_a_site_is_found_by_its_address_else_by_its_only_host(stored, site, found) -> None:
    sites: dict[str, Any] = {name: object() for name in stored}
    assert template_store.find_site(sites, site) is (sites[found] if found else None)


async def test_parts_are_restored_for_the_origin_of_the_present_crawl(file: TemplatesFile) -> None:
    file.save({"site.test": SiteState([], {**(await crawl(None)).state_of("site.test").state, "notes": {"word": "x"}})})
    notes = Notes()
    TemplateStore(file, {"notes": notes}).open("https://site.test:8443/page")
    assert notes.words == {"site.test:8443": "x at https://site.test:8443"}


async def test_parts_that_this_crawl_does_not_have_are_kept(file: TemplatesFile) -> None:
    first = await crawl(None)
    state = first.state_of("site.test")
    entries = [{**entry, "selectors": [entry["template"]]} for entry in state.templates]
    file.save({"site.test": SiteState(entries, {**state.state, "records": ["kept"]})})
    await crawl(file)
    stored = file.load()["site.test"]
    assert stored.state()["records"] == ["kept"]
    assert all(entry["selectors"] == [entry["template"]] for entry in stored.templates)


async def test_sites_of_one_file_have_ids_of_their_own(file: TemplatesFile) -> None:
    await crawl(file, "http://one.test")
    await crawl(file, "http://two.test")
    both = TemplateStore(file, {})
    prefixes = [both.open(f"http://{host}.test/").prefix for host in ("two", "one", "three")]
    assert prefixes == ["s1t", "t", "s2t"]


async def test_two_sites_with_the_same_ids_do_not_meet_in_one_crawl(file: TemplatesFile) -> None:
    await crawl(file, "http://site.test:8000")
    both = TemplateStore(file, {})
    assert both.open("http://site.test:8001/").prefix == "t"
    assert both.open("http://site.test:8000/").prefix == "s1t"


async def test_people_see_paths_and_what_the_parts_say(file: TemplatesFile) -> None:
    await crawl(file)
    entries = json.loads(file.path.read_text())["sites"]["site.test"]
    assert {entry["url_pattern"] for entry in entries} == {"/item/*/", "/list/*/", "/text/*/"}
    assert sum(entry["page_count"] for entry in entries) == 60
    assert all(entry["examples"][0].startswith("/") and "word" in entry for entry in entries)


async def test_what_was_learned_is_saved_while_the_crawl_goes_on(
    file: TemplatesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, saved, save = asyncio.get_running_loop(), asyncio.Event(), file.save

    def save_and_tell(sites: Mapping[str, SiteState]) -> None:
        save(sites)
        loop.call_soon_threadsafe(saved.set)

    monkeypatch.setattr(file, "save", save_and_tell)
    crawl = TemplateStore(file, {}, save_seconds=0)
    feed(crawl.open("http://site.test/"), pages(60))
    crawl.note_change()
    await saved.wait()
    assert file.load().keys() == {"site.test"}
    await crawl.close()


async def test_a_fault_of_the_disk_is_an_error_of_the_log_and_no_more(
    file: TemplatesFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_sites: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "save", full)
    with caplog.at_level(logging.WARNING):
        await crawl(file)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "No space left on device" in record.getMessage()
    assert str(file.path) in record.getMessage()


@pytest.mark.parametrize("state", [{}, {"grouping": {}}, {"grouping": None}])
def test_a_state_that_nobody_wrote_is_refused_with_its_site(file: TemplatesFile, state: dict[str, Any]) -> None:
    file.save({"site.test": SiteState([], state), "other.test": SiteState([], state)})
    with pytest.raises(ConfigError, match=r"damaged in the part about site\.test"):
        TemplateStore(file, {}).open("http://site.test/")


async def test_a_check_finds_what_the_crawl_would_stumble_over(file: TemplatesFile) -> None:
    await crawl(file)
    template_store.check(file, ["http://site.test/", "http://new.test/"], {})

    def refuse(_site: str, value: Any, origin: str) -> None:
        raise ValueError(f"{value} at {origin}")

    with pytest.raises(ConfigError, match=r"site\.test .*at http://site\.test"):
        template_store.check(file, ["http://site.test/"], {"notes": refuse})


async def test_a_site_that_a_person_has_corrected_keeps_its_templates_when_all_is_judged_anew(
    file: TemplatesFile,
) -> None:
    await crawl(file)
    (template, *_) = [one["template"] for one in file.load()["site.test"].templates]
    again = TemplateStore(file, {"notes": Notes()}, forgotten=("grouping",))
    assert again.open("http://site.test/").learned_groups() == []
    correct_page_type(file, "site.test", template, "product", ["product"])
    notes = Notes()
    again = TemplateStore(file, {"notes": notes}, forgotten=("grouping",))
    assert template in {one.template for one in again.open("http://site.test/").learned_groups()}
    assert notes.words == {}, "the rest is learned anew"
    correction = again.correction_of("site.test", template)
    assert correction is not None
    assert correction.page_type == "product"
    assert again.state_of("site.test").corrections == file.load()["site.test"].corrections
    assert again.correction_of("other.test", template) is None
