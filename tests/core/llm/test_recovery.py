"""What faults cost: calls, and questions without an answer, over many seeds in simulated time, and once over HTTP."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Mapping, Sequence

import pytest

from llmcrawler.core.llm.batching import Batcher, BatchRules
from llmcrawler.core.llm.call_limits import CallLimits, Clock
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.errors import BadAnswer, LLMError
from tests.core.llm.clients import Watch, client_at
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.virtual_time import run_fast

FAULTS = ("429", "500", "hang", "cut", "drop", "alien")


class FaultyModel:
    """A worker as the classifier's would be, over a client that tries a 429 or 500 again."""

    def __init__(self, seed: int, fail: float) -> None:
        self.calls = 0
        self._random = random.Random(seed)
        self._fail = fail

    async def __call__(self, questions: Sequence[int]) -> Mapping[int, int]:
        kind = "429"
        while kind in {"429", "500"}:
            self.calls += 1
            await asyncio.sleep(1)
            kind = self._random.choice(FAULTS) if self._random.random() < self._fail else ""
        if kind == "hang":
            await asyncio.sleep(30)
        answers = dict(enumerate(questions))
        if kind == "cut":
            answers = {position: answers[position] for position in range(len(questions) // 2)}
            if not answers:
                raise BadAnswer("cut")
        if kind == "drop":
            del answers[self._random.randrange(len(questions))]
        return answers


async def crawl(model: FaultyModel, pages: int, batch: int, gap_seconds: float) -> int:
    """Pages come one by one. Returns how many got their right answer."""
    started = 0

    def idle() -> str | None:
        return "idle" if started == pages and not batcher._in_flight else None

    batcher: Batcher[int, int] = Batcher(
        model,
        rules=BatchRules(max_questions=batch),
        watch=Watch(idle),
        clock=Clock(monotonic=asyncio.get_running_loop().time),
    )

    async def classify(page: int) -> bool:
        try:
            return await batcher.submit(page) == page
        except LLMError:
            return False

    tasks = []
    for page in range(pages):
        tasks.append(asyncio.ensure_future(classify(page)))
        started += 1
        await asyncio.sleep(gap_seconds)
    return sum(await asyncio.gather(*tasks))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pages", "batch", "gap_seconds"),
    rest_by_night([(60, 20, 0.2), (300, 20, 0.05), (60, 5, 0.1), (40, 20, 1.0)]),
    ids=["small crawl", "full batches", "small batches", "slow crawl"],
)
def test_faults_in_three_calls_of_ten_cost_few_more_calls_and_no_page(
    pages: int, batch: int, gap_seconds: float
) -> None:
    ratios, right = [], []
    for seed in range(20):
        sound, faulty = FaultyModel(seed, 0.0), FaultyModel(seed, 0.3)
        assert run_fast(crawl(sound, pages, batch, gap_seconds)) == pages
        right.append(run_fast(crawl(faulty, pages, batch, gap_seconds)) / pages)
        ratios.append(faulty.calls / sound.calls)
    assert statistics.mean(ratios) <= 1.3
    assert max(ratios) <= 1.8
    assert statistics.mean(right) >= 0.999
    assert min(right) >= 0.97


@pytest.mark.server
async def test_every_kind_of_fault_over_http_leaves_no_page_without_its_verdict() -> None:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    pages_of = {"type": "array", "items": {"type": "object", "required": ["id", "label"]}}
    schema = {"type": "object", "required": ["pages"], "properties": {"pages": pages_of}}
    faults = ["429:1", "500", "hang", "cut", "drop", "alien", "prose", "reset", "503", "fenced", "length", "empty"]
    async with FakeLLM(label_by_url([("/odd/", "odd"), ("/", "even")]), faults=faults) as server:
        client = client_at(
            server.base_url, "m", "k", limits=CallLimits(timeout_seconds=0.5), clock=Clock(sleep=no_wait)
        )

        async def worker(questions: Sequence[str]) -> Mapping[int, str]:
            pages = [{"id": str(position), "url": url} for position, url in enumerate(questions)]
            answer = await client.ask(
                ModelRequest("classify", "s", {"task": "classify", "pages": pages}, schema, salvage=True)
            )
            return {int(page["id"]): page["label"] for page in answer["pages"] if page["id"].isdigit()}

        batcher: Batcher[str, str] = Batcher(worker, rules=BatchRules(max_questions=10), watch=Watch(lambda: "idle"))
        urls = [f"http://site.test/{'odd' if n % 2 else 'even'}/{n}" for n in range(60)]
        labels = await asyncio.gather(*(batcher.submit(url) for url in urls))
        await client.close()
    assert labels == ["odd" if "/odd/" in url else "even" for url in urls]
    assert not server.faults
    assert server.calls <= 24
