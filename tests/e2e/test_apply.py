"""`scrapy apply`, and the same for programs: records of web archives by what a crawl has learned."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from scrapy.exceptions import UsageError

import llmcrawler
from llmcrawler.api.archive_application import Application, apply_archives
from llmcrawler.api.public_api import learned_file
from llmcrawler.commands.apply import Command
from llmcrawler.core.storage.archives.archived_pages import pages_of_warc
from llmcrawler.core.understanding.page_extractor import LineRules
from tests.adapters.commands.run_here import run_here
from tests.e2e.crawling import Outcome, scrapy
from tests.e2e.test_records import crawled, served
from tests.servers.fake_llm import FakeLLM
from tests.servers.record_sites import make_site
from tests.servers.teacher import answer_from_truth

pytestmark = pytest.mark.server
# Not the template: a page's line has the name that it had when the page came, and pages are grouped anew later.
SAME = ("title", "lang", "page_type", "record", "record_by", "status")


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


def learn(folder: Path, name: str, more: dict[str, Any] | None = None, **arguments: Any) -> Learned:
    site = make_site(name)
    feeds = {str(folder / "site.warc.gz"): {"format": "warc"}}
    settings = {"FEEDS": json.dumps(feeds), "TEMPLATES_FILE": folder / "learned.json", **(more or {})}
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
        # A line that was written on doubt stays as it was, whatever its template has turned out to be.
        if line["record"] is not None or (line["confidence"] or 0) > 0.5:
            assert {name: found[url][name] for name in SAME} == {name: line[name] for name in SAME}


def test_an_archive_has_the_records_of_its_crawl(tmp_path, shop):
    done = apply(shop, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert_as_crawled(lines_in(tmp_path / "out"), shop)
    assert f"{sum(1 for one in shop.lines.values() if one['record']):,} with a record" in done.stdout


def test_parts_that_are_there_are_not_made_again_and_those_of_other_work_not_mixed(tmp_path, shop):
    out = tmp_path / "out"
    archives = [shutil.copy(shop.archive, tmp_path / f"{name}.warc.gz") for name in "ab"]
    given = [*archives, "-o", out, "--processes", 2]
    assert scrapy("apply", shop.templates, *given).returncode == 0
    first = {part.name: (part.stat().st_mtime_ns, part.read_bytes()) for part in out.glob("part-*")}
    assert len(first) == 2
    (out / "part-00001-00000.jsonl").unlink()
    again = scrapy("apply", shop.templates, *given)
    assert again.returncode == 0, again.stderr
    second = {part.name: (part.stat().st_mtime_ns, part.read_bytes()) for part in out.glob("part-*")}
    assert {name: data for name, (_, data) in second.items()} == {name: data for name, (_, data) in first.items()}
    assert second["part-00000-00000.jsonl"] == first["part-00000-00000.jsonl"]
    other = scrapy("apply", shop.templates, archives[0], "-o", out)
    assert other.returncode == 2
    assert "it has lines of other archives" in other.stderr


def test_lines_are_the_same_in_any_parts_and_as_parquet(tmp_path, shop):
    rules = LineRules.of()
    plain = tmp_path / "site.warc"
    plain.write_bytes(gzip.decompress(shop.archive.read_bytes()))
    for name, part_bytes, form, archive in (
        ("one", 2**30, "jsonl", shop.archive),
        ("many", 2_000, "jsonl", shop.archive),
        ("plain", 20_000, "jsonl", plain),
        ("table", 5_000, "parquet", shop.archive),
    ):
        work = Application(learned_file(shop.templates), (str(archive),), tmp_path / name, rules, form)
        counts = apply_archives(replace(work, part_bytes=part_bytes), processes=1 if form == "jsonl" else 2)
        assert counts.lines == len(lines_in(tmp_path / "one"))
    lines = lines_in(tmp_path / "one")
    for name in ("many", "plain"):
        assert len(list((tmp_path / name).glob("part-*"))) > 10
        assert lines_in(tmp_path / name) == lines
    rows = [row for part in sorted((tmp_path / "table").glob("*.parquet")) for row in pq.read_table(part).to_pylist()]
    assert [row["url"] for row in rows] == [line["url"] for line in lines]
    assert [json.loads(row["record"] or "null") for row in rows] == [line["record"] for line in lines]


@pytest.mark.nightly
def test_an_index_gives_the_same_lines_and_what_is_damaged_has_a_line(tmp_path, shop):
    places = [(one.url, one.place) for one in pages_of_warc(str(shop.archive))]
    entries = [
        {"url": url, "status": "200", "filename": shop.archive.name, "offset": place.offset, "length": place.length}
        for url, place in places
    ]
    entries.append({**entries[0], "offset": entries[0]["offset"] + 1})
    index = shop.folder / "index.cdxj"
    index.write_text("".join(f"key 2026 {json.dumps(entry)}\n" for entry in entries))
    done = apply(shop, tmp_path / "out", archive=index)
    assert done.returncode == 0, done.stderr
    lines = lines_in(tmp_path / "out")
    assert_as_crawled(lines, shop)
    (wrong,) = [line for line in lines if line["error"] and line["error"]["kind"] == "body"]
    assert wrong["url"] == entries[0]["url"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json", "ARCHIVE", "-o", "OUT"], "none.json: no such file"),
        (["ARCHIVE", "ARCHIVE", "-o", "OUT"], "is not a file of learned templates"),
        (["TEMPLATES", "none.warc", "-o", "OUT"], "none.warc: it cannot be read"),
        (["TEMPLATES", "TEMPLATES", "-o", "OUT"], "it is not a WARC file"),
        (["TEMPLATES", "ARCHIVE", "-o", "TEMPLATES"], "it is a file; name a folder"),
        (["TEMPLATES", "ARCHIVE", "-o", "OUT", "--fields", "a:b"], "'b' is not a type"),
    ],
)
def test_wrong_usage_is_told(tmp_path, shop, arguments, message):
    names = {"TEMPLATES": shop.templates, "ARCHIVE": shop.archive, "OUT": tmp_path / "out"}
    with pytest.raises(UsageError, match=message):
        run_here(Command(), *(names.get(one, one) for one in arguments))


def pages_of(learned: Learned) -> list[dict[str, Any]]:
    found = (one.page for one in pages_of_warc(str(learned.archive)))
    return [{"url": one.url, "html": one.body, "status": one.status} for one in found]


def test_a_program_gets_the_lines_of_pages_that_it_has(shop):
    pages = pages_of(shop)
    lines = llmcrawler.extract_batch(iter(pages), shop.templates)
    assert_as_crawled(lines, shop)

    async def cell() -> list[dict[str, Any]]:
        return llmcrawler.extract_batch(reversed(pages), shop.templates)

    assert asyncio.run(cell()) == lines[::-1]  # as in a notebook; and in any order


def test_what_is_no_page_has_a_line_and_another_site_what_it_says_of_itself(shop):
    stated = (
        '<title>Tea</title><script type="application/ld+json">{"@type": "Product", "name": "Tea", "sku": "1"}</script>'
    )
    given = [
        {"url": "https://other.test/tea", "html": stated},
        {"url": "ftp://a.test", "html": ""},
        {"url": "https://a.test", "html": None},
        {"url": "https://a.test", "html": "<div>" * 200_000},
    ]
    found, *wrong = llmcrawler.extract_batch(given, shop.templates)
    assert (found["page_type"], found["record_by"], found["template"]) == ("product", "structured-data", None)
    assert [line["error"] and line["error"]["kind"] for line in wrong[:2]] == ["url", "body"]
    assert wrong[2]["url"] == "https://a.test/"
    with pytest.raises(ValueError, match="a dict with its url and its html"):
        llmcrawler.extract_batch([{"url": "https://a.test"}], shop.templates)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # its own
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_ray_makes_the_same_lines(shop, monkeypatch):
    import ray.data  # see above

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # "local": not a cluster that another test, or somebody else, has on this machine.
    ray.init("local", num_cpus=2, object_store_memory=100 * 2**20, include_dashboard=False, log_to_driver=False)
    try:
        pages = pages_of(shop)
        dataset = ray.data.from_items(pages).repartition(4)
        rows = llmcrawler.ray_extract(dataset, shop.templates, batch_size=16).take_all()
    finally:
        ray.shutdown()
    assert_as_crawled([{**row, "record": json.loads(row["record"] or "null")} for row in rows], shop)
