"""A whole crawl against a provider that caches prompts, and charges for writing there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.crawling import explore
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite
from tests.servers.prompt_cache import PromptCache
from tests.servers.record_sites import make_site
from tests.servers.teacher import answer_from_truth


def test_a_crawl_writes_one_beginning_a_task_and_reads_it_in_all_later_calls(tmp_path: Path) -> None:
    site, cache = make_site("shop"), PromptCache()
    with (
        MockSite(site.routes(), latency_seconds=0.02).in_thread() as server,
        FakeLLM(answer_from_truth(site.truth()), prompt_cache=cache).in_thread() as llm,
    ):
        settings = {
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": llm.base_url,
            "LLM_MODEL": "gpt-6-luna",
            "LLM_BATCH_PAGES": 2,
        }
        crawled = explore(tmp_path, server.url("/"), settings)
    assert crawled.exit_status == 0, crawled.log
    for task in ("classify", "induce"):
        uses = [use for name, use in cache.uses if name == task]
        written = [use.written for use in uses if use.written]
        assert len(written) == 1, "of each task one beginning"
        assert [use.cached for use in uses if not use.written] == written * (len(uses) - 1), (
            "is read by all other calls"
        )
    assert not [use for name, use in cache.uses if name == "check" and use.written]
    prompts, cached = (sum(use[at] for _, use in cache.uses) for at in (0, 1))
    told = re.search(r"tokens \(([\d,]+) in, (\d+)% of it cached, ([\d,]+) out\), \$([\d.]+)", crawled.log)
    assert told is not None, crawled.log
    assert int(told[1].replace(",", "")) == prompts
    assert int(told[2]) == round(100 * cached / prompts)
    written_tokens = sum(use.written for _, use in cache.uses)
    fresh = prompts - cached - written_tokens
    paid = (fresh * 0.1 + cached * 0.01 + written_tokens * 0.125 + int(told[3].replace(",", "")) * 0.5) / 1e6
    assert float(told[4]) == round(paid, 4)
