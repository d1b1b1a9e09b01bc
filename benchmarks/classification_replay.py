"""Replays a stored site through grouping and classification with a model that knows the truth, in virtual time.

    python -m benchmarks.classification_replay SITE_DIR [--rates 5,20,150] [--latency 2] [--wrong 0.1]
                                                     [--fail 0.3]

SITE_DIR holds index.jsonl (file, url, page_type) and gzipped HTML. Pages come in the order of a crawl that takes urls
of unseen patterns first. Prints pages shown, calls, tokens (characters/4) and the share of right page types.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.llm.batching import Batcher, BatchRules
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_asker import ClassifyWorker, tokens_of
from llmcrawler.core.understanding.classification.page_types import PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Question, Verdict
from llmcrawler.core.understanding.templates.clustering import recluster
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.core.understanding.templates.page_sample import words_of
from llmcrawler.errors import BadAnswer, LLMFailed
from llmcrawler.items import PageContent
from tests.core.llm.clients import Watch
from tests.virtual_time import VirtualTimeLoop

_RECLUSTER_SECONDS = 0.03


@dataclass(frozen=True)
class StoredPage:
    url: str
    page_type: str
    content: PageContent
    text: str
    words: frozenset[str]


@dataclass
class Oracle:
    """Answers the classification task from the truth; `wrong` and `fail` are probabilities."""

    truth: Mapping[str, str]
    names: tuple[str, ...]
    latency_seconds: float
    wrong: float
    fail: float
    chance: random.Random
    calls: int = 0
    pages: int = 0
    characters: int = 0
    sizes: list[int] = field(default_factory=list)

    async def ask(self, ask: ModelRequest) -> Any:
        self.calls += 1
        self.sizes.append(len(ask.document["pages"]))
        self.pages += len(ask.document["pages"])
        self.characters += len(ask.system) + len(json.dumps(ask.document, ensure_ascii=False, separators=(",", ":")))
        await asyncio.sleep(self.latency_seconds)
        if self.chance.random() < self.fail:
            raise self.chance.choice([BadAnswer("cut"), BadAnswer("cut"), LLMFailed("HTTP 500")])
        entries = [
            {"id": page["id"], "label": self._label(page["url"]), "confidence": 0.95} for page in ask.document["pages"]
        ]
        self.characters += len(json.dumps({"pages": entries}))
        return {"pages": entries}

    def _label(self, url: str) -> str:
        return self.chance.choice(self.names) if self.chance.random() < self.wrong else self.truth[url]


class Replay:
    def __init__(self, pages: list[StoredPage], oracle: Oracle, page_types: PageTypes) -> None:
        self.pages = pages
        self.grouper = TemplateGrouper()
        self.reclustering: asyncio.Task[None] | None = None
        self.arrived = 0
        self.batcher: Batcher[Any, Any] = Batcher(
            ClassifyWorker(oracle.ask, page_types),
            rules=BatchRules(max_tokens=12_000),
            tokens_of=tokens_of,
            watch=Watch(lambda: "all pages are here" if self.arrived == len(pages) else None),
            clock=Clock(monotonic=lambda: asyncio.get_running_loop().time()),
        )
        self.classifier = Classifier(
            page_types, self.batcher, split=lambda _, t, labels: self.grouper.split_by(t, labels)
        )

    async def run(self, pages_per_second: float) -> list[Verdict]:
        tasks = []
        for page in self.pages:
            await asyncio.sleep(1 / pages_per_second)
            tasks.append(asyncio.ensure_future(self._one(page)))
            self.arrived += 1
        return await asyncio.gather(*tasks)

    async def _one(self, page: StoredPage) -> Verdict:
        placed = self.grouper.assign(page.url, page.content.features, page.words, title=page.content.title)
        if self.grouper.due and self.reclustering is None:
            self.reclustering = asyncio.ensure_future(self._recluster())
        question = Question(
            page.url,
            page.content.title,
            page.text,
            page.content,
            "site",
            placed.template,
            placed.member,
            placed.settled,
            placed.rivals,
            words=page.words,
        )
        return await self.classifier.classify(question)

    async def _recluster(self) -> None:
        snapshot = self.grouper.snapshot()
        await asyncio.sleep(_RECLUSTER_SECONDS)
        self.classifier.regroup("site", self.grouper.adopt(recluster(snapshot)))
        self.reclustering = None


def stored_pages(folder: Path) -> list[StoredPage]:
    pages = []
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        content = read_page(gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace"), row["url"])
        text = main_text(content.blocks, None)
        pages.append(StoredPage(row["url"], row["page_type"], content, text, words_of(content)))
    return pages


def in_crawl_order(pages: list[StoredPage], chance: random.Random) -> list[StoredPage]:
    """Shuffled, but the nth page of a url pattern comes with the nth of others, n in powers of two."""
    shuffled = chance.sample(pages, len(pages))
    seen: Counter[str] = Counter()
    ranks = {}
    for page in shuffled:
        parts = urlsplit(page.url)
        pattern = re.sub(r"[^/]*[\d-][^/]*", "*", parts.path) + re.sub(r"=[^&]*", "=", parts.query)
        seen[pattern] += 1
        ranks[page.url] = seen[pattern].bit_length()
    return sorted(shuffled, key=lambda page: ranks[page.url])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--rates", default="5,20,150")
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--fail", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    pages = stored_pages(args.site)
    truth = {page.url: page.page_type for page in pages}
    page_types = PageTypes(
        [PageType(name, f"a page of the kind {name}, as its name says") for name in sorted(set(truth.values()))]
    )
    for rate in map(float, args.rates.split(",")):
        for seed in range(args.seeds):
            chance = random.Random(seed)
            order = in_crawl_order(pages, chance)
            oracle = Oracle(truth, page_types.names, args.latency, args.wrong, args.fail, chance)
            with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                verdicts = runner.run(Replay(order, oracle, page_types).run(rate))
            right = sum(verdict.page_type == page.page_type for verdict, page in zip(verdicts, order, strict=True))
            print(
                f"{rate:5.0f} pages/s, seed {seed}: shown {oracle.pages}, calls {oracle.calls}, "
                f"tokens {oracle.characters // 4}, right {right / len(pages):.3f}, "
                f"errors {sum(verdict.error is not None for verdict in verdicts)}, "
                f"{dict(Counter(verdict.decided_by for verdict in verdicts))}, sizes {oracle.sizes}"
            )


if __name__ == "__main__":
    main()
