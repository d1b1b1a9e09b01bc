"""Feeds of other forms than JSON Lines, of whole crawls."""

from __future__ import annotations

import csv
import io
import json
import signal
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.e2e import warm
from tests.e2e.copying import STORAGES
from tests.e2e.crawling import TIMEOUT_SECONDS, command, environment, explore
from tests.e2e.killing import JobCrawl, lines_of, wait_until
from tests.nightly import rest_by_night
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite


def sources(feed: Path) -> list[str]:
    return [line["metadata"]["source"] for line in lines_of(feed)]


def indexed(folder: Path) -> list[str]:
    """The urls of the folder's index, whose files are just those that are there."""
    lines = lines_of(folder / "index.jsonl")
    assert {line["file"] for line in lines} - {None} == {file.name for file in folder.glob("*.md")}
    return [line["url"] for line in lines]


def table_of(*files: Path) -> list[list[dict[str, str]]]:
    return [list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))) for file in files]


def test_all_forms_hold_the_pages_of_a_crawl_wherever_they_go(tmp_path, site):
    feeds = {
        f"{tmp_path}/docs.jsonl": {"format": "documents"},
        f"{tmp_path}/site": {"format": "markdown"},
        f"copy://{tmp_path}/copied.parquet": {"format": "parquet"},
        f"{tmp_path}/pages.csv": {"format": "csv"},
        f"{tmp_path}/%(page_type)s.csv": {"format": "records"},
        f"{tmp_path}/job.csv": {"format": "records", "page_type": "job"},
        f"copy://{tmp_path}/both.parquet": {"format": "records"},
        f"{tmp_path}/part-%(batch_id)d.parquet": {"format": "parquet", "batch_item_count": 20},
        f"{tmp_path}/part-%(batch_id)d": {"format": "markdown", "batch_item_count": 20},
    }
    done = explore(
        tmp_path,
        f"{site.url()},{site.url('/gone/')}",
        {"FEEDS": json.dumps(feeds), "FEED_STORAGES": json.dumps(STORAGES)},
    )
    assert done.exit_status == 0, done.log
    pages = Counter(page["url"] for page in done.pages)
    with_text = Counter(page["url"] for page in done.pages if page["text"])
    assert 10 < len(with_text) < len(pages)
    assert Counter(sources(tmp_path / "docs.jsonl")) == with_text
    with (tmp_path / "pages.csv").open(newline="", encoding="utf-8") as table:
        rows = csv.DictReader(table)
        assert rows.fieldnames[:2] == ["url", "kind"]
        assert Counter(row["url"] for row in rows) == pages
    records = {page["url"]: page for page in done.pages if page["record"]}
    (products, articles), both = table_of(tmp_path / "product.csv", tmp_path / "article.csv"), tmp_path / "both.parquet"
    assert {row["url"]: row["name"] for row in products} == {
        url: page["record"].get("name", "") for url, page in records.items() if page["page_type"] == "product"
    }
    assert {row["url"] for row in products + articles} == set(records)
    assert all(float(row["offers.price"] or row["price"]) > 3 for row in products)
    assert f"Stored records feed ({len(products)} lines) in: {tmp_path}/product.csv" in done.log
    assert {file.name for file in tmp_path.glob("*.csv")} == {"pages.csv", "product.csv", "article.csv", "job.csv"}
    assert (tmp_path / "job.csv").read_text() == "url,page_type\n"
    assert Counter(pq.read_table(both)["page_type"].to_pylist()) == Counter(
        page["page_type"] for page in records.values()
    )
    assert Counter(indexed(tmp_path / "site")) == pages
    whole = pq.read_table(tmp_path / "copied.parquet")
    assert Counter(whole["url"].to_pylist()) == pages
    parts = sorted(tmp_path.glob("part-*.parquet"))
    assert len(parts) > 2
    assert pq.ParquetDataset(parts, schema=whole.schema).read().sort_by("url") == whole.sort_by("url")
    assert sum((Counter(indexed(part)) for part in tmp_path.glob("part-?")), Counter()) == pages


@pytest.fixture
def pages():
    return ManyPages(40, latency_seconds=0.05)


