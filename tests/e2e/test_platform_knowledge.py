"""Crawls that share a KNOWLEDGE_FILE: a site starts from what other sites of its platform have taught."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.crawling import Outcome, explore
from tests.e2e.test_records import induced, scores_of, served
from tests.servers.fake_llm import FakeLLM
from tests.servers.platform_sites import answer_of_sites, platform_site
from tests.servers.record_sites import Site, SitePage
from tests.servers.teacher import path_of


class Crawled:
    """A crawl of one site, with what its model was asked."""

    def __init__(self, folder: Path, site: Site, knowledge: Path | None = None, **arguments: Any) -> None:
        with served(site).in_thread() as server:
            answer = answer_of_sites({urlsplit(server.url("/")).netloc: site})
            with FakeLLM(answer).in_thread() as llm:
                settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
                settings |= {"KNOWLEDGE_FILE": str(knowledge)} if knowledge else {}
                self.outcome: Outcome = explore(folder, server.url("/"), settings, **arguments)
        assert self.outcome.exit_status == 0, self.outcome.log
        assert "Traceback" not in self.outcome.log
        self.calls = len(llm.documents)
        self.induced = len(induced(llm))
        self.f1 = scores_of(self.outcome, site).macro
        self.ways = {page["decided_by"] for page in self.outcome.pages if page["decided_by"]}


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What four sites have taught, of which the model has seen three pages each: ten are asked for."""
    folder = tmp_path_factory.mktemp("taught")
    for number in (1, 2, 9, 10):  # of one theme, and without fields of their own
        crawled = Crawled(folder, platform_site("WordPress", number), folder / "knowledge.sqlite")
        assert crawled.induced > 0
        assert number == 9 or "platform" not in crawled.ways, "the 1st, 2nd, 4th, 8th, ... learn by themselves"
    return folder / "knowledge.sqlite"


def copied(knowledge: Path, folder: Path) -> Path:
    target = folder / "knowledge.sqlite"
    target.write_bytes(knowledge.read_bytes())
    return target


def test_a_fifth_site_asks_nothing_and_has_the_same_records(tmp_path: Path, knowledge: Path) -> None:
    site = platform_site("WordPress", 14)
    crawled = Crawled(tmp_path, site, copied(knowledge, tmp_path))
    assert crawled.calls == 0, crawled.outcome.log
    assert crawled.f1 >= Crawled(tmp_path, site).f1
    assert crawled.ways == {"platform"}
    assert {template["platform"] for template in crawled.outcome.templates} == {"WordPress"}
    assert "'llmcrawler/knowledge/adopted': 1" in crawled.outcome.log


def test_pages_that_claim_a_platform_which_did_not_make_them_gain_nothing(tmp_path: Path, knowledge: Path) -> None:
    ghost = platform_site("Ghost", 9)
    pages = [replace(page, html=page.html.replace('content="Ghost ', 'content="WordPress ')) for page in ghost.pages]
    crawled = Crawled(tmp_path, replace(ghost, pages=tuple(pages)), copied(knowledge, tmp_path))
    assert {template["platform"] for template in crawled.outcome.templates} == {"WordPress"}
    assert crawled.induced > 0
    assert "'llmcrawler/knowledge/adopted'" not in crawled.outcome.log
    articles = {page.path for page in ghost.records}
    assert {path_of(page["url"]) for page in crawled.outcome.pages if page["page_type"] == "article"} == articles


def test_other_fields_are_another_task(tmp_path: Path, knowledge: Path) -> None:
    crawled = Crawled(tmp_path, platform_site("WordPress", 14), copied(knowledge, tmp_path), fields="headline,author")
    assert crawled.induced > 0
    assert "platform" not in crawled.ways


def test_a_site_that_looks_alike_and_means_something_else_learns_by_itself(tmp_path: Path, knowledge: Path) -> None:
    site = platform_site("WordPress", 14)
    # Where others name their section there are numbers: the look of the values tells.
    pages = [_with_numbers(page) if page.page_type == site.page_type else page for page in site.pages]
    odd = replace(site, pages=tuple(pages))
    crawled = Crawled(tmp_path, odd, copied(knowledge, tmp_path))
    assert crawled.induced > 0
    assert crawled.f1 >= Crawled(tmp_path, odd).f1
    assert "'llmcrawler/knowledge/refused': 1" in crawled.outcome.log


def _with_numbers(page: SitePage) -> SitePage:
    section = page.fields["section"]
    number = f"No. {len(page.html)}"
    html = re.sub(rf">\s*{re.escape(section)}\s*<", f">{number}<", page.html)
    return replace(page, html=html, fields={**page.fields, "section": number})


@pytest.mark.parametrize("content", [b"no database" * 500, None])
def test_a_file_that_cannot_be_used_is_a_usage_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "knowledge.sqlite"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    outcome = explore(tmp_path, "http://127.0.0.1:9/", {"KNOWLEDGE_FILE": file})
    assert outcome.exit_status == 2
    assert f"KNOWLEDGE_FILE={file}" in outcome.log
    assert "Traceback" not in outcome.log
