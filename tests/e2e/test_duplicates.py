"""Pages that repeat another one: found, marked, cheap; over resumes, refreshes and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llmcrawler.commands import status
from tests.adapters.commands.run_here import printed
from tests.e2e.crawling import Outcome, crawl, explore
from tests.nightly import rest_by_night
from tests.servers.duplicate_site import KINDS, DuplicateSite
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

LABELS = [("/lamp/", "product"), ("/story/", "article"), ("/lists/", "listing")]
STORY = "It tells at some length what no other page tells, so that it is a text of its own, and nobody has told it."
FEW_RECORDS: dict[str, Any] = {"RECORD_PAGE_TYPES": "none"}


@pytest.fixture
def llm() -> Iterator[FakeLLM]:
    with FakeLLM(label_by_url(LABELS, "other")).in_thread() as server:
        yield server


def with_llm(llm: FakeLLM, **settings: Any) -> dict[str, Any]:
    return {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, **settings}


def duplicates(outcome: Outcome) -> dict[str, str]:
    """Return the paths of the duplicates with that of the page that each repeats."""
    found = {page["url"]: page["duplicate_of"] for page in outcome.pages if page["duplicate_of"]}
    return {path_of(url): path_of(first) for url, first in found.items()}


def path_of(url: str) -> str:
    return f"/{url.split('/', 3)[3]}"


@pytest.mark.nightly
def test_a_hundred_duplicates_of_ten_kinds_are_found_and_cost_no_call(tmp_path: Path, llm: FakeLLM) -> None:
    site = DuplicateSite()
    assert (len(site.pages), len(site.first), set(site.kind.values())) == (400, 100, set(KINDS))
    with MockSite(site.routes()).in_thread() as server:
        outcome = explore(tmp_path, server.url("/"), with_llm(llm, **FEW_RECORDS), max_pages=300)
    plain = DuplicateSite(with_duplicates=False)
    with MockSite(plain.routes()).in_thread() as server:
        without = explore(tmp_path, server.url("/"), FEW_RECORDS, max_pages=300)
    assert (len(without.pages), duplicates(without)) == (300, {})
    missed, wrong = site.faults(outcome.pages)
    assert (missed, wrong) == ([], [])
    assert len(outcome.pages) == 400  # they count apart in max_pages
    for page in outcome.pages:
        if page["duplicate_of"]:
            assert (page["text"], page["record"], page["page_type"], page["template"]) == (None, None, None, None)
            assert (page["status"], page["error"]) == (200, None)
            assert page["title"]
    shown = {page["url"] for document in llm.documents for page in document["pages"]}
    assert shown
    assert not shown & {page["url"] for page in outcome.pages if page["duplicate_of"]}
    assert "300 pages and 100 duplicates" in outcome.log


class Twins:
    """A front page, five stories, and each of them once more for printing. `gone` are answered with 404."""

    def __init__(self) -> None:
        self.gone: set[str] = set()

    def routes(self) -> dict[str, Any]:
        paths = [f"/story/{number}" for number in range(5)]
        stories = dict.fromkeys((*paths, *(f"{path}?print=1" for path in paths)), self._story)
        return {"/": self._home, "/robots.txt": "User-agent: *\nDisallow:", **stories}

    async def _home(self, _request: web.Request) -> web.Response:
        links = "".join(f'<a href="/story/{n}">Story {n}</a> <a href="/story/{n}?print=1">Print</a> ' for n in range(5))
        return web.Response(text=f"<title>Home</title><h1>Home</h1>{links}", content_type="text/html")

    async def _story(self, request: web.Request) -> web.Response:
        if request.path_qs in self.gone:
            return web.Response(status=404)
        number = request.path.rpartition("/")[2]
        text = f"<title>Story {number}</title><main><h1>Story {number}</h1><p>{STORY} {STORY} {number}</p></main>"
        return web.Response(text=text, content_type="text/html", headers={"ETag": f'"{number}"'})


PRINTS = {f"/story/{number}?print=1": f"/story/{number}" for number in range(5)}


def pairs(found: dict[str, str]) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in found.items()}


def test_duplicates_are_dropped_from_the_feed_or_kept_as_they_are(tmp_path: Path) -> None:
    with MockSite(Twins().routes()).in_thread() as site:
        job = {"JOBDIR": tmp_path / "job"}
        dropped = explore(tmp_path, site.url("/"), job, duplicates="drop")
        assert (len(dropped.pages), duplicates(dropped)) == (6, {})
        assert '"duplicates": 5' in printed(status.Command(), tmp_path / "job", "--json")
        assert "duplicates among those done" in printed(status.Command(), tmp_path / "job")
        marked = explore(tmp_path, site.url("/"), job)  # the ledger has them all
        assert (len(marked.pages), pairs(duplicates(marked))) == (11, pairs(PRINTS))
        kept = explore(tmp_path, site.url("/"), duplicates="keep")
        assert (len(kept.pages), duplicates(kept)) == (11, {})
        assert all(page["text"] for page in kept.pages)
        urls = tmp_path / "urls.txt"
        urls.write_text("\n".join(site.url(path) for pair in PRINTS.items() for path in pair), encoding="utf-8")
        listed = crawl("extract", tmp_path, {"urls": urls}, {})
        assert (len(listed.pages), duplicates(listed)) == (10, {})


@pytest.mark.parametrize("stage", rest_by_night(["classify", "content", "fetch"]))
def test_a_stage_that_is_forced_finds_the_same_duplicates(tmp_path: Path, stage: str) -> None:
    with MockSite(Twins().routes()).in_thread() as site:
        first = explore(tmp_path, site.url("/"), {"JOBDIR": tmp_path / "job"})
        again = explore(tmp_path, site.url("/"), {"JOBDIR": tmp_path / "job"}, force=stage)
    assert pairs(duplicates(first)) == pairs(PRINTS)
    assert pairs(duplicates(again)) == pairs(PRINTS)
    assert len(again.pages) == 11


@pytest.mark.nightly
def test_a_refresh_keeps_duplicates_and_brings_back_one_whose_first_page_is_gone(tmp_path: Path) -> None:
    twins, settings = Twins(), {"JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    with MockSite(twins.routes()).in_thread() as site:
        first = explore(tmp_path, site.url("/"), settings)
        found = duplicates(first)
        assert pairs(found) == pairs(PRINTS)
        again = explore(tmp_path, site.url("/"), settings, refresh=1)
        assert duplicates(again) == found
        assert {page["change"] for page in again.pages} == {"unchanged"}

        duplicate, gone = min(found.items())
        twins.gone.add(gone)
        third = explore(tmp_path, site.url("/"), settings, refresh=1)
        assert duplicates(third) == {path: other for path, other in found.items() if path != duplicate}
        assert third.page(gone)["change"] == "gone"
        back = third.page(duplicate)
        assert STORY in back["text"]
        assert back["change"] == "changed"
