"""`scrapy plan`, as a user runs it before a crawl, and what is shown of it afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import explore, scrapy
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite
from tests.servers.record_sites import make_site
from tests.servers.teacher import answer_from_truth


@pytest.mark.nightly
def test_a_plan_is_near_to_what_the_crawl_comes_to_and_is_kept_with_it(tmp_path: Path) -> None:
    site, job = make_site("shop"), tmp_path / "job"
    with MockSite(site.routes()).in_thread() as server, FakeLLM(answer_from_truth(site.truth())).in_thread() as llm:
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "LLM_MODEL": "m", "JOBDIR": job}
        settings |= {"LLM_PRICE_INPUT": 1, "LLM_PRICE_OUTPUT": 2}
        done = scrapy("plan", server.url("/"), "--sample", 60, "--json", "--models", "m,none", settings=settings)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[0] == f"Looking at up to 60 pages of {server.url('/')}; no model is used"
        assert " of up to 60 pages, urls known: " in done.stderr.splitlines()[-1], "progress"
        assert llm.calls == 0, "a plan asks no model"
        fetched = sum(server.measures.hits.values())
        assert fetched <= 75, "60 pages, their retries, robots.txt and sitemaps"
        outcome = explore(tmp_path, server.url("/"), settings)
    assert outcome.exit_status == 0, outcome.log
    plan = json.loads(done.stdout)
    assert any("1.5 s: no call was made" in note for note in plan["notes"])
    fine = sum(page["error"] is None for page in outcome.pages)
    # How near it is depends on which pages came first: benchmarks/plan_accuracy.
    assert fine / 2 <= plan["pages"]["likely"] <= 2 * fine
    assert 0 < plan["llm"]["calls"]["likely"] < fine
    assert [(one["model"], one["cost_usd"]) for one in plan["models"]] == [("m", plan["llm"]["cost_usd"]), ("", None)]
    status = scrapy("status", job, "--json")
    assert json.loads(status.stdout)["plan"] == plan
    assert json.loads(status.stdout)["spent"]["calls"] == llm.calls + llm.checks


def test_a_site_that_cannot_be_reached_has_no_plan_and_the_reason_why() -> None:
    settings = {"RETRY_TIMES": 0, "LLM_PROVIDER": "openai", "LOG_FORMAT": "json"}
    done = scrapy("plan", "127.0.0.1:9/", settings=settings)
    assert done.returncode == ExitStatus.UNREACHABLE
    reason = done.stderr.splitlines()[-1]
    assert reason.startswith("No page of 127.0.0.1:9/ could be fetched: Connection was refused")
    assert reason.endswith("No scheme was given, so https was tried: is http://127.0.0.1:9/ meant?")
    assert not done.stdout
