"""Gathers questions into batches, and sees to it that each gets its answer or an error of its own."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from llmcrawler.errors import BadAnswer, LLMError, LLMFailed

logger = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")

# A question is given up when it has failed alone, but not before it was asked so often: any one call may be unlucky
# (at one answer in ten, as faulty as the shared oracle gets, three asks still lose one question in a thousand).
_MIN_ASKS = 4
# So often it is asked in full company, then in ever smaller, at last alone.
_FULL_COMPANY_ASKS = 2


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One call of the worker. `reason` is full, tokens, waited, patience, halved or what `pressure` said;
    `outcome` is ok, partial or the error's name."""

    number: int
    size: int
    reason: str
    tokens: int
    seconds: float
    answered: int
    outcome: str


@dataclass(frozen=True, slots=True)
class BatchRules:
    """When a batch goes out. `patient_seconds` is how long a patient question waits for others at most."""

    max_questions: int = 20
    max_tokens: int = 0
    wait_seconds: float = 1.0
    patient_seconds: float = 15.0
    max_in_flight: int = 4
    poll_seconds: float = 0.05


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Q, A]):
    question: Q
    tokens: int
    patient: bool
    since: float
    future: asyncio.Future[A]
    asks: int = 0
    error: Exception = field(default_factory=lambda: BadAnswer("never asked"))
    # The most questions that it may share a call with; smaller after each call that was too large.
    company: int = 1


def call_bound(size: int) -> int:
    """The most calls that one batch of `size` may cause when whole answers are bad: 1 + 4 ceil(log2 size).

    To find one bad question takes two calls a level; twice that leaves room for two of them. A model that
    answers nothing right stops at the bound instead of at the 2 size - 1 calls of halving all the way.
    """
    return 1 + 4 * max(1, (size - 1).bit_length())


