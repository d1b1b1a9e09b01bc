"""What a crawl's calls have in common is found in a provider's prompt cache, and nothing else is written there."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.usage import Price, Usage
from llmcrawler.core.understanding.classification.page_asker import ClassifyWorker, check_question
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator
from llmcrawler.core.understanding.extraction.blocks import Block
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage
from llmcrawler.errors import BudgetSpent
from tests.core.llm.clients import client_at
from tests.servers.fake_llm import FakeLLM, texts_of
from tests.servers.prompt_cache import CacheUse, PromptCache

pytestmark = pytest.mark.server

CALLS = 10
Uses = dict[str, list[CacheUse]]


async def ask_as_a_crawl_does(client: LLMClient) -> None:
    async def model_name() -> str:
        return "m"

    await client.check(check_question(DEFAULT_PAGE_TYPES, "http://shop.test/"))
    classify, annotator = ClassifyWorker(client.ask, DEFAULT_PAGE_TYPES), LLMAnnotator(client.ask, model_name)
    for number in range(CALLS):
        urls = [f"http://site{number}.test/{page}" for page in range(1 + 2 * number)]
        await classify([{"url": url, "title": url, "text": f"{url} is a page of its own. " * 10} for url in urls])
        blocks = tuple(Block(n, f"text {n} of site {number}") for n in range(1, 20 + number))
        shown = [ShownPage(str(page), url, url, blocks) for page, url in enumerate(urls[:7])]
        await annotator.point(f"type{number}", shown, [])


def common_tokens(bodies: list[dict[str, Any]]) -> int:
    """Return the tokens (of four bytes) that all requests begin with: the schema, and what the messages agree in."""
    forms = [json.dumps(body["response_format"]["json_schema"], separators=(",", ":")) for body in bodies]
    texts = ["".join([form, *texts_of(body)]) for form, body in zip(forms, bodies, strict=True)]
    agreed = itertools.takewhile(lambda signs: len(set(signs)) == 1, zip(*texts, strict=False))
    return sum(1 for _ in agreed) // 4


async def crawled(model: str, **server_options: Any) -> tuple[Uses, dict[str, int], Usage]:
    """Return by task how the cache was used and the tokens that are the same in all its calls, and what was counted."""
    cache = PromptCache()
    async with FakeLLM(prompt_cache=cache, **server_options) as server:
        usage = Usage(Price(1.0, 1.0, 0.1, 1.25))
        client = client_at(server.base_url, model, "k", usage=usage)
        await ask_as_a_crawl_does(client)
        await client.close()
    uses: Uses = defaultdict(list)
    for task, use in cache.uses:
        uses[task].append(use)
    bodies = defaultdict(list)
    for body in server.bodies:
        bodies[body["response_format"]["json_schema"]["name"]].append(body)
    return uses, {task: common_tokens(sent) for task, sent in bodies.items()}, usage


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-6-luna"])
async def test_four_fifths_of_what_is_the_same_in_all_calls_of_a_task_are_read_from_the_cache(model: str) -> None:
    uses, common, usage = await crawled(model)
    for task, tokens in common.items():
        assert len(uses[task]) == CALLS
        assert sum(use.cached for use in uses[task]) >= 0.8 * tokens * CALLS, task
    cached = sum(use.cached for use in itertools.chain(*uses.values()))
    assert usage.total.provider_cached_tokens == cached
    assert usage.as_dict()["provider_cached_tokens/induce"] == sum(use.cached for use in uses["induce"])


async def test_of_each_task_one_beginning_is_written_where_writing_costs_more() -> None:
    uses, common, usage = await crawled("gpt-6-luna")
    for task, tokens in common.items():
        assert [use.written > 0 for use in uses[task]] == [True] + [False] * (CALLS - 1)
        assert uses[task][0].written <= tokens + 20, "and the frames of its messages"
    assert [use.written for use in uses["check"]] == [0]
    assert usage.total.provider_cache_write_tokens == sum(use.written for use in itertools.chain(*uses.values()))


async def test_a_server_that_knows_no_marks_is_asked_without_them() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        if "prompt_cache_options" in body:
            return 400, "Unrecognized request argument supplied: prompt_cache_options"
        is_marked = "prompt_cache_breakpoint" in json.dumps(body["messages"])
        return (400, "Unknown parameter: messages[1].content[0].prompt_cache_breakpoint") if is_marked else None

    uses, _, _ = await crawled("gpt-6-luna", refuse=refuse)
    assert len(uses["classify"]) == CALLS
    assert all(use.cached == 0 for use in uses["classify"]), "the end of each prompt is another one"


async def test_a_limit_in_money_holds_where_all_of_each_prompt_is_written_to_the_cache() -> None:
    price = Price(10.0, 0.0, 1.0, 12.5)
    budget, usage = Budget(BudgetLimits(max_cost_usd=0.2, price=price)), Usage(price)

    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        return (400, "Unknown parameter: 'prompt_cache_options'") if "prompt_cache_options" in body else None

    async with FakeLLM(prompt_cache=PromptCache(), refuse=refuse) as server:
        client = client_at(server.base_url, "gpt-6-luna", "k", usage=usage, budget=budget)
        with pytest.raises(BudgetSpent):
            await ask_as_a_crawl_does(client)
        await client.close()
    total = usage.total
    assert total.provider_cache_write_tokens > total.prompt_tokens // 2
    assert 0.1 < budget.spent.cost_usd <= 0.2
    assert budget.spent.cost_usd == pytest.approx(total.cost_usd)
