"""Where questions wait for a batch: when it goes, and who goes along."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from llmcrawler.errors import BadAnswer, LLMError

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BatchRules:
    """`max_questions` and `max_tokens` (0: no limit) make a batch full. `wait_seconds` is how long the oldest question
    waits for company, `patient_seconds` the oldest patient one. `max_in_flight` counts batches with their halves.
    """

    max_questions: int = 20
    max_tokens: int = 0
    wait_seconds: float = 1.0
    patient_seconds: float = 15.0
    max_in_flight: int = 4
    poll_seconds: float = 0.05


@dataclass(eq=False, slots=True)
class Entry(Generic[Q, A]):
    """One question on its way. `company` is the most questions that it may share a call with, itself included;
    smaller after each call that was too large. `error` is why it has no answer yet.
    """

    question: Q
    tokens: int
    patient: bool
    since: float
    company: int
    future: asyncio.Future[A]
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
    """Keeps the order of arrival. No clock of its own: `now` is given, on the scale of `Entry.since`."""

    def __init__(self, rules: BatchRules) -> None:
        self._rules = rules
        self._entries: dict[Entry[Q, A], None] = {}
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, entry: Entry[Q, A]) -> bool:
        return entry in self._entries

    def add(self, entry: Entry[Q, A]) -> None:
        self._entries[entry] = None
        self._tokens += entry.tokens

    def discard(self, entry: Entry[Q, A]) -> None:
        if entry in self._entries:
            del self._entries[entry]
            self._tokens -= entry.tokens

    def reason_to_go(self, now: float) -> str | None:
        """full, tokens, waited, patience; or None while waiting still pays."""
        rules = self._rules
        if len(self._entries) >= rules.max_questions:
            return "full"
        if rules.max_tokens and self._tokens >= rules.max_tokens:
            return "tokens"
        if any(not entry.patient and now - entry.since >= rules.wait_seconds for entry in self._entries):
            return "waited"
        if any(entry.patient and now - entry.since >= rules.patient_seconds for entry in self._entries):
            return "patience"
        return None

    def take(self) -> list[Entry[Q, A]]:
        """The next batch, never empty while someone waits: those that were asked before, then the urgent, then the
        patient, as many as fit the limits. One question over the token limit goes alone.
        """
        batch: list[Entry[Q, A]] = []
        tokens = 0
        company = self._rules.max_questions
        token_limit = self._rules.max_tokens or float("inf")
        for entry in sorted(self._entries, key=lambda entry: (-entry.asks, entry.patient, entry.since)):
            fits = len(batch) < min(company, entry.company) and tokens + entry.tokens <= token_limit
            if fits or not batch:
                batch.append(entry)
                tokens += entry.tokens
                company = min(company, entry.company)
        for entry in batch:
            self.discard(entry)
        return batch
