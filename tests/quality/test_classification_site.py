"""How many pages and calls a whole site takes, and how many page types are right: a site of nine templates, a model
that knows the truth or errs now and then, the real batches, virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from llmcrawler.core.llm.batching import Batcher, BatchRules
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_asker import ClassifyWorker, tokens_of
from llmcrawler.core.understanding.classification.page_types import PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Question, Verdict
from llmcrawler.items import PageContent
from tests.core.llm.clients import Watch
from tests.nightly import rest_by_night
from tests.virtual_time import VirtualTimeLoop

# Template -> its page type and its pages, as a shop may have them.
SITE = {
    "detail": ("product", 200),
    "write-review": ("form", 200),
    "category": ("listing", 44),
    "offer": ("listing", 36),
    "index": ("listing", 14),
    "login": ("login", 1),
    "basket": ("basket", 1),
    "offers": ("other", 1),
    "reset": ("login", 1),
}
TYPES = PageTypes([PageType(name, "") for name in ("product", "form", "listing", "login", "basket", "other")])
LLM_SECONDS = 2.0


class Site:
    def __init__(self, pages_per_second: float, wrong: float, seed: int) -> None:
        self.chance = random.Random(seed)
        self.gap_seconds = 1 / pages_per_second
        self.wrong = wrong
        self.calls: list[int] = []
        self.arrived = 0
        pages = [(number, template) for template, (_, count) in SITE.items() for number in range(1, count + 1)]
        # First pages of all templates come first, as in a crawl that prefers unseen url patterns.
        self.pages = sorted(pages, key=lambda page: (page[0].bit_length(), self.chance.random()))

    async def ask(self, ask: ModelRequest) -> Any:
        self.calls.append(len(ask.document["pages"]))
        await asyncio.sleep(LLM_SECONDS)
        return {
            "pages": [{"id": one["id"], "label": self.label(one), "confidence": 1} for one in ask.document["pages"]]
        }

    def label(self, page: dict[str, Any]) -> str:
        truth = SITE[page["url"].split("/")[3]][0]
        return self.chance.choice(TYPES.names) if self.chance.random() < self.wrong else truth

    async def crawl(self) -> Sequence[Verdict]:
        batcher: Batcher[Any, Any] = Batcher(
            ClassifyWorker(self.ask, TYPES),
            rules=BatchRules(max_tokens=12_000),
            tokens_of=tokens_of,
            watch=Watch(lambda: "nothing else to do" if self.arrived == len(self.pages) else None),
            clock=Clock(monotonic=asyncio.get_running_loop().time),
        )
        classifier = Classifier(TYPES, batcher)
        tasks = []
        for number, template in self.pages:
            await asyncio.sleep(self.gap_seconds)
            url = f"http://shop.test/{template}/{number}"
            self.arrived += 1
            # The first six pages come before anything could be grouped.
            question = Question(url, "", "", PageContent(), "shop", template, number, settled=self.arrived > 6)
            tasks.append(asyncio.ensure_future(classifier.classify(question)))
        return await asyncio.gather(*tasks)

    def share_right(self) -> float:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            verdicts = runner.run(self.crawl())
        right = [SITE[page[1]][0] == verdict.page_type for page, verdict in zip(self.pages, verdicts, strict=True)]
        return sum(right) / len(right)


@pytest.mark.parametrize("pages_per_second", [5, 20, 150])
def test_a_shop_takes_few_pages_and_calls_and_all_page_types_are_right(pages_per_second: float) -> None:
    site = Site(pages_per_second, wrong=0.0, seed=1)
    assert site.share_right() == 1.0
    assert sum(site.calls) <= 40
    assert len(site.calls) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_by_night(range(8), 3))
def test_a_tenth_of_wrong_answers_spoils_hardly_more_than_the_pages_they_are_about(seed: int) -> None:
    site = Site(20, wrong=0.1, seed=seed)
    assert site.share_right() >= 0.95
    assert sum(site.calls) <= 80