class Batcher(Generic[Q, A]):
    """`worker` asks a list of questions and returns the answers by their position in it; a position left out, or
    with BadAnswer, is asked again. It raises BadAnswer when the whole answer is useless (the batch is then halved),
    LLMFailed or LLMUnavailable when asking again would not help (all its questions get that error).

    What is asked again:
    - a few left out of an answer ride along with the next batch, so that they mostly cost no call of their own;
    - half or more left out: the batch was too large for the model, those share calls of at most half the size;
    - a useless answer: both halves at once, down to single questions, within `call_bound`.

    `pressure` is polled while something waits. It returns a reason (a word for the log) to send all that waits at
    once, or None. Must be used within one event loop.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        worker: Callable[[Sequence[Q]], Awaitable[Mapping[int, A | Exception]]],
        *,
        name: str = "LLM",
        rules: BatchRules | None = None,
        tokens_of: Callable[[Q], int] = lambda _: 0,
        pressure: Callable[[], str | None] = lambda: None,
        on_batch: Callable[[BatchReport], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._worker = worker
        self._name = name
        self._rules = rules or BatchRules()
        self._tokens_of = tokens_of
        self._pressure = pressure
        self._on_batch = on_batch
        self._clock = clock
        self._sleep = sleep
        self._waiting: list[_Waiting[Q, A]] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._numbers = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def in_flight_count(self) -> int:
        """Batches that are out, each with its halves."""
        return len(self._in_flight)

    async def submit(self, question: Q, *, patient: bool = False) -> A:
        """Wait for the answer. A patient question does not start the wait: it rides along with others, or goes after
        `patient_seconds`, or at pressure. Raises the error of this question alone.
        """
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        tokens = self._tokens_of(question)
        company = max(1, self._rules.max_questions)
        entry = _Waiting(question, tokens, patient, self._clock(), future, company=company)
        self._waiting.append(entry)
        self._send_due()
        self._keep_polling()
        try:
            return await future
        finally:
            # Its submitter is gone: nobody waits for the answer. A batch that is out goes on for its mates.
            if entry in self._waiting:
                self._waiting.remove(entry)

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
                await self._sleep(self._rules.poll_seconds)
                self._send_due(self._pressure() if self._waiting else None)
        except Exception as error:
            # `pressure` is the adapter's: if it breaks, those who wait must hear of it, not hang.
            logger.exception("The %s batches cannot be watched any longer", self._name)
            for entry in self._waiting:
                _fail(entry, error)
            self._waiting.clear()
        finally:
            self._poller = None

    def _send_due(self, pressure: str | None = None) -> None:
        while self._waiting and len(self._in_flight) < self._rules.max_in_flight:
            reason = pressure or self._reason_to_send()
            if reason is None:
                return
            self._send(self._next_batch(), reason)

    def _reason_to_send(self) -> str | None:
        rules, now = self._rules, self._clock()
        if len(self._waiting) >= rules.max_questions:
            return "full"
        if rules.max_tokens and sum(entry.tokens for entry in self._waiting) >= rules.max_tokens:
            return "tokens"
        if any(not entry.patient and now - entry.since >= rules.wait_seconds for entry in self._waiting):
            return "waited"
        if any(entry.patient and now - entry.since >= rules.patient_seconds for entry in self._waiting):
            return "patience"
        return None

    def _next_batch(self) -> list[_Waiting[Q, A]]:
        """Those asked before first, then the urgent, then the patient, as many as fit the limits of all of them."""
        batch: list[_Waiting[Q, A]] = []
        tokens = 0
        company = self._rules.max_questions
        for entry in sorted(self._waiting, key=lambda entry: (-entry.asks, entry.patient, entry.since)):
            narrower = min(company, entry.company)
            fits = len(batch) < narrower and tokens + entry.tokens <= (self._rules.max_tokens or tokens + entry.tokens)
            if fits or not batch:
                batch.append(entry)
                tokens += entry.tokens
                company = narrower
        taken = set(batch)
        self._waiting = [entry for entry in self._waiting if entry not in taken]
        return batch

    def _send(self, batch: list[_Waiting[Q, A]], reason: str) -> None:
        task = asyncio.get_running_loop().create_task(self._see_through(batch, reason))
        self._in_flight.add(task)
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._send_due()
        self._keep_polling()

    async def _see_through(self, batch: list[_Waiting[Q, A]], reason: str) -> None:
        """Ask a batch, then its halves, level by level, until each question has an answer, an error or another turn."""
        try:
            await self._ask_by_halves(batch, reason)
        except Exception:
            logger.exception("%s: a batch broke off", self._name)
        finally:
            # Broken off or cancelled: nobody may wait for an answer that does not come.
            still_waiting = set(self._waiting)
            for entry in batch:
                if entry not in still_waiting:
                    _fail(entry, LLMFailed("the batch was broken off"))

    async def _ask_by_halves(self, batch: list[_Waiting[Q, A]], reason: str) -> None:
        groups = [batch]
        calls_left = call_bound(len(batch))
        while groups:
            now, over = groups[:calls_left], groups[calls_left:]
            for entry in (entry for group in over for entry in group):
                _fail(entry, entry.error)  # its batch may cause no more calls
            calls_left -= len(now)
            unanswered = await asyncio.gather(*(self._ask(group, reason) for group in now))
            groups = [half for group in unanswered for half in _halves(group)]
            reason = "halved"

    async def _ask(self, group: list[_Waiting[Q, A]], reason: str) -> list[_Waiting[Q, A]]:
        """One call of the worker. Returns the group where the whole answer was bad and it is to be asked again."""
        group = [entry for entry in group if not entry.future.done()]
        if not group:
            return []
        for entry in group:
            entry.asks += 1
        self._numbers += 1
        number, started = self._numbers, self._clock()
        try:
            answers = await self._worker([entry.question for entry in group])
        except BadAnswer as error:
            for entry in group:
                entry.error = error
            again, answered, outcome = self._ask_again_or_fail(group, len(group)), 0, f"BadAnswer: {error}"
        except Exception as error:  # handed on to everyone who waits for this answer
            for entry in group:
                _fail(entry, error)
            if not isinstance(error, LLMError):
                logger.exception("%s batch %d: the worker broke", self._name, number)
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
        self._report(BatchReport(number, len(group), reason, tokens, self._clock() - started, answered, outcome))
        return again

    def _hand_out(
        self, group: list[_Waiting[Q, A]], answers: Mapping[int, A | Exception]
    ) -> tuple[int, list[_Waiting[Q, A]]]:
        """Give each its answer, or the error that asking again would not cure. Returns the number of answers, and
        those without one.
        """
        missing = []
        answered = 0
        for position, entry in enumerate(group):
            answer = answers[position] if position in answers else BadAnswer("the model's answer leaves this out")
            if isinstance(answer, BadAnswer):
                entry.error = answer
                missing.append(entry)
            elif isinstance(answer, Exception):
                _fail(entry, answer)
            else:
                answered += 1
                if not entry.future.done():
                    entry.future.set_result(answer)
        return answered, missing

    def _requeue(self, missing: list[_Waiting[Q, A]], group: list[_Waiting[Q, A]]) -> None:
        too_large = 2 * len(missing) >= len(group)
        for entry in self._ask_again_or_fail(missing, len(group)):
            if too_large or entry.asks >= _FULL_COMPANY_ASKS:
                entry.company = max(1, min(entry.company, len(group)) // 2)
            entry.since = self._clock()
            self._waiting.append(entry)
        self._keep_polling()

    @staticmethod
    def _ask_again_or_fail(entries: list[_Waiting[Q, A]], group_size: int) -> list[_Waiting[Q, A]]:
        """Those that deserve another turn; one that has failed alone, and often enough, gets its error."""
        if group_size == 1:
            for entry in entries:
                if entry.asks >= _MIN_ASKS:
                    _fail(entry, entry.error)
        return [entry for entry in entries if not entry.future.done()]

    def _report(self, report: BatchReport) -> None:
        logger.info(
            "%s batch %d: %d questions (%s), %d tokens, %.2f s, %d answered, %s",
            self._name,
            report.number,
            report.size,
            report.reason,
            report.tokens,
            report.seconds,
            report.answered,
            report.outcome,
        )
        self._on_batch(report)


def _halves(group: list[_Waiting[Q, A]]) -> list[list[_Waiting[Q, A]]]:
    middle = (len(group) + 1) // 2
    return [half for half in (group[:middle], group[middle:]) if half]


def _fail(entry: _Waiting[Q, A], error: Exception) -> None:
    if not entry.future.done():
        # A copy for each: one exception raised in many tasks gathers the tracebacks of all of them.
        entry.future.set_exception(copy.copy(error))
