"""Crawls with a JOBDIR that end before their end: whatever takes them down, the same command again goes on."""

from __future__ import annotations

import csv
import resource
import signal
from collections import Counter
from random import Random

import pytest

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.killing import JobCrawl, lines_of, paths_of, wait_until
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

COUNT = 120
LABELS = [("/item/", "product"), ("/list/", "listing")]
EARLIER = '{"kind": "page", "url": "http://earlier.example/"}\n'


@pytest.fixture
def pages():
    return ManyPages(COUNT, latency_seconds=0.05)


@pytest.fixture
def site(pages):
    with MockSite(pages.routes()).in_thread() as site:
        yield site


def once(pages: ManyPages) -> Counter[str]:
    return Counter(pages.paths)


def test_kill_9_again_and_again_loses_no_page_and_repeats_none_but_those_in_flight(tmp_path, pages, site):
    jsonl, tables = tmp_path / "pages.jsonl", [tmp_path / "pages.csv", tmp_path / "rights.csv"]
    with FakeLLM(label_by_url(LABELS, "homepage"), latency_seconds=0.3).in_thread() as llm:
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        feeds = ["-O", jsonl, "-O", tables[0], "-O", f"{tables[1]}:rights"]
        crawl = JobCrawl(tmp_path, site.url(), settings, feeds=feeds, pages=pages)
        random = Random(4)
        for _kill in range(4):
            wanted = len(pages.requested) + random.randint(1, COUNT // 4)
            assert crawl.run_until(pages, wanted) == -signal.SIGKILL
        assert crawl.run() == 0, crawl.logs[-1]
    assert paths_of(lines_of(jsonl)) == once(pages)
    for table in tables:
        with table.open(newline="", encoding="utf-8") as file:
            assert sorted(row["url"] for row in csv.DictReader(file)) == sorted(site.url(path) for path in pages.paths)
    assert not crawl.repeats_of_stored()
    assert {line["page_type"] for line in lines_of(jsonl) if "/item/" in line.get("url", "")} == {"product"}


def test_a_crawl_ends_when_its_last_page_is_done_and_waits_for_no_heartbeat(tmp_path, pages, site):
    pages.latency_seconds = 0.0
    settings = {"EXTENSIONS": '{"tests.e2e.extensions.NoHeartbeat": 1}', "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-O", tmp_path / "pages.jsonl"])
    assert crawl.run() == 0, crawl.logs[-1]
    assert paths_of(lines_of(tmp_path / "pages.jsonl")) == once(pages)


def test_a_crawl_that_is_asked_to_stop_says_how_to_go_on_and_appends_each_line_once(tmp_path, pages, site):
    feed = tmp_path / "pages.jsonl"
    feed.write_text(EARLIER)
    settings = {"RECORD_PAGE_TYPES": "none"}  # pages that wait for their template are for the next run
    crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-o", feed], pages=pages)
    for number, wanted in ((signal.SIGINT, 20), (signal.SIGTERM, 50), (signal.SIGKILL, 80)):
        status = crawl.run_until(pages, wanted, number)
        assert status == (-number if number == signal.SIGKILL else ExitStatus.INTERRUPTED)
        if number != signal.SIGKILL:
            assert "run the same command again" in crawl.logs[-1]
            assert "Traceback" not in crawl.logs[-1]
            partial = paths_of(lines_of(feed)[1:])
            assert set(partial.values()) == {1}
            assert len(partial) >= wanted - 10
    assert crawl.run() == 0, crawl.logs[-1]
    lines = lines_of(feed)
    assert feed.read_text().startswith(EARLIER)
    assert paths_of(lines[1:]) == once(pages)
    assert not crawl.repeats_of_stored()


@pytest.mark.nightly
def test_batches_of_a_feed_are_whole_after_a_kill_and_the_same_when_a_finished_crawl_is_run_again(
    tmp_path, pages, site
):
    settings = {"FEED_EXPORT_BATCH_ITEM_COUNT": 20}
    crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-o", tmp_path / "part-%(batch_id)d.jsonl"])
    assert crawl.run_until(pages, 70) == -signal.SIGKILL
    assert crawl.run() == 0, crawl.logs[-1]
    whole = {part.name: lines_of(part) for part in tmp_path.glob("part-*.jsonl")}
    assert paths_of(line for part in whole.values() for line in part) == once(pages)
    assert sorted(whole) == [f"part-{number}.jsonl" for number in range(1, len(whole) + 1)]
    assert {len(lines) for name, lines in whole.items() if name != f"part-{len(whole)}.jsonl"} == {20}
    requests = site.measures.hits.total()
    assert crawl.run() == 0
    again = {part.name: lines_of(part) for part in tmp_path.glob("part-*.jsonl")}
    # A page may have been moved to another template after its line was written; the new line knows of it.
    assert _without_templates(again) == _without_templates(whole)
    assert site.measures.hits.total() == requests


