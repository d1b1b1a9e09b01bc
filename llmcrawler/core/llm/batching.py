"""Sends questions in batches; each gets its answer, or an error of its own. Answers may be kept in a cache."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

from llmcrawler.core.llm.cache import AnswerStore
from llmcrawler.core.llm.call_limits import REAL_CLOCK, Clock
from llmcrawler.core.llm.usage import Usage
from llmcrawler.errors import BadAnswer, LLMError, LLMFailed, StorageFailed

Q = TypeVar("Q")
A = TypeVar("A")

logger = logging.getLogger(__name__)

# A question is given up when it has failed alone, but not before it was asked so often: any one call may be unlucky
# (at one faulty answer in ten, three asks still lose one question in a thousand).
_MIN_ASKS: Final = 4
# A question is asked so often in a full batch, then in ever smaller ones, at last alone.
_ASKS_IN_FULL_BATCH: Final = 2
# Looks at which a crawl has nothing else to do before what waits is sent: between a page and the next that it links to,
# it has nothing to do for a moment.
_IDLE_LOOKS: Final = 4


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Rules of when a batch goes: when it has `max_questions` or `max_tokens` (0: no limit), or its oldest question has
    waited `wait_seconds`, its oldest patient one `patient_seconds`. `max_in_flight` counts batches with their halves.
    """

    max_questions: int = 20
    max_tokens: int = 0
    wait_seconds: float = 1.0
    patient_seconds: float = 15.0
    max_in_flight: int = 4
    poll_seconds: float = 0.05


@dataclass(eq=False, slots=True)
class WaitingQuestion(Generic[Q, A]):
    """A question on its way. Calls with it have at most `max_batch` questions. `error`: why it has no answer yet."""

    question: Q
    tokens: int
    patient: bool
    since: float
    max_batch: int
    future: asyncio.Future[A]
    group: Hashable = None  # only questions of one group share a batch
    asks: int = 0
    batch: object | None = None  # the batch that has to see to it; None while it waits
    error: Exception = field(default_factory=lambda: BadAnswer("it was never asked"))

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            # A copy for each: one exception raised in many tasks gathers the tracebacks of all of them. Only of our
            # own: others need not be made to be copied.
            self.future.set_exception(copy.copy(error) if isinstance(error, LLMError) else error)


