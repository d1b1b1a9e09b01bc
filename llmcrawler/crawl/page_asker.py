"""Asks the model about pages: what is known comes from the cache, the rest goes out in batches."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.statscollectors import StatsCollector

from llmcrawler.core.llm import AnswerStore, Batcher, BatchRules, CachedAsker
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.understanding.classification import (
    Answer,
    ClassifyWorker,
    PageTypes,
    PageView,
    answer_from_json,
    answer_to_json,
    page_key,
    site_of,
    tokens_of,
)
from llmcrawler.crawl.engine_state import EngineWatch


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
        self._batcher: Batcher[PageView, Answer] = Batcher(
            ClassifyWorker(model.ask, page_types, self._count_shown),
            rules=rules,
            tokens_of=tokens_of,
            group_of=site_of,
            pressure=watch.reason_to_flush,
            is_ending=watch.is_ending,
            on_batch=lambda _report: count_usage(),
        )
        self._cache = cache
        self._cached: CachedAsker[PageView, Answer] | None = None

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
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
