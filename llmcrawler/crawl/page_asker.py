"""Asks the model about pages: what is known comes from the cache, the rest goes out in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from scrapy.statscollectors import StatsCollector

from llmcrawler.core.llm import AnswerStore, Batcher, BatchRules, CachedAsker
from llmcrawler.core.llm.language_model import LanguageModel
from llmcrawler.core.understanding.classification import (
    TASK,
    Answer,
    ClassifyWorker,
    PageTypes,
    PageView,
    answer_from_json,
    answer_to_json,
    page_key,
    shown_url,
    site_of,
    tokens_of,
)
from llmcrawler.crawl.engine_state import EngineWatch

_LOOK_SECONDS: Final = 0.5  # whether the crawl has nothing else to do


class BatchingAsker:
    """Asks within one event loop. `watch` tells when pages must not wait for their batch any longer; `count_usage`
    writes what the model costs into the stats.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it brings together
        self,
        model: LanguageModel,
        page_types: PageTypes,
        cache: AnswerStore | None,
        rules: BatchRules,
        stats: StatsCollector,
        watch: EngineWatch,
        count_usage: Callable[[], None],
    ) -> None:
        self._stats = stats
        self._model = model
        self._page_types = page_types
        self._watch = watch
        self._worker = ClassifyWorker(model.ask, page_types, self._count_shown)
        self._batcher: Batcher[PageView, Answer] = Batcher(
            self._worker,
            rules=rules,
            tokens_of=tokens_of,
            group_of=site_of,
            pressure=watch.reason_to_flush,
            is_ending=watch.is_ending,
            on_batch=lambda _report: count_usage(),
        )
        self._cache = cache
        self._cached: CachedAsker[PageView, Answer] | None = None
        self._earlier: dict[str, Answer] = {}
        self._expected: set[str] = set()
        self._judged = asyncio.Event()
        self._taking_up: asyncio.Task[None] | None = None

    async def was_asked(self, url: str) -> bool:
        """Tell whether an earlier run of the crawl has asked about a page, so that `submit` has its answer. Other pages
        wait here until those have come. Raises LLMStopped.
        """
        if self._taking_up is None:
            self._taking_up = asyncio.ensure_future(self._take_up())
        await asyncio.shield(self._taking_up)
        shown = shown_url(url)
        while self._expected and shown not in self._earlier and self._watch.reason_to_flush() is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._judged.wait(), _LOOK_SECONDS)
        return shown in self._earlier

    def note_judged(self, url: str) -> None:
        """Let no page wait any longer for this one's answer, as it has its verdict."""
        self._expected.discard(shown_url(url))
        if not self._expected:
            self._judged.set()

    async def _take_up(self) -> None:
        calls = await self._model.earlier_calls(TASK)
        self._earlier = self._worker.earlier_answers(calls)
        self._expected = {url for call in calls for url in call.under_way if url in self._earlier}

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
        earlier = self._earlier.pop(question["url"], None)
        if earlier is not None:
            return earlier
        if self._cache is None:
            return await self._batcher.submit(question, patient=patient)
        if self._cached is None:
            self._cached = CachedAsker(
                self._batcher,
                self._cache,
                key_of=page_key(await self._model.name(), self._page_types),
                to_json=answer_to_json,
                from_json=answer_from_json,
                usage=self._model.usage,
            )
        return await self._cached.submit(question, patient=patient)

    async def close(self) -> None:
        await self._batcher.close()

    def _count_shown(self, pages: int) -> None:
        self._stats.inc_value("llmcrawler/llm/pages_shown", pages)
