"""The calls of the model that wait for answers in a job, by the API's batch that each is in, and answers that came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.storage.body_packer import pack, unpack
from llmcrawler.core.storage.database import Database
from llmcrawler.core.storage.job_file import REQUEUED_PRIORITY, State
from llmcrawler.core.storage.keys import JobConnection
from llmcrawler.core.storage.ledger import id_of


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that was about to be created at `server`; `api_id` is the server's own, None where that is not known."""

    id: str
    server: str
    created: float
    api_id: str | None


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call: the body of its request, what was held for it, and its answer, None where none has come. `batch` is None
    where it was in none yet."""

    id: int
    batch: str | None
    body: dict[str, Any]
    held: dict[str, float]
    answer: dict[str, Any] | None


class ModelCalls:
    """Keeps calls until the job is finished. What a method has written outlasts the end of the process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, body: Mapping[str, Any], urls: Sequence[str], held: Mapping[str, float]) -> int:
        """Store a call about pages; return its id."""
        packed = pack(json.dumps(body, ensure_ascii=False))
        query = "INSERT INTO model_calls (body, urls, held) VALUES (?, ?, ?)"
        row = (packed, json.dumps(list(urls)), json.dumps(dict(held)))
        return await self._database.run(lambda to: int(to.execute(query, row).lastrowid or 0))

    async def put_in_batch(self, batch: StoredBatch, calls: Iterable[int]) -> None:
        """Store that a batch of these calls is about to be created."""

        def put(connection: JobConnection) -> None:
            row = (batch.id, batch.server, batch.created, batch.api_id)
            connection.execute("INSERT INTO api_batches VALUES (?, ?, ?, ?)", row)
            rows = [(batch.id, call) for call in calls]
            connection.executemany("UPDATE model_calls SET batch = ? WHERE id = ?", rows)

        await self._database.run(put)

    async def note_created(self, batch: str, api_id: str) -> None:
        query = "UPDATE api_batches SET api_id = ? WHERE id = ?"
        await self._database.run(lambda to: to.execute(query, (api_id, batch)))

    async def end_batch(self, batch: str, answers: Mapping[int, Mapping[str, Any]], dropped: Iterable[int]) -> None:
        """Store the answers of a batch that is over. Its calls without one are in no batch any more, but for those that
        are dropped."""

        def end(connection: JobConnection) -> None:
            rows = [(pack(json.dumps(answer, ensure_ascii=False)), call) for call, answer in answers.items()]
            connection.executemany("UPDATE model_calls SET answer = ? WHERE id = ?", rows)
            connection.executemany("DELETE FROM model_calls WHERE id = ?", [(call,) for call in dropped])
            connection.execute("UPDATE model_calls SET batch = NULL WHERE batch = ?", (batch,))
            connection.execute("DELETE FROM api_batches WHERE id = ?", (batch,))

        await self._database.run(end)

    async def drop(self, calls: Iterable[int]) -> None:
        rows = [(call,) for call in calls]
        await self._database.run(lambda to: to.executemany("DELETE FROM model_calls WHERE id = ?", rows))

    async def load(self) -> tuple[list[StoredBatch], list[StoredCall]]:
        """Return the batches that are not over, and all calls, in their order."""
        return await self._database.run(_load)

    async def under_way(self, urls: Iterable[str]) -> set[str]:
        """Return those of these pages that have no line yet, and whose type is still to be found."""
        query = (
            f"SELECT 1 FROM urls u WHERE id = ? AND state IN ({State.QUEUED:d}, {State.LEASED:d}) AND NOT EXISTS "  # noqa: S608 - numbers of ours
            "(SELECT 1 FROM stages s WHERE s.url = u.id AND s.stage = 'classify' AND s.status = 'success')"
        )
        asked = set(urls)
        return await self._database.run(
            lambda to: {url for url in asked if to.execute(query, (id_of(to, url),)).fetchone()}
        )


def _load(connection: JobConnection) -> tuple[list[StoredBatch], list[StoredCall]]:
    batches = [StoredBatch(*row) for row in connection.execute("SELECT id, server, created, api_id FROM api_batches")]
    calls = [
        StoredCall(
            call,
            batch,
            json.loads(unpack(body)),
            json.loads(held),
            None if answer is None else json.loads(unpack(answer)),
        )
        for call, batch, body, held, answer in connection.execute(
            "SELECT id, batch, body, held, answer FROM model_calls ORDER BY id"
        )
    ]
    return batches, calls


def put_asked_pages_first(connection: JobConnection) -> None:
    """Let the pages that the model was asked about come before all others: what it says of them is paid, and speaks
    for others of their templates."""
    for (urls,) in connection.execute("SELECT urls FROM model_calls").fetchall():
        for url in json.loads(urls):
            connection.execute(
                "UPDATE urls SET rank = ? WHERE id = ? AND state IN (?, ?)",
                (REQUEUED_PRIORITY - 2, id_of(connection, url), State.QUEUED, State.LEASED),
            )


def forget_answers(connection: JobConnection) -> None:
    """Forget the answers that have come: they were for this run of the job, or are to be asked for anew."""
    connection.execute("DELETE FROM model_calls WHERE answer IS NOT NULL")


def count_waiting(connection: JobConnection) -> tuple[int, int]:
    """Return the number of calls in batches that are not over, and of these batches."""
    (calls,) = connection.execute("SELECT count(*) FROM model_calls WHERE batch IS NOT NULL").fetchone()
    (batches,) = connection.execute("SELECT count(*) FROM api_batches").fetchone()
    return calls, batches