def _without_templates(parts):
    return {
        name: [{**line, "template": None} for line in lines if line["kind"] == "page"] for name, lines in parts.items()
    }


@pytest.mark.nightly
def test_a_model_server_that_is_killed_and_comes_back_costs_no_verdict(tmp_path, pages, site):
    feed = tmp_path / "pages.jsonl"
    label = label_by_url([("/item/", "product"), ("/list/", "listing")], "homepage")
    with FakeLLM(label, latency_seconds=0.2).in_thread() as llm:
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-O", feed])
        with crawl.running() as process:
            wait_until(lambda: len(pages.requested) >= 3, pages, process)
            with llm.away():
                wait_until(lambda: len(pages.requested) >= 60, pages, process)
    assert process.returncode == 0, crawl.logs[-1]
    assert paths_of(lines_of(feed)) == once(pages)
    assert not [line for line in lines_of(feed) if line.get("error")]


@pytest.mark.nightly
def test_a_site_that_is_killed_and_comes_back_loses_no_page(tmp_path):
    pages, feed = ManyPages(COUNT, latency_seconds=0.1), tmp_path / "pages.jsonl"
    with MockSite(pages.routes()).in_thread() as site:
        crawl = JobCrawl(tmp_path, site.url(), {"THROTTLE_BREAKER_REST_SECONDS": 1}, feeds=["-O", feed])
        with crawl.running() as process:
            wait_until(lambda: len(pages.requested) >= 20, pages, process)
            with site.away():
                wait_until(lambda: crawl.log_holds("in a row"), pages, process)
    assert process.returncode == 0, crawl.logs[-1]
    assert paths_of(lines_of(feed)) == once(pages)
    assert not [line for line in lines_of(feed) if line.get("error")]


def test_a_job_that_is_in_use_takes_no_second_crawl(tmp_path, pages, site):
    crawl, second = JobCrawl(tmp_path, site.url()), JobCrawl(tmp_path / "second", site.url())
    second.folder.mkdir()
    pages.latency_seconds = 1.0  # it is to last until the second one has started, on any machine
    with crawl.running() as process:
        wait_until(lambda: len(pages.requested) >= 3, pages, process)
        second.settings = {"JOBDIR": crawl.jobdir}
        assert second.run() == ExitStatus.BUSY
        pages.latency_seconds = 0.0
    assert "another crawl is running in it" in second.logs[-1]
    assert process.returncode == 0
    assert Counter(pages.requested) == once(pages)


@pytest.mark.nightly
def test_a_full_disk_ends_the_crawl_with_what_is_done_kept(tmp_path, pages, site):
    """The largest size that a file may have stands for the disk."""
    feed = tmp_path / "pages.jsonl"
    crawl = JobCrawl(tmp_path, site.url(), {"STORE_BODIES": True}, feeds=["-O", feed], pages=pages)

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    assert crawl.run(limit_files) == 1
    assert "make room and run the same command again" in crawl.logs[-1]
    assert "Traceback" not in crawl.logs[-1]
    assert 0 < len(pages.requested) < COUNT
    kept = paths_of(lines_of(feed))
    assert crawl.run(limit_files) == 1  # there is still no room
    assert "make room and run the same command again" in crawl.logs[-1]
    assert "Traceback" not in crawl.logs[-1]
    assert crawl.run() == 0, crawl.logs[-1]
    assert paths_of(lines_of(feed)) == once(pages)
    assert kept.keys() <= pages.paths
    assert not crawl.repeats_of_stored()


def test_a_disk_that_is_full_when_the_crawl_is_opened_ends_it_with_its_cure_and_no_traceback(tmp_path, pages, site):
    settings = {"EXTENSIONS": '{"tests.e2e.extensions.DiskFullWhenOpened": 1}'}
    crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-O", tmp_path / "pages.jsonl"], pages=pages)
    assert crawl.run() == 1
    assert "make room and run the same command again" in crawl.logs[-1]
    assert "Traceback" not in crawl.logs[-1]
    assert not pages.requested
    del crawl.settings["EXTENSIONS"]
    assert crawl.run() == 0, crawl.logs[-1]
    assert paths_of(lines_of(tmp_path / "pages.jsonl")) == once(pages)
