"""`scrapy apply`, and the same for programs: records of web archives by what a crawl has learned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import llmcrawler
from llmcrawler.storage.archives.archived_pages import pages_of_warc
from tests.e2e.crawling import Outcome, scrapy
from tests.e2e.test_records import crawled, served
from tests.servers.fake_llm import FakeLLM
from tests.servers.record_sites import make_site
from tests.servers.teacher import answer_from_truth

pytestmark = pytest.mark.server
SAME = ("title", "lang", "page_type", "template", "record", "record_by", "status")


class Learned(NamedTuple):
    folder: Path
    outcome: Outcome

    @property
    def archive(self) -> Path:
        return self.folder / "site.warc.gz"

    @property
    def templates(self) -> Path:
        return self.folder / "learned.json"

    @property
    def lines(self) -> dict[str, dict[str, Any]]:
        return {line["url"]: line for line in self.outcome.pages if line["content_hash"]}


def learn(folder: Path, name: str, **arguments: Any) -> Learned:
    site = make_site(name)
    feeds = {str(folder / "site.warc.gz"): {"format": "warc"}}
    settings = {"FEEDS": json.dumps(feeds), "TEMPLATES_FILE": folder / "learned.json"}
    with served(site).in_thread() as server, FakeLLM(answer_from_truth(site.truth())).in_thread() as llm:
        return Learned(folder, crawled(folder, server, llm, settings, duplicates="keep", **arguments))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn(tmp_path_factory.mktemp("shop"), "shop")


def apply(shop: Learned, out: Path, *options: object, archive: Path | None = None) -> Any:
    return scrapy("apply", shop.templates, archive or shop.archive, "-o", out, *options)


def lines_in(out: Path) -> list[dict[str, Any]]:
    parts = sorted(out.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def assert_as_crawled(lines: list[dict[str, Any]], learned: Learned) -> None:
    found = {line["url"]: line for line in lines if line["status"] == 200}
    assert found.keys() == learned.lines.keys()
    for url, line in learned.lines.items():
        assert {name: found[url][name] for name in SAME} == {name: line[name] for name in SAME}


def test_an_archive_has_the_records_of_its_crawl(tmp_path, shop):
    done = apply(shop, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert_as_crawled(lines_in(tmp_path / "out"), shop)
    assert f"{sum(1 for one in shop.lines.values() if one['record']):,} with a record" in done.stdout


@pytest.mark.parametrize("name", ["news", "jobs", "forum", "events"])
def test_other_sites_have_theirs_too(tmp_path, name):
    learned = learn(tmp_path, name)
    done = apply(learned, tmp_path / "out", "--processes", 1)
    assert done.returncode == 0, done.stderr
    assert_as_crawled(lines_in(tmp_path / "out"), learned)
