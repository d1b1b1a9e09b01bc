"""Answers of the model that the workers of a crawl share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmcrawler.core.llm import AnswerStore
    from llmcrawler.fleet.connection import RedisConnection


class SharedAnswers:
    """Looks answers up in this machine's own store, if it has one, then among those of the crawl's other workers."""

    _NAME = "answers"

    def __init__(self, connection: RedisConnection, own: AnswerStore | None) -> None:
        self._connection = connection
        self._own = own
        self._name = f"{connection.prefix}:{self._NAME}"

    async def get(self, key: str) -> Any | None:
        found = await self._own.get(key) if self._own is not None else None
        if found is not None:
            return found
        packed = await self._connection.call(lambda: self._connection.client.hget(self._name, key))
        return None if packed is None else json.loads(packed)

    async def put(self, key: str, value: Any) -> None:
        if self._own is not None:
            await self._own.put(key, value)
        await self._connection.put(self._NAME, {key: json.dumps(value, ensure_ascii=False)})

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()
