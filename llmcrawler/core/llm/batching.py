"""Sends questions in batches; each gets its answer, or an error of its own."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from llmcrawler.core.llm.cache import AnswerStore
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.core.llm.usage import Usage
from llmcrawler.errors import BadAnswer, LLMError, LLMFailed, StorageFailed

Q = TypeVar("Q")
A = TypeVar("A")
Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Rules of when a batch goes: when it has `max_questions` or `max_tokens` (0: no limit), or its oldest question has
    waited `wait_seconds`, its oldest patient one `patient_seconds`, or less long where no company will come any more.
    `max_in_flight` counts batches with their halves.
    """

    max_questions: int = 20
    max_tokens: int = 0
    wait_seconds: float = 1.0
    patient_seconds: float = 15.0
    max_in_flight: int = 4
    poll_seconds: float = 0.05


@dataclass(eq=False, slots=True)
class WaitingQuestion(Generic[Q, A]):
    """Question on its way. `company` is the most questions that a call with it may have, fewer after each call that
    was too large. `error` is why it has no answer yet.
    """

    question: Q
    tokens: int
    patient: bool
    since: float
    company: int
    future: asyncio.Future[A]
    group: Hashable = None  # only entries of one group share a batch
    asks: int = 0
    # The batch that has to see to it; None while it waits. A batch that ends looks only after its own.
    holder: object | None = None
    error: Exception = field(default_factory=lambda: BadAnswer("it was never asked"))

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            # A copy for each: one exception raised in many tasks gathers the tracebacks of all of them. Only of our
            # own: others need not be made to be copied.
            self.future.set_exception(copy.copy(error) if isinstance(error, LLMError) else error)


