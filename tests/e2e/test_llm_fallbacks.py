"""A crawl whose model goes away in the middle: the next of LLM_FALLBACKS answers, and no key is written anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.crawling import explore
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite
from tests.servers.record_sites import make_shop
from tests.servers.teacher import answer_from_truth

KEY = "sk-the-second-servers-own-key"


def test_a_model_without_credit_is_replaced_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECOND_KEY", KEY)
    site = make_shop(18)
    answer = answer_from_truth(site.truth())

    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        return (429, "insufficient_quota: you have used up your credit") if first.calls > 2 else None

    with (
        MockSite(site.routes(), latency_seconds=0.02).in_thread() as server,
        FakeLLM(answer, refuse=refuse).in_thread() as first,
        FakeLLM(answer).in_thread() as second,
    ):
        fallbacks = [{"base_url": second.base_url, "model": "other", "api_key_env": "SECOND_KEY"}]
        settings = {
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": first.base_url,
            "LLM_BATCH_PAGES": 2,
            "LLM_FALLBACKS": json.dumps(fallbacks),
            "JOBDIR": tmp_path / "job",
        }
        crawled = explore(tmp_path, server.url("/"), settings)
    assert crawled.exit_status == 0, crawled.log
    assert 3 <= first.calls <= 6, "those that were under way"
    assert second.calls > 3
    assert set(second.authorizations) == {f"Bearer {KEY}"}
    assert not [page for page in crawled.pages if page["error"] and page["error"]["kind"].startswith("llm")]
    assert "has no credit left" in crawled.log
    assert f"The LLM is now other at 127.0.0.1:{second.port}" in crawled.log
    written = [crawled.log, *(file.read_text("utf-8", "replace") for file in tmp_path.rglob("*") if file.is_file())]
    assert not [text for text in written if KEY in text]
