"""Sends calls of the model in batches, and takes up those of earlier runs of the job: none is paid twice."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from llmcrawler.core.llm import faults
from llmcrawler.core.llm.batch_api.calls import CallBatch, EarlierCall, SendingRules, WaitingCall, WaitingCalls
from llmcrawler.core.llm.batch_api.exchange import BatchExchange, Outcomes
from llmcrawler.core.llm.batch_api.provider import line_of
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.core.llm.dialect import document_in
from llmcrawler.core.llm.faults import Fault
from llmcrawler.core.llm.openai_transport import Completion
from llmcrawler.core.storage.batched_calls import ModelCalls, StoredBatch, StoredCall
from llmcrawler.errors import ConfigError, LLMError, StorageFailed

logger = logging.getLogger(__name__)

_MAX_BATCHES: Final = 2  # that a call is put into; then it is asked in the usual way
_MAX_QUIETS: Final = 10


class BatchSender:
    """Sends the calls of one crawl. Each is in the job's file before it is sent, and each batch before it is created:
    wherever a process is killed, the next one finds the batch by its id, or by ours in the server's list.

    `settle` is told what was held for a call of an earlier run, and its answer or None.
    """

    def __init__(
        self,
        exchange: BatchExchange,
        store: ModelCalls,
        rules: SendingRules,
        *,
        settle: Callable[[StoredCall, Completion | None], None],
        clock: Clock,
    ) -> None:
        self._exchange = exchange
        self._store = store
        self._rules = rules
        self._settle = settle
        self._clock = clock
        self._collected: list[WaitingCall] = []
        self._last_added = 0.0
        self._collecting: asyncio.Task[None] | None = None
        self._batches: dict[str, CallBatch] = {}
        self._earlier_tasks: list[asyncio.Task[None]] = []
        self._earlier: dict[int, StoredCall] = {}
        self._answers: dict[int, str] = {}
        self._earlier_calls: list[EarlierCall] | None = None
        self._under_way: frozenset[str] = frozenset()
        self._counts = {"batches": 0, "batch_calls": 0, "batch_calls_again": 0}

    async def open(self) -> Fault | None:
        """Take up what earlier runs have left. Return what is wrong with the server, which may have no Batch API.

        Raises ConfigError where batches wait at another server.
        """
        batches, calls = await self._store.load()
        self._check_servers(batches)
        unknown = {one.id for one in batches if one.api_id is None}
        since = min((one.created for one in batches), default=self._clock.wall())
        found = await self._exchange.first_look(unknown, since)
        if isinstance(found, Fault):
            return found
        self._under_way = frozenset(await self._store.under_way(url for one in calls for url in urls_in(one.body)))
        self._earlier = {one.id: one for one in calls}
        self._answers = {one.id: str(one.answer["text"]) for one in calls if one.answer is not None}
        sent = {batch.id for batch in batches if batch.api_id or batch.id in found}
        never_sent = [one for one in calls if one.answer is None and one.batch not in sent]
        await self._store.drop([one.id for one in never_sent])
        for call in never_sent:
            self._settle(call, None)
        for batch in batches:
            api_id = batch.api_id or found.get(batch.id)
            if api_id is None:
                await self._store.end_batch(batch.id, {}, ())
                continue
            await self._store.note_created(batch.id, api_id)
            mine = [
                WaitingCall(one.id, one.body, batch.created, one.held, None) for one in calls if one.batch == batch.id
            ]
            self._watch_soon(CallBatch(batch.id, batch.created, mine, api_id))
        self._earlier_tasks = [one.task for one in self._batches.values() if one.task is not None]
        if self._batches:
            what = "%d calls in %d batches of an earlier run wait for their answers"
            logger.info(what, self.waiting.calls, self.waiting.batches)
        return None

    async def earlier_calls(self) -> list[EarlierCall]:
        """Return the calls of earlier runs, when all their batches are over, as far as they have answers."""
        await asyncio.gather(*self._earlier_tasks)
        if self._earlier_calls is None:
            documents = ((document_in(self._earlier[call].body), text) for call, text in self._answers.items())
            self._earlier_calls = [
                EarlierCall(document, text, self._under_way.intersection(_urls_of(document)))
                for document, text in documents
            ]
        return self._earlier_calls

    async def complete(self, body: Mapping[str, Any], held: Mapping[str, float]) -> Completion | Fault:
        """Return the answer to the body of a chat completion, hours later. `held` is what the budget holds for it."""
        number = await self._store.add(body, urls_in(body), held)
        answered: asyncio.Future[Completion | Fault] = asyncio.get_running_loop().create_future()
        self._collect(WaitingCall(number, body, self._clock.monotonic(), held, answered))
        return await answered

    @property
    def waiting(self) -> WaitingCalls:
        calls = len(self._collected) + sum(len(batch.calls) for batch in self._batches.values())
        oldest = min((batch.created for batch in self._batches.values()), default=None)
        age = 0.0 if oldest is None else max(0.0, self._clock.wall() - oldest)
        created = sum(bool(batch.api_id) for batch in self._batches.values())
        return WaitingCalls(calls, created, age, not self._collected and created == len(self._batches))

    def as_dict(self) -> dict[str, int]:
        """Return figures for stats."""
        waiting = self.waiting
        return {**self._counts, "batches_pending": waiting.batches, "batch_calls_pending": waiting.calls}

    def stop(self) -> None:
        """Send nothing more, and wait for nothing: what was sent is for the next run."""
        for task in self._tasks():
            task.cancel()

    async def close(self) -> None:
        self.stop()
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        await self._exchange.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in (self._collecting, *(one.task for one in self._batches.values())) if task is not None]

    def _check_servers(self, batches: Iterable[StoredBatch]) -> None:
        for batch in batches:
            if batch.server != self._exchange.server:
                raise ConfigError(
                    f"JOBDIR: a batch of its calls waits for answers at {batch.server}; run it with that LLM_BASE_URL "
                    f"(now {self._exchange.server}), or name another JOBDIR"
                )

    # -- calls that are sent --

    def _collect(self, call: WaitingCall) -> None:
        self._collected.append(call)
        self._last_added = self._clock.monotonic()
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.get_running_loop().create_task(self._send_collected())

    async def _send_collected(self) -> None:
        while self._collected:
            await self._until_quiet()
            calls, lines = self._take()
            batch = CallBatch(uuid.uuid4().hex, self._clock.wall(), calls)
            self._batches[batch.id] = batch
            await self._guarded(batch, self._send(batch, lines))

    async def _until_quiet(self) -> None:
        quiet = self._rules.quiet_seconds
        latest = self._clock.monotonic() + _MAX_QUIETS * quiet
        while (left := min(self._last_added + quiet, latest) - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    def _take(self) -> tuple[list[WaitingCall], bytes]:
        """Take the first calls that fit into a batch; one over the limit goes alone."""
        lines = bytearray()
        calls: list[WaitingCall] = []
        while self._collected and len(calls) < self._rules.most_calls:
            line = line_of(self._collected[0].name, self._collected[0].body)
            if calls and len(lines) + len(line) > self._rules.most_bytes:
                break
            lines += line
            calls.append(self._collected.pop(0))
        return calls, bytes(lines)

    async def _send(self, batch: CallBatch, lines: bytes) -> None:
        stored = StoredBatch(batch.id, self._exchange.server, batch.created, None)
        await self._store.put_in_batch(stored, [call.id for call in batch.calls])
        created = await self._exchange.create(lines, batch.id, batch.created)
        if isinstance(created, Fault):
            logger.warning("LLM: a batch of %d calls could not be created: %s", len(batch.calls), created.message)
            await self._end(batch, {})
            return
        await self._store.note_created(batch.id, created)
        batch.api_id = created
        self._counts["batches"] += 1
        self._counts["batch_calls"] += len(batch.calls)
        logger.info("LLM: batch %s of %d calls waits for answers", created, len(batch.calls))
        self._watch_soon(batch)

    # -- answers --

    def _watch_soon(self, batch: CallBatch) -> None:
        self._batches[batch.id] = batch
        batch.task = asyncio.get_running_loop().create_task(self._guarded(batch, self._watch(batch)))

    async def _watch(self, batch: CallBatch) -> None:
        outcomes = await self._exchange.outcomes(batch.api_id, batch.created)
        if isinstance(outcomes, Fault):  # the key is refused, say: what was paid is there for the next run
            self._answer(batch.calls, outcomes)
        else:
            await self._end(batch, outcomes)

    async def _end(self, batch: CallBatch, outcomes: Outcomes) -> None:
        """Keep the answers of a batch, and hand them out. A call without one goes into another batch, or is to be asked
        in the usual way.
        """
        again = [call for call in batch.calls if call.name not in outcomes and self._may_go_again(call)]
        answers = {
            call.id: outcome for call in batch.calls if isinstance(outcome := outcomes.get(call.name), Completion)
        }
        dropped = {call.id for call in batch.calls} - answers.keys() - {call.id for call in again}
        await self._store.end_batch(batch.id, {number: asdict(one) for number, one in answers.items()}, dropped)
        self._batches.pop(batch.id, None)
        if len(answers) < len(batch.calls):
            what = "LLM: %d of %d calls of batch %s have no answer, %d of them go into another one"
            logger.warning(what, len(batch.calls) - len(answers), len(batch.calls), batch.api_id, len(again))
        no_batch = Fault(faults.NO_BATCH, f"{_MAX_BATCHES} batches brought no answer")
        for call in batch.calls:
            if call.answered is None:
                self._take_earlier(call, answers.get(call.id))
            elif call not in again:
                self._answer([call], outcomes.get(call.name, no_batch))
        self._counts["batch_calls_again"] += len(again)
        for call in again:
            call.batches += 1
            self._collect(call)

    @staticmethod
    def _may_go_again(call: WaitingCall) -> bool:
        return call.answered is not None and not call.answered.done() and call.batches + 1 < _MAX_BATCHES

    def _take_earlier(self, call: WaitingCall, answer: Completion | None) -> None:
        self._settle(self._earlier[call.id], answer)
        if answer is not None:
            self._answers[call.id] = answer.text

    @staticmethod
    def _answer(calls: Iterable[WaitingCall], outcome: Completion | Fault) -> None:
        for call in calls:
            if call.answered is not None and not call.answered.done():
                call.answered.set_result(outcome)

    async def _guarded(self, batch: CallBatch, work: Coroutine[Any, Any, None]) -> None:
        """Do the work on a batch. Whatever ends it, nobody waits for ever."""
        try:
            await work
        except Exception as error:
            if not isinstance(error, (LLMError, StorageFailed)):
                logger.exception("LLM: a batch broke off")
            self._batches.pop(batch.id, None)
            for call in batch.calls:
                if call.answered is not None and not call.answered.done():
                    call.answered.set_exception(error)


def urls_in(body: Mapping[str, Any]) -> list[str]:
    """Return the urls of the pages that the body of a call is about."""
    return _urls_of(document_in(body))


def _urls_of(document: Mapping[str, Any]) -> list[str]:
    return [page["url"] for page in document["pages"]]
