"""Deals with a Batch API patiently: a batch is created once, and waited for as long as its server may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from llmcrawler.core.llm import faults
from llmcrawler.core.llm.batch_api.provider import ApiBatch, BatchProvider
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.core.llm.faults import Fault, RetryRule
from llmcrawler.core.llm.openai_transport import Completion
from llmcrawler.errors import LLMFailed

logger = logging.getLogger(__name__)

T = TypeVar("T")

Outcomes = Mapping[str, Completion | Fault]
"""What came of the calls of a batch, by their names; those that are left out have come to nothing."""

_MAY_PASS: Final = frozenset(
    {
        faults.RATE_LIMIT,
        faults.SERVER_ERROR,
        faults.TIMEOUT,
        faults.NO_CAPACITY,
        faults.UNREACHED,
        faults.AWAY,
        faults.LOST,
    }
)
# After these nothing has been created for sure.
_NOT_DONE: Final = frozenset({faults.RATE_LIMIT, faults.NO_CAPACITY, faults.UNREACHED})
_PATIENCE: Final = RetryRule(7, 1.0, 60.0)
# Whether a batch was created has to be known before its calls may be sent again: about an hour.
_GREAT_PATIENCE: Final = RetryRule(80, 1.0, 60.0)
_GONE: Final = frozenset({404, 410})
# The server gives a batch 24 hours.
_MAX_AGE_SECONDS: Final = 26 * 3_600.0


class BatchExchange:
    """Creates batches and fetches their outcomes. It asks for the state of a batch every `poll_seconds`."""

    def __init__(self, provider: BatchProvider, poll_seconds: float, clock: Clock) -> None:
        self._provider = provider
        self._poll_seconds = poll_seconds
        self._clock = clock

    @property
    def server(self) -> str:
        return self._provider.base_url

    async def first_look(self, our_ids: Collection[str], since: float) -> dict[str, str] | Fault:
        """Do what BatchProvider.find does, with little patience: somebody may be looking on."""
        return await self._persist(lambda: self._provider.find(our_ids, since), faults.FIRST_CONTACT)

    async def create(self, lines: bytes, our_id: str, since: float) -> str | Fault:
        """Upload calls and make a batch of them; return the server's id. It is created once, however often the
        connection breaks. Raises LLMFailed where it cannot be known whether it was.
        """
        file = await self._persist(lambda: self._provider.upload(lines), _PATIENCE)
        if isinstance(file, Fault):
            return file
        tries = 0
        while True:
            created = await self._provider.create(file, our_id)
            if not isinstance(created, Fault):
                return created.id
            tries += 1
            if created.kind not in _MAY_PASS or tries == _PATIENCE.attempts:
                return created
            if created.kind not in _NOT_DONE:
                found = await self._persist(lambda: self._provider.find({our_id}, since), _GREAT_PATIENCE)
                if isinstance(found, Fault):
                    raise LLMFailed(f"whether a batch was created could not be found out: {found.message}")
                if our_id in found:
                    return found[our_id]
            await self._pause(created, tries, _PATIENCE)

    async def outcomes(self, batch: str, created: float) -> Outcomes | Fault:
        """Wait until a batch is over; return what came of it, or why the server does not tell."""
        while True:
            state = await self._provider.retrieve(batch)
            found: Outcomes | None = None
            if isinstance(state, ApiBatch):
                found = await self._outcomes(state) if state.is_over else None
            elif state.status in _GONE:
                logger.warning("LLM: batch %s is gone: %s", batch, state.message)
                found = {}
            elif state.kind not in _MAY_PASS:
                return state
            if found is None and self._clock.wall() > created + _MAX_AGE_SECONDS:
                logger.warning("LLM: batch %s is not over after 26 hours, and is waited for no longer", batch)
                found = {}
            if found is not None:
                return found
            await self._clock.sleep(self._poll_seconds)

    async def close(self) -> None:
        await self._provider.close()

    async def _outcomes(self, state: ApiBatch) -> Outcomes | None:
        """Return what the files of a batch that is over say; None where they cannot be had just now."""
        if state.status != "completed":
            logger.warning("LLM: batch %s is %s: %s", state.id, state.status, state.problem or "no reason given")
        outcomes: dict[str, Completion | Fault] = {}
        for name in state.files:
            file = await self._download(name)
            if isinstance(file, Fault):
                if file.kind in _MAY_PASS:
                    return None
                logger.warning("LLM: a file of batch %s cannot be had: %s", state.id, file.message)
                continue
            outcomes |= await asyncio.to_thread(self._provider.outcomes, file)
        return outcomes

    async def _download(self, name: str) -> bytes | Fault:
        return await self._persist(lambda: self._provider.download(name), _PATIENCE)

    async def _persist(self, attempt: Callable[[], Awaitable[T | Fault]], rule: RetryRule) -> T | Fault:
        """Attempt until it works, the fault will not pass, or the rule is used up."""
        tries = 1
        while True:
            outcome = await attempt()
            if not isinstance(outcome, Fault) or outcome.kind not in _MAY_PASS or tries == rule.attempts:
                return outcome
            await self._pause(outcome, tries, rule)
            tries += 1

    async def _pause(self, fault: Fault, tries: int, rule: RetryRule) -> None:
        seconds = max(rule.delay_seconds(tries, self._clock.random()), fault.retry_after_seconds or 0.0)
        seconds = min(seconds, 10 * rule.cap_seconds)
        logger.info("LLM: %s: %s; trying again in %.1f s", fault.kind, fault.message, seconds)
        await self._clock.sleep(seconds)
