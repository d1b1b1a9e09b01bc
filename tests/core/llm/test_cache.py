from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from llmcrawler.core.llm.batching import BatchCache, Batcher, BatchRules
from llmcrawler.core.llm.cache import AnswerCache, cache_key
from llmcrawler.core.llm.usage import Usage
from llmcrawler.errors import LLMFailed


async def test_answers_last_across_runs(tmp_path: Path) -> None:
    path = tmp_path / "new" / "answers.sqlite"
    cache = AnswerCache(path)
    await cache.put("a", {"label": "product"})
    await cache.put("b", [1, "ü"])
    await cache.close()
    cache = AnswerCache(path)
    assert [await cache.get(key) for key in "bac"] == [[1, "ü"], {"label": "product"}, None]
    await cache.close()


def test_a_key_depends_on_all_that_decides_an_answer() -> None:
    base = cache_key("m", "1", ["a", "b"], {"url": "u", "text": "t"})
    assert base == cache_key("m", "1", ["a", "b"], {"text": "t", "url": "u"})
    others = [
        cache_key("m2", "1", ["a", "b"], {"url": "u", "text": "t"}),
        cache_key("m", "2", ["a", "b"], {"url": "u", "text": "t"}),
        cache_key("m", "1", ["a"], {"url": "u", "text": "t"}),
        cache_key("m", "1", ["a", "b"], {"url": "u", "text": "t2"}),
    ]
    assert len({base, *others}) == 5


async def test_what_was_not_used_for_longest_is_forgotten_first(tmp_path: Path) -> None:
    now = 0.0
    cache = AnswerCache(tmp_path / "answers.sqlite", max_entries=1000, wall_clock=lambda: now)
    for now in range(10):
        for n in range(100):
            await cache.put(f"{now}-{n}", n)
    now = 100.0
    assert await cache.get("0-0") == 0
    for n in range(500):
        await cache.put(f"new-{n}", n)
    await cache.close()
    cache = AnswerCache(tmp_path / "answers.sqlite")
    assert [await cache.get(key) for key in ("0-0", "0-1", "9-99", "new-0")] == [0, None, 99, 0]
    count = sqlite3.connect(tmp_path / "answers.sqlite")
    assert count.execute("SELECT count(*) FROM answers").fetchone()[0] == 900
    count.close()
    await cache.close()


async def test_a_damaged_file_is_a_miss_with_one_warning_and_stays_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"not a database " * 1000)
    cache = AnswerCache(path)
    await asyncio.gather(*(cache.put(str(n), n) for n in range(5)))
    assert await cache.get("1") is None
    await cache.close()
    assert path.read_bytes().startswith(b"not a database")
    assert ["delete a file that is damaged" in one.message for one in caplog.records] == [True]


async def test_a_place_that_cannot_be_written_is_a_miss_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = AnswerCache(tmp_path / "file" / "answers.sqlite")
    await cache.put("a", 1)
    assert await cache.get("a") is None
    await cache.close()
    assert len(caplog.records) == 1


async def test_two_caches_write_one_file_at_a_time_and_lose_nothing(tmp_path: Path) -> None:
    caches = {name: AnswerCache(tmp_path / "answers.sqlite") for name in "ab"}
    await asyncio.gather(*(cache.put(f"{name}{n}", n) for name, cache in caches.items() for n in range(100)))
    found = [await caches["a"].get(f"{name}{n}") for name in caches for n in range(100)]
    assert found == [*range(100)] * 2
    for cache in caches.values():
        await cache.close()


class SlowModel:
    """Answers with capitals, once the gate is open."""

    def __init__(self, cache: AnswerCache) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self.usage = Usage()
        kept: BatchCache[str, str] = BatchCache(cache, self.key_of, lambda text: text, self.read, self.usage)
        self.batcher = Batcher(self.answer, BatchRules(max_questions=1), cache=kept)

    async def answer(self, questions: Sequence[str]) -> Mapping[int, str]:
        self.asked += questions
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return {0: questions[0].upper()}

    async def key_of(self, question: str) -> str:
        return question

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(value)
        return value


async def test_a_question_is_asked_once_and_then_answered_from_the_cache(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    model = SlowModel(cache)
    model.gate.set()
    for _ in range(2):
        assert await model.batcher.submit("a") == "A"
    assert model.asked == ["a"]
    assert model.usage.cached_answers == 1
    await cache.put("b", 5)
    assert await model.batcher.submit("b") == "B", "an entry that does not fit is asked anew"
    assert await cache.get("b") == "B"
    await cache.close()


async def test_the_same_question_under_way_is_not_asked_twice_even_if_the_first_asker_leaves(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    model = SlowModel(cache)
    first = asyncio.ensure_future(model.batcher.submit("a"))
    await cache.get("a")
    second = asyncio.ensure_future(model.batcher.submit("a"))
    await cache.get("a")
    await cache.get("a")
    first.cancel()
    model.gate.set()
    assert await second == "A"
    assert model.asked == ["a"]
    await cache.close()


async def test_an_error_is_not_kept(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    model = SlowModel(cache)
    model.gate.set()
    model.error = LLMFailed("down")
    with pytest.raises(LLMFailed):
        await model.batcher.submit("a")
    model.error = None
    assert await model.batcher.submit("a") == "A"
    await cache.close()
