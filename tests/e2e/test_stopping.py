"""Crawls that are asked to stop, as `timeout` does it: by a signal to the process and to its whole group."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from aiohttp import web

from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.errors import STOPPED
from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS, command, environment
from tests.e2e.killing import JobCrawl, lines_of, paths_of, wait_until
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import Handler, MockSite

LABELS = [("/item/", "product"), ("/list/", "listing")]
HANGS = ["hang"] * 1000


def test_each_page_that_came_has_its_line_and_nobody_waits_for_a_model_or_a_site_that_hangs(tmp_path: Path) -> None:
    pages, feed = ManyPages(60, latency_seconds=0.02), tmp_path / "pages.jsonl"
    with (
        FakeLLM(faults=HANGS).in_thread() as llm,
        MockSite({**pages.routes(), "/item/3/": hanging(pages)}).in_thread() as site,
    ):
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "STOP_SECONDS": 0.5}
        parts = command({"url": site.url()}, settings, feed)
        with (tmp_path / "log").open("w") as out, warm.start(parts, environment(), log=out, own_session=True) as crawl:
            wait_until(lambda: "/item/3/" in pages.requested and llm.in_flight > 0, pages, crawl)
            os.kill(crawl.pid, signal.SIGTERM)
            os.killpg(crawl.pid, signal.SIGTERM)
            crawl.wait(TIMEOUT_SECONDS)
        log = (tmp_path / "log").read_text(encoding="utf-8")
    assert crawl.returncode == ExitStatus.INTERRUPTED, log
    assert "Stopping: waiting for" in log
    assert "Traceback" not in log
    lines = [line for line in lines_of(feed) if line["kind"] == "page"]
    assert paths_of(lines) == dict.fromkeys(pages.requested, 1)
    errors = {line["url"].removeprefix(site.url("/")): line["error"] for line in lines}
    assert errors["item/3/"]["kind"] == STOPPED
    assert {error["kind"] for error in errors.values()} == {STOPPED}
    assert "classify" in {error["stage"] for error in errors.values()}


def test_pages_that_a_stopped_job_had_no_answer_for_are_for_its_next_run(tmp_path: Path) -> None:
    pages, feed = ManyPages(60, latency_seconds=0.02), tmp_path / "pages.jsonl"
    with (
        FakeLLM(label_by_url(LABELS, "homepage"), faults=HANGS).in_thread() as llm,
        MockSite(pages.routes()).in_thread() as site,
    ):
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-O", feed], pages=pages)
        with crawl.running() as process:
            wait_until(lambda: len(pages.requested) >= 30 and llm.in_flight > 0, pages, process)
            process.send_signal(signal.SIGINT)
        assert process.returncode == ExitStatus.INTERRUPTED, crawl.logs[-1]
        assert "run the same command again" in crawl.logs[-1]
        assert not [line for line in lines_of(feed) if line.get("error")]
        llm.faults.clear()
        assert crawl.run() == 0, crawl.logs[-1]
    assert paths_of(lines_of(feed)) == dict.fromkeys(pages.paths, 1)
    assert not [line for line in lines_of(feed) if line.get("error")]
    assert not crawl.repeats_of_stored()


def test_a_model_that_is_found_to_be_unusable_late_ends_the_crawl_and_nothing_is_lost(tmp_path: Path) -> None:
    pages, feed, kept = ManyPages(60), tmp_path / "pages.jsonl", '{"kind": "page", "url": "of last night"}\n'
    feed.write_text(kept, encoding="utf-8")

    async def refuse(_: web.Request) -> web.Response:
        while len(pages.requested) < 10:  # noqa: ASYNC110 - they are noted in another thread
            await asyncio.sleep(0.01)
        return web.json_response({"error": {"message": "bad key"}}, status=401)

    with MockSite(pages.routes()).in_thread() as site:
        with MockSite({"/v1/chat/completions": refuse}).in_thread() as refusing:
            settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": refusing.url("/v1"), "LLM_MODEL": "m"}
            crawl = JobCrawl(tmp_path, site.url(), settings, feeds=["-O", feed], pages=pages)
            assert crawl.run() == ExitStatus.ERROR, crawl.logs[-1]
        assert "CRITICAL: The model cannot be used: LLM_API_KEY was refused" in crawl.logs[-1]
        assert "Exit status 1: each question to the model failed" in crawl.logs[-1]
        assert "Dropped" not in crawl.logs[-1]
        assert feed.read_text(encoding="utf-8") == kept
        assert crawl.run() == ExitStatus.ERROR, crawl.logs[-1]  # it is asked again
        with FakeLLM(label_by_url(LABELS, "homepage")).in_thread() as llm:
            crawl.settings["LLM_BASE_URL"] = llm.base_url
            assert crawl.run() == ExitStatus.FINISHED, crawl.logs[-1]
    assert paths_of(lines_of(feed)) == dict.fromkeys(pages.paths, 1)
    assert not [line for line in lines_of(feed) if line.get("error")]


def hanging(pages: ManyPages) -> Handler:
    async def hang(request: web.Request) -> web.Response:
        with pages.changed:
            pages.requested.append(request.path_qs)
            pages.changed.notify_all()
        while request.transport is not None:  # noqa: ASYNC110 - the crawl hangs up, and no event tells of it
            await asyncio.sleep(0.05)
        raise ConnectionResetError

    return hang
