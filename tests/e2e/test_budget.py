"""A crawl with a budget for its model: never exceeded, over its runs too; every page says what it had to do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.crawling import Outcome, explore
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite
from tests.servers.record_sites import make_shop
from tests.servers.teacher import answer_from_truth

BUDGET_REACHED = 5


def settings_of(llm: FakeLLM, **changed: Any) -> dict[str, Any]:
    few = {"LLM_BATCH_PAGES": 2, "LLM_CONCURRENCY": 2, "LLM_BATCH_WAIT_SECONDS": 0.2}
    return {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, **few, **changed}


def degraded(outcome: Outcome) -> list[dict[str, Any]]:
    return [page for page in outcome.pages if page["error"] and page["error"]["kind"] == "budget"]


@pytest.mark.nightly
def test_a_budget_for_a_part_of_the_calls_holds_over_two_runs_and_every_page_has_its_line(tmp_path: Path) -> None:
    site = make_shop(10)
    answer = answer_from_truth(site.truth())
    with MockSite(site.routes(), latency_seconds=0.02).in_thread() as server:
        with FakeLLM(answer).in_thread() as free:
            whole = explore(tmp_path, server.url("/"), settings_of(free))
        assert whole.exit_status == 0, whole.log
        assert free.calls > 5
        budget = 5 * free.tokens // free.calls
        with FakeLLM(answer).in_thread() as llm:
            settings = settings_of(llm, LLM_MAX_TOKENS=budget, JOBDIR=tmp_path / "job")
            less = {"LLM_MAX_TOKENS": budget // 2, "CLOSESPIDER_PAGECOUNT": 10}
            first = explore(tmp_path, server.url("/"), settings | less)
            in_first_run = llm.tokens
            second = explore(tmp_path, server.url("/"), settings)
            assert 0 < in_first_run <= budget // 2
            assert in_first_run < llm.tokens <= budget
    assert len(first.pages) < len(second.pages)
    assert second.exit_status == BUDGET_REACHED, second.log
    assert {page["url"] for page in second.pages} == {page["url"] for page in whole.pages}
    assert len(second.pages) == len(whole.pages)
    assert degraded(second)
    assert all("LLM_MAX_TOKENS" in page["error"]["message"] for page in degraded(second))
    assert all(page["page_type"] for page in second.pages if page["status"] == 200)
    assert f"of {budget:,} tokens, reached" in second.log
    assert 'their error has the kind "budget"' in second.log
