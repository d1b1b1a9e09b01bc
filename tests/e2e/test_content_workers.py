"""Crawls whose pages are read in worker processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS, command, environment
from tests.e2e.killing import children_of, lines_of, paths_of, wait_until
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up as Linux has them")
def test_a_worker_that_is_killed_costs_no_page(tmp_path: Path) -> None:
    pages, feed = ManyPages(150, latency_seconds=0.02), tmp_path / "pages.jsonl"
    killed: list[int] = []

    def kill_a_worker(crawl: int) -> bool:
        """At the 40th page, and at the 80th: what starts a worker is forked by a child of the crawl. Processes that
        learn a template have less priority.
        """
        if len(pages.answered) < 40 * (len(killed) + 1):
            return False
        forked = [one for forker in children_of(crawl) for one in children_of(forker)]
        workers = [one for process in forked for one in children_of(process) if one not in killed]
        own = os.getpriority(os.PRIO_PROCESS, crawl)
        for worker in [one for one in workers if os.getpriority(os.PRIO_PROCESS, one) == own][:1]:
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)
        return len(killed) == 2

    with MockSite(pages.routes()).in_thread() as site:
        parts = command({"url": site.url()}, {"CONTENT_WORKERS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}, feed)
        with (tmp_path / "log").open("w") as out, warm.start(parts, environment(), log=out) as process:
            wait_until(lambda: kill_a_worker(process.pid), pages, process)
            process.wait(TIMEOUT_SECONDS)
        log = (tmp_path / "log").read_text(encoding="utf-8")
    assert len(killed) == 2
    assert process.returncode == 0, log
    assert "'llmcrawler/content_workers/restarts': 2" in log
    lines = [line for line in lines_of(feed) if line["kind"] == "page"]
    assert paths_of(lines) == dict.fromkeys(pages.paths, 1)
    assert [line["error"] for line in lines if line["error"]] == []
    assert all(line["text"] for line in lines)
    assert [one for one in killed if Path(f"/proc/{one}").exists()] == []