@pytest.mark.nightly
def test_a_crawl_that_is_killed_and_goes_on_leaves_no_stale_file_and_no_half_one(tmp_path, pages):
    names = ("site", "added", "pages.parquet", "docs.jsonl", "items.csv")
    folder, added, table, documents, records = (tmp_path / name for name in names)
    items = [path for path in pages.bodies if path.startswith("/item/")]
    for path in items:
        data = {
            "@context": "https://schema.org",
            "@type": "Product",
            "name": f"Item {path}",
            "sku": path.strip("/"),
            "offers": {"price": "9.50"},
        }
        script = f'<script type="application/ld+json">{json.dumps(data)}</script>'
        pages.bodies[path] = pages.bodies[path].replace("</head>", f"{script}</head>")
    with MockSite(pages.routes()).in_thread() as site:
        earlier = JobCrawl(
            tmp_path / "earlier", site.url("/item/1/"), arguments={"depth": 0}, feeds=["-o", f"{added}:markdown"]
        )
        earlier.folder.mkdir()
        assert earlier.run() == 0, earlier.logs[-1]
        assert indexed(added) == [site.url("/item/1/")]
        pages.requested.clear()
        pages.answered.clear()
        forms = [f"{folder}:markdown", f"{added}:markdown", str(table), f"{documents}:documents", f"{records}:records"]
        crawl = JobCrawl(tmp_path, site.url(), feeds=[part for form in forms for part in ("-o", form)])
        assert crawl.run_until(pages, 20) == -signal.SIGKILL
        assert crawl.run() == 0, crawl.logs[-1]
        once = Counter(site.url(path) for path in pages.paths)
    assert Counter(indexed(folder)) == once
    assert Counter(indexed(added)) == once + Counter([site.url("/item/1/")])
    assert Counter(pq.read_table(table)["url"].to_pylist()) == once
    assert Counter(sources(documents)) == once
    rows = [row for row in table_of(records)[0] if row["name"]]
    assert Counter(row["url"] for row in rows) == Counter(site.url(path) for path in items)
    assert all(row["name"] == f"Item {row['url'].removeprefix(site.url().rstrip('/'))}" for row in rows)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("feed", rest_by_night([(("-O", "/dev/full:csv"),), (("-o", "-:csv"),)]))
def test_a_full_disk_is_an_exit_status_also_when_only_the_end_of_the_crawl_writes(tmp_path, site, feed):
    parts = [*command({"url": site.url("/about/"), "depth": 0}, {"LOG_LEVEL": "CRITICAL"}, None), *feed]
    with Path("/dev/full").open("wb") as full, (tmp_path / "log").open("wb") as log:
        assert warm.start(parts, environment(), full, log).wait(TIMEOUT_SECONDS) == 1
    assert b"rror" not in (tmp_path / "log").read_bytes()


@pytest.mark.nightly
def test_a_job_whose_feed_could_not_be_stored_goes_on_with_a_whole_one(tmp_path, pages):
    """A folder of that name is in the way."""
    feed = tmp_path / "pages.csv"
    feed.mkdir()
    with MockSite(pages.routes()).in_thread() as site:
        crawl = JobCrawl(tmp_path, site.url(), feeds=["-O", f"copy://{feed}:csv"], pages=pages)
        crawl.settings["FEED_STORAGES"] = json.dumps(STORAGES)
        assert crawl.run() == 1
        assert f"(copy://{feed}): [Errno 21] Is a directory" in crawl.logs[-1]
        requested = len(pages.requested)
        feed.rmdir()
        assert crawl.run() == 0, crawl.logs[-1]
        assert len(pages.requested) == requested
        once = Counter(site.url(path) for path in pages.paths)
    with feed.open(newline="", encoding="utf-8") as table:
        assert Counter(row["url"] for row in csv.DictReader(table)) == once


def test_what_was_learned_and_could_not_be_kept_is_an_exit_status(tmp_path):
    file, pages = tmp_path / "templates.json", ManyPages(30, latency_seconds=0.05)
    with MockSite(pages.routes()).in_thread() as site:
        crawl = JobCrawl(tmp_path, site.url(), {"TEMPLATES_FILE": file})
        with crawl.running() as process:
            wait_until(lambda: len(pages.requested) >= 10, pages, process)
            file.unlink(missing_ok=True)
            file.mkdir()
        assert process.returncode == 1
    assert "What this crawl has learned could not be kept" in crawl.logs[-1]


def test_what_cannot_be_written_is_told_before_the_first_request(tmp_path, site):
    (tmp_path / "pages.parquet").write_bytes(b"PAR1")
    parts = [*command({"url": site.url()}, {}, None), "-o", str(tmp_path / "pages.parquet")]
    done = warm.run(parts[3:], environment(), TIMEOUT_SECONDS)
    assert done.returncode == 2
    assert "nothing can be appended to a parquet file" in done.stderr
    assert "INFO: explore " not in done.stderr


def test_a_crawl_that_gets_nothing_leaves_the_last_feed_as_it_was(tmp_path):
    feed, more = tmp_path / "feed.jsonl", {"RETRY_TIMES": 0}
    with MockSite().in_thread() as site:
        explore(tmp_path, site.url("/terms/"), more, depth=0)
        again = explore(tmp_path, url := site.url("/about/"), more, depth=0, render="never")
        assert f"Feed: {feed}," in again.log
        before = feed.read_text()
        assert "/about/" in before
        assert "/terms/" not in before
    dead = explore(tmp_path, url, more, depth=0)
    assert dead.exit_status == 4
    assert feed.read_text() == before
    assert f"{feed} is left as it was: nothing came from the start URLs" in dead.log
    assert f"Feed: {feed}.new, 1 line (jsonl)" in " ".join(dead.log.split())  # folded where the path is long
    assert "refused" in (tmp_path / "feed.jsonl.new").read_text()