class BatchQueue(Generic[Q, A]):
    """Holds questions by group until their batch is due, by the rules for each group. Once `is_ending` says that hardly
    any more will come, patient ones wait no longer than others. `now` is on the scale of `since`.
    """

    def __init__(self, rules: BatchRules, is_ending: Callable[[], bool] = lambda: False) -> None:
        self._rules = rules
        self._is_ending = is_ending
        self._groups: dict[Hashable, dict[WaitingQuestion[Q, A], None]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, entry: WaitingQuestion[Q, A]) -> None:
        self._groups.setdefault(entry.group, {})[entry] = None

    def discard(self, entry: WaitingQuestion[Q, A]) -> None:
        waiting = self._groups.get(entry.group, {})
        waiting.pop(entry, None)
        if not waiting:
            self._groups.pop(entry.group, None)

    def due(self, now: float) -> tuple[Hashable, str] | None:
        """Return a group whose batch should go, and why (full, tokens, waited, patience, ending); else None."""
        reasons = ((group, self._reason(waiting, now)) for group, waiting in self._groups.items())
        return next(((group, reason) for group, reason in reasons if reason is not None), None)

    def oldest(self) -> Hashable:
        """Return the group that has waited longest; there must be one."""
        return min(self._groups, key=lambda group: min(entry.since for entry in self._groups[group]))

    def take(self, group: Hashable) -> list[WaitingQuestion[Q, A]]:
        """Remove and return the group's next batch: those asked before, then the urgent, then the patient, as many as
        fit the limits. One question over the token limit goes alone.
        """
        batch: list[WaitingQuestion[Q, A]] = []
        tokens, most = 0, self._rules.max_questions
        token_limit = self._rules.max_tokens or float("inf")
        for entry in sorted(self._groups[group], key=lambda entry: (-entry.asks, entry.patient, entry.since)):
            fits = len(batch) < min(most, entry.max_batch) and tokens + entry.tokens <= token_limit
            if fits or not batch:
                batch.append(entry)
                tokens += entry.tokens
                most = min(most, entry.max_batch)
        for entry in batch:
            self.discard(entry)
        return batch

    def _reason(self, waiting: Collection[WaitingQuestion[Q, A]], now: float) -> str | None:
        rules = self._rules
        if len(waiting) >= rules.max_questions:
            return "full"
        if rules.max_tokens and sum(entry.tokens for entry in waiting) >= rules.max_tokens:
            return "tokens"
        if any(not entry.patient and now - entry.since >= rules.wait_seconds for entry in waiting):
            return "waited"
        patient = max((now - entry.since for entry in waiting if entry.patient), default=0.0)
        if patient >= rules.patient_seconds:
            return "patience"
        return "ending" if 0 < patient >= rules.wait_seconds and self._is_ending() else None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One call of the worker. `reason` is as BatchQueue.due gives it, halved, closing or what the watch said."""

    number: int
    size: int
    reason: str
    tokens: int
    seconds: float
    answered: int
    outcome: str


class BatchWatch(Protocol):
    """Watches the crawl. A reason to flush (a word for the log) that lasts sends all that waits. `is_ending`: see
    BatchQueue.
    """

    def reason_to_flush(self) -> str | None: ...

    def is_ending(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class BatchCache(Generic[Q, A]):
    """Stores answers for a Batcher, each by the key of its question (see `cache_key`). `from_json` raises ValueError
    for an entry that does not fit any more, which is then asked again.
    """

    store: AnswerStore
    key_of: Callable[[Q], Awaitable[str]]
    to_json: Callable[[A], Any]
    from_json: Callable[[Any], A]
    usage: Usage


def call_bound(size: int) -> int:
    """Return the most calls that a batch of `size` may cause when whole answers are bad: 1 + 4 ceil(log2 size).

    To find one bad question takes two calls a level; twice that leaves room for two of them. A model that answers
    nothing right stops at the bound instead of at the 2 size - 1 calls of halving all the way.
    """
    return 1 + 4 * max(1, (size - 1).bit_length())


class Batcher(Generic[Q, A]):
    """Collects questions into batches. `worker` asks a list of them and returns the answers by their position in it; a
    position left out, or with BadAnswer, is asked again. It raises BadAnswer when the whole answer is useless, and
    LLMFailed or LLMUnavailable when asking again would not help (all its questions get that error).

    What an answer leaves out rides along with the next batch, so that it mostly costs no call of its own; what is left
    out again shares calls of ever smaller size, and is at last asked alone. After a useless answer both halves are
    asked at once, down to single questions, within `call_bound`.

    Questions of different groups (`group_of`) never share a call: what one holds cannot change the other's answer.
    Must be used within one event loop.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        worker: Callable[[Sequence[Q]], Awaitable[Mapping[int, A | Exception]]],
        rules: BatchRules = BatchRules(),
        *,
        tokens_of: Callable[[Q], int] = lambda _: 0,
        group_of: Callable[[Q], Hashable] = lambda _: None,
        watch: BatchWatch | None = None,
        on_batch: Callable[[BatchReport], None] = lambda _: None,
        cache: BatchCache[Q, A] | None = None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._worker = worker
        self._rules = rules
        self._tokens_of = tokens_of
        self._group_of = group_of
        self._reason_to_flush = watch.reason_to_flush if watch else lambda: None
        self._on_batch = on_batch
        self._cache = cache
        self._clock = clock
        self._waiting: BatchQueue[Q, A] = BatchQueue(rules, watch.is_ending if watch else lambda: False)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._calls = 0
        self._under_way: dict[str, asyncio.Future[A]] = {}  # by cache key

    async def submit(self, question: Q, *, patient: bool = False) -> A:
        """Wait for the answer, which may be a kept one. A patient question rides along with others, or goes after
        `patient_seconds` or with all that waits. Raises the error of this question alone.
        """
        if self._cache is None:
            return await self._ask(question, patient)
        key = await self._cache.key_of(question)
        if (stored := await self._cache.store.get(key)) is not None:
            try:
                answer = self._cache.from_json(stored)
            except ValueError:
                pass  # of an older form: ask anew and overwrite it
            else:
                self._cache.usage.cached_answers += 1
                return answer
        if key not in self._under_way:
            asking = self._under_way[key] = asyncio.ensure_future(
                self._ask_and_keep(self._cache, key, question, patient)
            )
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # its submitters may be gone
        # Shielded: others may wait for the same answer, and what was paid for is kept.
        return await asyncio.shield(self._under_way[key])

    async def close(self) -> None:
        """Send what still waits and wait for all that is out."""
        while self._waiting or self._in_flight:
            self._send_due("closing")
            if self._in_flight:
                await asyncio.wait(self._in_flight)
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _ask_and_keep(self, cache: BatchCache[Q, A], key: str, question: Q, patient: bool) -> A:
        try:
            answer = await self._ask(question, patient)
            await cache.store.put(key, cache.to_json(answer))
            return answer
        finally:
            del self._under_way[key]

    async def _ask(self, question: Q, patient: bool) -> A:
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        tokens, now, most = self._tokens_of(question), self._clock.monotonic(), max(1, self._rules.max_questions)
        entry = WaitingQuestion(question, tokens, patient, now, most, future, self._group_of(question))
        self._waiting.add(entry)
        self._send_due()
        self._keep_polling()
        try:
            return await future
        finally:
            # Its submitter may be gone, and nobody waits for the answer. A batch that is out goes on for the others.
            self._waiting.discard(entry)

    def _keep_polling(self) -> None:
        if self._waiting and self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        looks = 0
        try:
            while self._waiting:
                await self._clock.sleep(self._rules.poll_seconds)
                reason = self._reason_to_flush() if self._waiting else None
                looks = looks + 1 if reason else 0
                self._send_due(reason if looks >= _IDLE_LOOKS else None)
        except Exception as error:
            # The watch is the adapter's: if it breaks, those who wait must be told, and not hang.
            logger.exception("The LLM batches cannot be watched any longer")
            while self._waiting:
                for entry in self._waiting.take(self._waiting.oldest()):
                    entry.fail(error)
        finally:
            self._poller = None

    def _send_due(self, flush_reason: str | None = None) -> None:
        while self._waiting and len(self._in_flight) < self._rules.max_in_flight:
            if flush_reason:
                due: tuple[Hashable, str] | None = self._waiting.oldest(), flush_reason
            else:
                due = self._waiting.due(self._clock.monotonic())
            if due is None:
                return
            task = asyncio.get_running_loop().create_task(self._answer_all(self._waiting.take(due[0]), due[1]))
            self._in_flight.add(task)
            task.add_done_callback(self._end_batch)

    def _end_batch(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._send_due()
        self._keep_polling()

    async def _answer_all(self, batch: list[WaitingQuestion[Q, A]], reason: str) -> None:
        """Ask a batch, then its halves, by levels, until each question has an answer or an error, or waits again."""
        for entry in batch:
            entry.batch = batch
        groups, calls_left = [batch], call_bound(len(batch))
        try:
            while groups:
                for entry in chain(*groups[calls_left:]):
                    entry.fail(entry.error)  # its batch may cause no more calls
                groups = groups[:calls_left]
                calls_left -= len(groups)
                useless = await asyncio.gather(*(self._ask_group(group, reason) for group in groups))
                halves = (half for one in useless for half in (one[: -(-len(one) // 2)], one[-(-len(one) // 2) :]))
                groups, reason = [half for half in halves if half], "halved"
        except Exception:
            logger.exception("LLM: a batch failed")
        finally:
            # Broken off or cancelled: nobody may wait for an answer that does not come.
            for entry in batch:
                if entry.batch is batch:
                    entry.fail(LLMFailed("the batch was cancelled"))

    async def _ask_group(self, group: list[WaitingQuestion[Q, A]], reason: str) -> list[WaitingQuestion[Q, A]]:
        """Call the worker once. Return those to be asked again in halves, as the whole answer was useless."""
        group = [entry for entry in group if not entry.future.done()]
        if not group:
            return []
        for entry in group:
            entry.asks += 1
        self._calls += 1
        number, started, outcome = self._calls, self._clock.monotonic(), ""
        answers: Mapping[int, A | Exception]
        try:
            answers = await self._worker([entry.question for entry in group])
        except Exception as error:  # handed on to everyone who waits for this answer
            answers, outcome = dict.fromkeys(range(len(group)), error), f"{type(error).__name__}: {error}"
            if not isinstance(error, (LLMError, StorageFailed)):
                logger.exception("LLM batch %d: the worker broke", number)
        answered, missing = self._hand_out(group, answers)
        if answered:
            self._requeue(missing, len(group))
        outcome = outcome or ("ok" if answered == len(group) else "partial")
        seconds = self._clock.monotonic() - started
        tokens = sum(entry.tokens for entry in group)
        report = BatchReport(number, len(group), reason, tokens, seconds, answered, outcome)
        logger.info("LLM batch %d: %d questions (%s), %d tokens, %.2f s, %d answered, %s", *astuple(report))
        self._on_batch(report)
        return [] if answered else missing

    @staticmethod
    def _hand_out(
        group: list[WaitingQuestion[Q, A]], answers: Mapping[int, A | Exception]
    ) -> tuple[int, list[WaitingQuestion[Q, A]]]:
        """Give each its answer or its last error. Return the number of answers, and the questions to be asked again."""
        missing, answered = [], 0
        for position, entry in enumerate(group):
            answer = answers[position] if position in answers else BadAnswer("the model's answer omits this")
            if isinstance(answer, BadAnswer):
                entry.error = answer
                if len(group) == 1 and entry.asks >= _MIN_ASKS:
                    entry.fail(answer)
                elif not entry.future.done():
                    missing.append(entry)
            elif isinstance(answer, Exception):
                entry.fail(answer)
            else:
                answered += 1
                if not entry.future.done():
                    entry.future.set_result(answer)
        return answered, missing

    def _requeue(self, entries: list[WaitingQuestion[Q, A]], batch_size: int) -> None:
        for entry in entries:
            if entry.asks >= _ASKS_IN_FULL_BATCH:
                entry.max_batch = max(1, min(entry.max_batch, batch_size) // 2)
            entry.since = self._clock.monotonic()
            entry.batch = None
            self._waiting.add(entry)
        self._keep_polling()
