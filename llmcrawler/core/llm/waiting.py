"""Keeps the questions that wait for a batch; decides when a batch goes, and with which of them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from llmcrawler.errors import BadAnswer, LLMError

Q = TypeVar("Q")
A = TypeVar("A")


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