class WaitingRoom(Generic[Q, A]):
    """Holds entries in the order of arrival, each in the room of its group, as only one group's may share a batch; the
    rules hold for each room by itself. `is_ending` tells that hardly any more will come: from then on patient ones wait
    no longer than others, so that their answers are there at the end. It has no clock: `now` is given, on the scale of
    `WaitingQuestion.since`.
    """

    def __init__(self, rules: BatchRules, is_ending: Callable[[], bool] = lambda: False) -> None:
        self._rules = rules
        self._is_ending = is_ending
        self._rooms: dict[Hashable, dict[WaitingQuestion[Q, A], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def __contains__(self, entry: WaitingQuestion[Q, A]) -> bool:
        return entry in self._rooms.get(entry.group, ())

    def add(self, entry: WaitingQuestion[Q, A]) -> None:
        self._rooms.setdefault(entry.group, {})[entry] = None

    def discard(self, entry: WaitingQuestion[Q, A]) -> None:
        room = self._rooms.get(entry.group, {})
        room.pop(entry, None)
        if not room:
            self._rooms.pop(entry.group, None)

    def due(self, now: float) -> tuple[Hashable, str] | None:
        """Return a group whose batch should go, and why (full, tokens, waited, patience, ending); None while waiting
        still pays.
        """
        reasons = ((group, self._reason(room, now)) for group, room in self._rooms.items())
        return next(((group, reason) for group, reason in reasons if reason is not None), None)

    def oldest(self) -> Hashable:
        """Return the group that has waited longest; there must be one."""
        return min(self._rooms, key=lambda group: min(entry.since for entry in self._rooms[group]))

    def take(self, group: Hashable) -> list[WaitingQuestion[Q, A]]:
        """Remove and return the group's next batch: entries that were asked before, then the urgent, then the patient,
        as many as fit the limits. One question over the token limit goes alone.
        """
        batch: list[WaitingQuestion[Q, A]] = []
        tokens = 0
        company = self._rules.max_questions
        token_limit = self._rules.max_tokens or float("inf")
        for entry in sorted(self._rooms[group], key=lambda entry: (-entry.asks, entry.patient, entry.since)):
            fits = len(batch) < min(company, entry.company) and tokens + entry.tokens <= token_limit
            if fits or not batch:
                batch.append(entry)
                tokens += entry.tokens
                company = min(company, entry.company)
        for entry in batch:
            self.discard(entry)
        return batch

    def _reason(self, room: Collection[WaitingQuestion[Q, A]], now: float) -> str | None:
        rules = self._rules
        if len(room) >= rules.max_questions:
            return "full"
        if rules.max_tokens and sum(entry.tokens for entry in room) >= rules.max_tokens:
            return "tokens"
        if any(not entry.patient and now - entry.since >= rules.wait_seconds for entry in room):
            return "waited"
        patient = max((now - entry.since for entry in room if entry.patient), default=0.0)
        if patient >= rules.patient_seconds:
            return "patience"
        if patient > 0 and patient >= rules.wait_seconds and self._is_ending():
            return "ending"
        return None


# A question is given up when it has failed alone, but not before it was asked so often: any one call may be unlucky
# (at one answer in ten, as faulty as the shared oracle gets, three asks still lose one question in a thousand).
_MIN_ASKS = 4
# A question is asked so often in a full batch, then in ever smaller ones, at last alone.
_FULL_COMPANY_ASKS = 2


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Report on one call of the worker. `reason` is full, tokens, waited, patience, ending, halved or what
    `pressure` said; `outcome` is ok, partial or the error's name.
    """

    number: int
    size: int
    reason: str
    tokens: int
    seconds: float
    answered: int
    outcome: str


def call_bound(size: int) -> int:
    """Return the most calls that a batch of `size` may cause when whole answers are bad: 1 + 4 ceil(log2 size).

    To find one bad question takes two calls a level; twice that leaves room for two of them. A model that
    answers nothing right stops at the bound instead of at the 2 size - 1 calls of halving all the way.
    """
    return 1 + 4 * max(1, (size - 1).bit_length())


class Batcher(Generic[Q, A]):
    """Collects questions into batches. `worker` asks a list of them and returns the answers by their position in it; a
    position left out, or with BadAnswer, is asked again. It raises BadAnswer when the whole answer is useless (the
    batch is then halved), LLMFailed or LLMUnavailable when asking again would not help (all its questions get that
    error).

    What is asked again:
    - what an answer leaves out rides along with the next batch, so that it mostly costs no call of its own; what is
      left out again shares calls of ever smaller size, and is at last asked alone;
    - a useless answer: both halves at once, down to single questions, within `call_bound`.

    Questions of different groups (`group_of`) never share a call: what one holds cannot change the other's answer.

    `pressure` is polled while something waits. It returns a reason (a word for the log) to send all that waits at once,
    or None. `is_ending` as in `WaitingRoom`. Must be used within one event loop.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        worker: Callable[[Sequence[Q]], Awaitable[Mapping[int, A | Exception]]],
        *,
        rules: BatchRules | None = None,
        tokens_of: Callable[[Q], int] = lambda _: 0,
        group_of: Callable[[Q], Hashable] = lambda _: None,
        pressure: Callable[[], str | None] = lambda: None,
        is_ending: Callable[[], bool] = lambda: False,
        on_batch: Callable[[BatchReport], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        self._worker = worker
        self._rules = rules or BatchRules()
        self._tokens_of = tokens_of
        self._group_of = group_of
        self._pressure = pressure
        self._on_batch = on_batch
        self._clock = clock or Clock()
        self._waiting: WaitingRoom[Q, A] = WaitingRoom(self._rules, is_ending)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._numbers = 0

    async def submit(self, question: Q, *, patient: bool = False) -> A:
        """Wait for the answer. A patient question does not start the wait: it rides along with others, or goes after
        `patient_seconds`, or at pressure. Raises the error of this question alone.
        """
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        company = max(1, self._rules.max_questions)
        tokens, group = self._tokens_of(question), self._group_of(question)
        entry = WaitingQuestion(question, tokens, patient, self._clock.monotonic(), company, future, group)
        self._waiting.add(entry)
        self._send_due()
        self._keep_polling()
        try:
            return await future
        finally:
            # Its submitter is gone: nobody waits for the answer. A batch that is out goes on for its mates.
            self._waiting.discard(entry)

    async def close(self) -> None:
        """Send what still waits and wait for all that is out."""
        while self._waiting or self._in_flight:
            self._send_due("closing")
            if self._in_flight:
                await asyncio.wait(self._in_flight)
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None

    def _keep_polling(self) -> None:
        if self._waiting and self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        try:
            while self._waiting:
                await self._clock.sleep(self._rules.poll_seconds)
                self._send_due(self._pressure() if self._waiting else None)
        except Exception as error:
            # `pressure` is the adapter's: if it breaks, those who wait must hear of it, not hang.
            logger.exception("The LLM batches cannot be watched any longer")
            while self._waiting:
                for entry in self._waiting.take(self._waiting.oldest()):
                    entry.fail(error)
        finally:
            self._poller = None

    def _send_due(self, pressure: str | None = None) -> None:
        while self._waiting and len(self._in_flight) < self._rules.max_in_flight:
            due = (self._waiting.oldest(), pressure) if pressure else self._waiting.due(self._clock.monotonic())
            if due is None:
                return
            group, reason = due
            self._send(self._waiting.take(group), reason)

    def _send(self, batch: list[WaitingQuestion[Q, A]], reason: str) -> None:
        for entry in batch:
            entry.holder = batch
        task = asyncio.get_running_loop().create_task(self._see_through(batch, reason))
        self._in_flight.add(task)
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._send_due()
        self._keep_polling()

    async def _see_through(self, batch: list[WaitingQuestion[Q, A]], reason: str) -> None:
        """Ask a batch, then its halves, by levels, until each question has an answer or an error, or another turn."""
        try:
            await self._ask_by_halves(batch, reason)
        except Exception:
            logger.exception("LLM: a batch broke off")
        finally:
            # Broken off or cancelled: nobody may wait for an answer that does not come.
            for entry in batch:
                if entry.holder is batch:
                    entry.fail(LLMFailed("the batch was broken off"))

    async def _ask_by_halves(self, batch: list[WaitingQuestion[Q, A]], reason: str) -> None:
        groups = [batch]
        calls_left = call_bound(len(batch))
        while groups:
            now, over = groups[:calls_left], groups[calls_left:]
            for entry in (entry for group in over for entry in group):
                entry.fail(entry.error)  # its batch may cause no more calls
            calls_left -= len(now)
            unanswered = await asyncio.gather(*(self._ask(group, reason) for group in now))
            groups = [half for group in unanswered for half in _halves(group)]
            reason = "halved"

    async def _ask(self, group: list[WaitingQuestion[Q, A]], reason: str) -> list[WaitingQuestion[Q, A]]:
        """Call the worker once. Return those to be asked again in halves, as the whole answer was bad."""
        group = [entry for entry in group if not entry.future.done()]
        if not group:
            return []
        for entry in group:
            entry.asks += 1
        self._numbers += 1
        number, started = self._numbers, self._clock.monotonic()
        try:
            answers = await self._worker([entry.question for entry in group])
        except BadAnswer as error:
            for entry in group:
                entry.error = error
            again, answered, outcome = self._ask_again_or_fail(group, len(group)), 0, f"BadAnswer: {error}"
        except Exception as error:  # handed on to everyone who waits for this answer
            for entry in group:
                entry.fail(error)
            if not isinstance(error, (LLMError, StorageFailed)):
                logger.exception("LLM batch %d: the worker broke", number)
            again, answered, outcome = [], 0, f"{type(error).__name__}: {error}"
        else:
            again = []
            answered, missing = self._hand_out(group, answers)
            if answered:
                self._requeue(missing, group)
            else:  # as useless as one that can't be read
                again = self._ask_again_or_fail(missing, len(group))
            outcome = "ok" if answered == len(group) else "partial"
        tokens = sum(entry.tokens for entry in group)
        self._report(
            BatchReport(number, len(group), reason, tokens, self._clock.monotonic() - started, answered, outcome)
        )
        return again

    def _hand_out(
        self, group: list[WaitingQuestion[Q, A]], answers: Mapping[int, A | Exception]
    ) -> tuple[int, list[WaitingQuestion[Q, A]]]:
        """Give each its answer, or the error that asking again would not cure. Return the number of answers, and the
        entries without one.
        """
        missing = []
        answered = 0
        for position, entry in enumerate(group):
            answer = answers[position] if position in answers else BadAnswer("the model's answer leaves this out")
            if isinstance(answer, BadAnswer):
                entry.error = answer
                missing.append(entry)
            elif isinstance(answer, Exception):
                entry.fail(answer)
            else:
                answered += 1
                if not entry.future.done():
                    entry.future.set_result(answer)
        return answered, missing

    def _requeue(self, missing: list[WaitingQuestion[Q, A]], group: list[WaitingQuestion[Q, A]]) -> None:
        """Let questions that a batch had no room for wait for the next one."""
        for entry in self._ask_again_or_fail(missing, len(group)):
            if entry.asks >= _FULL_COMPANY_ASKS:
                entry.company = max(1, min(entry.company, len(group)) // 2)
            entry.since = self._clock.monotonic()
            entry.holder = None
            self._waiting.add(entry)
        self._keep_polling()

    @staticmethod
    def _ask_again_or_fail(entries: list[WaitingQuestion[Q, A]], group_size: int) -> list[WaitingQuestion[Q, A]]:
        """Return the questions that are asked again; one that has failed alone, and often enough, gets its error."""
        if group_size == 1:
            for entry in entries:
                if entry.asks >= _MIN_ASKS:
                    entry.fail(entry.error)
        return [entry for entry in entries if not entry.future.done()]

    def _report(self, report: BatchReport) -> None:
        logger.info("LLM batch %d: %d questions (%s), %d tokens, %.2f s, %d answered, %s", *astuple(report))
        self._on_batch(report)


def _halves(group: list[WaitingQuestion[Q, A]]) -> list[list[WaitingQuestion[Q, A]]]:
    middle = (len(group) + 1) // 2
    return [half for half in (group[:middle], group[middle:]) if half]


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
        """Do what Batcher.submit does, with its errors."""
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
