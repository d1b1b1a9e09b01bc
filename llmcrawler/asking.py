"""How pages are put to the model: what is known comes from the cache, the rest goes out in batches."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from llmcrawler.classification import (
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
from llmcrawler.configuration import batch_rules
from llmcrawler.llm import AnswerStore, Batcher, CachedAsker
from llmcrawler.llm.model import Model

# Pages of one site that other workers ask about come a little later and more evenly than those of a single one.
_CREW_WAIT = 4


class PageAsking:
    """Made for one event loop. `pressure` says why pages must not wait for their batch any longer, or None."""

    def __init__(
        self,
        crawler: Crawler,
        model: Model,
        page_types: PageTypes,
        cache: AnswerStore | None,
        pressure: Callable[[], str | None],
    ) -> None:
        settings = crawler.settings
        assert crawler.stats is not None
        self._stats: StatsCollector = crawler.stats
        self._model = model
        self._page_types = page_types
        embedded, in_crew = model.is_embedded, bool(settings.get("REDIS_URL"))
        worker = ClassifyWorker(model.ask, page_types, self._count_shown, small_model=embedded)
        self._batcher: Batcher[PageView, Answer] = Batcher(
            worker,
            rules=batch_rules(settings, embedded=embedded, patience=_CREW_WAIT if in_crew else 1),
            tokens_of=tokens_of,
            group_of=site_of,
            pressure=pressure,
            on_batch=lambda _report: self._count_usage(),
        )
        self._cache = cache
        self._cached: CachedAsker[PageView, Answer] | None = None

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
        if self._cache is None:
            return await self._batcher.submit(question, patient=patient)
        if self._cached is None:
            key_of = page_key(await self._model.name(), self._page_types, small_model=self._model.is_embedded)
            self._cached = CachedAsker(
                self._batcher,
                self._cache,
                key_of=key_of,
                to_json=answer_to_json,
                from_json=answer_from_json,
                usage=self._model.usage,
            )
        return await self._cached.submit(question, patient=patient)

    async def close(self) -> None:
        await self._batcher.close()
        self._count_usage()

    def _count_shown(self, pages: int) -> None:
        self._stats.inc_value("llmcrawler/llm/pages_shown", pages)

    def _count_usage(self) -> None:
        for name, value in (self._model.usage.as_dict() | self._model.budget.as_dict()).items():
            self._stats.set_value(f"llmcrawler/llm/{name}", value)
