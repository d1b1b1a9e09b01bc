"""Asks each question once: from the cache, else with the same question that is under way, else of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from llmcrawler.llm.cache import AnswerStore
from llmcrawler.llm.usage import Usage

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Asker(Protocol[Q_contra, A_co]):
    """Takes questions and answers them: a Batcher, or what stands before one."""

    def submit(self, question: Q_contra, *, patient: bool = False) -> Awaitable[A_co]: ...


class CachedAsker(Generic[Q, A]):
    """Answers from the cache what it can, and the rest from a Batcher. Entries are per question, so it does not matter
    which questions shared a batch.

    `key_of` gives the cache key of a question (see `cache_key`). `to_json` and `from_json` turn an answer into JSON
    and back; `from_json` raises ValueError for an entry that does not fit any more, which is then asked anew.
    """

    def __init__(  # noqa: PLR0913 - what to ask, what to keep, and how to turn the one into the other
        self,
        asker: Asker[Q, A],
        cache: AnswerStore,
        *,
        key_of: Callable[[Q], str],
        to_json: Callable[[A], Any],
        from_json: Callable[[Any], A],
        usage: Usage,
    ) -> None:
        self._asker = asker
        self._cache = cache
        self._key_of = key_of
        self._to_json = to_json
        self._from_json = from_json
        self._usage = usage
        self._under_way: dict[str, asyncio.Future[A]] = {}

    async def submit(self, question: Q, *, patient: bool = False) -> A:
        """Return the answer to a question, from the cache or from the batcher. Raises as Batcher.submit does."""
        key = self._key_of(question)
        stored = await self._cache.get(key)
        if stored is not None:
            try:
                answer = self._from_json(stored)
            except ValueError:
                pass  # of an older form: ask anew and overwrite it
            else:
                self._usage.cached_answers += 1
                return answer
        same = self._under_way.get(key)
        if same is not None:
            return await asyncio.shield(same)
        future = asyncio.ensure_future(self._ask(key, question, patient))
        self._under_way[key] = future
        future.add_done_callback(lambda done: self._finish(key, done))
        # Shielded: others may wait for the same answer, and what was paid for is kept.
        return await asyncio.shield(future)

    def _finish(self, key: str, done: asyncio.Future[A]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # seen: where every submitter is gone, nobody else looks at it

    async def _ask(self, key: str, question: Q, patient: bool) -> A:
        answer = await self._asker.submit(question, patient=patient)
        await self._cache.put(key, self._to_json(answer))
        return answer
