"""Holds the model of one crawl: nothing is started or imported for it before it is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from llmcrawler.core.llm import embedded
from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits, CallRate
from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.embedded.download import QWEN_CODER_1_5B, Progress
from llmcrawler.core.llm.endpoints import Endpoint
from llmcrawler.core.llm.model_chain import ModelChain
from llmcrawler.core.llm.providers import ProviderChoice
from llmcrawler.core.llm.usage import FLEX, CallReport, Price, Usage
from llmcrawler.errors import BudgetSpent, ConfigError, LLMError, LLMStopped, LLMUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A server that is out is asked no longer than this where there is another one.
_FALLBACK_SECONDS = 10.0
_FLEX_TIMEOUT_SECONDS = 900.0  # what OpenAI's guide to flex processing recommends
# A call of the embedded model takes seconds on a CPU, and two at a time would take turns with its one context.
_EMBEDDED_LIMITS = CallLimits(concurrency=1, timeout_seconds=300.0, max_attempts=2)


class LanguageModel:
    """Asks the server that was chosen, or starts the embedded one first. Used as LLMClient is."""

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        choice: ProviderChoice,
        limits: CallLimits,
        price: Price | None,
        *,
        embedded_file: str = "",
        on_progress: Progress = lambda _done, _total: None,
        budget: Budget | None = None,
        rate: CallRate | None = None,
        on_call: Callable[[CallReport], object] = lambda _call: None,
        is_optional: bool = False,
        fallbacks: Sequence[Endpoint] = (),
    ) -> None:
        self.budget = budget or Budget(BudgetLimits(price=price))
        self.usage = Usage(price, on_call)
        self.close_shared: Callable[[], Awaitable[None]] | None = None  # what the budget is shared by
        self._rate = rate
        self._choice = choice
        self._limits = limits
        self._price = price
        self._fallbacks = fallbacks
        self.is_optional = is_optional or not choice.is_chosen
        self._embedded_file = embedded_file
        self._on_progress = on_progress
        self._server: embedded.EmbeddedServer | None = None
        self._client: LLMClient | ModelChain | None = None
        self._failure: LLMUnavailable | None = None
        self._warming: asyncio.Task[None] | None = None
        self.fetched_bytes: tuple[int, int] | None = None  # of the weights: done and in total, while they are fetched
        self._answers = 0
        self._last_error: LLMError | None = None
        self._starting = asyncio.Lock()
        self._waiting: set[asyncio.Timeout] = set()  # one for each answer that somebody waits for

    @property
    def provider(self) -> str:
        return self._choice.kind

    @property
    def is_embedded(self) -> bool:
        """Whether it is the small one, which learns records and is not asked for page types."""
        return self.provider == "embedded"

    async def ask(self, ask: ModelRequest) -> Any:
        """Do what LLMClient.ask does. Raises LLMStopped once nobody waits for the model any more."""

        async def answer() -> Any:
            return await (await self._ready_client()).ask(ask)

        try:
            answered = await self._unless_given_up(answer())
        except (BudgetSpent, LLMStopped):
            raise  # nothing was asked, or nobody waited for the answer
        except LLMError as error:
            self._last_error = error
            raise
        self._answers += 1
        return answered

    async def check(self, ask: ModelRequest) -> None:
        """Do what LLMClient.check does. The embedded model is not checked: it would be fetched first."""
        if not self.is_embedded:
            await (await self._ready_client()).check(ask)

    def figures(self) -> dict[str, int | float]:
        """Return flat figures for stats."""
        return self.usage.as_dict() | self.budget.as_dict()

    @property
    def is_cold(self) -> bool:
        """Whether `warm_up` would do anything."""
        return self.is_embedded and self._client is None and self._warming is None

    def warm_up(self) -> None:
        """Begin to fetch and start the embedded model, as it will be asked soon. Errors are told to who asks then."""
        if self.is_cold:
            self._warming = asyncio.ensure_future(self._warm_up())

    async def _warm_up(self) -> None:
        with suppress(LLMUnavailable, ConfigError):
            await self._ready_client()

    @property
    def is_starting(self) -> bool:
        return self.is_embedded and self._starting.locked()

    @property
    def failure(self) -> str:
        """What went wrong at last, where each question of the crawl has failed; "" where one was answered, or none was
        asked."""
        return "" if self._answers or self._last_error is None else str(self._last_error)

    async def name(self) -> str:
        """Return the name that keeps this model's answers apart from another's. Raises LLMUnavailable as `ask` does."""
        if self.is_embedded:
            return Path(self._embedded_file).name or QWEN_CODER_1_5B.name

        async def name() -> str:
            return await (await self._ready_client()).model_name()

        return await self._unless_given_up(name())

    def give_up(self) -> int:
        """Wait for no answer any more, now and later, and end the embedded model's server. Return how many answers were
        waited for.
        """
        self._failure = LLMStopped("the crawl was stopped before the model had answered")
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting:
            waiting.reschedule(now)
        if self._warming is not None:
            self._warming.cancel()
        if self._server is not None:
            self._server.abandon()
        count = len(self._waiting)
        self._waiting.clear()
        return count

    async def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self._server is not None:
            await self._server.stop()
        if self.close_shared is not None:
            await self.close_shared()

    async def _unless_given_up(self, answer: Awaitable[T]) -> T:
        """Wait for an answer. Raises LLMStopped as soon as it is given up."""
        waiting = asyncio.timeout(None)
        try:
            async with waiting:
                self._waiting.add(waiting)
                return await answer
        except TimeoutError:
            if waiting.expired() and self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self._waiting.discard(waiting)

    async def _ready_client(self) -> LLMClient | ModelChain:
        async with self._starting:
            if self._failure is not None:
                raise self._failure
            if self._client is None:
                self._client = await self._start_embedded() if self.is_embedded else self._connect()
        return self._client

    def _connect(self) -> LLMClient | ModelChain:
        """Make a client for each server. One that has others behind it does not wait long for a server that is out."""
        *earlier, last = [Endpoint(self._choice, self._limits, self._price), *self._fallbacks]
        if not earlier:
            return self._client_of(last, self._rate, is_optional=self.is_optional)
        patient = [replace(one, limits=replace(one.limits, max_retry_seconds=_FALLBACK_SECONDS)) for one in earlier]
        rates = [self._rate, *[None] * len(earlier)]
        clients = [
            self._client_of(one, rate, is_optional=self.is_optional or one is not last)
            for one, rate in zip([*patient, last], rates, strict=True)
        ]
        return ModelChain(clients, self.usage)

    def _client_of(self, at: Endpoint, rate: CallRate | None, *, is_optional: bool) -> LLMClient:
        to, limits = at.choice, at.limits
        if to.service_tier == FLEX:
            limits = replace(limits, timeout_seconds=max(limits.timeout_seconds, _FLEX_TIMEOUT_SECONDS))
        return LLMClient(
            to.base_url, to.model, to.api_key, limits=limits, usage=self.usage, budget=self.budget, price=at.price,
            reasoning_effort=to.reasoning_effort, service_tier=to.service_tier, rate=rate, is_optional=is_optional,
            is_fallback=to.is_fallback,
        )  # fmt: skip

    async def _start_embedded(self) -> LLMClient:
        why = "LLM_PROVIDER" if self._choice.is_chosen else "no key and no LLM_BASE_URL"
        logger.info("Starting the embedded model (%s) to learn records; the first time its weights are fetched", why)
        try:
            server = self._server = await embedded.launch(self._embedded_file, on_progress=self._note_progress)
        except LLMUnavailable as error:
            self._failure = error
            logger.warning("The crawl goes on without the embedded model: %s", error)
            raise
        finally:
            self.fetched_bytes = None
        seconds = max(_EMBEDDED_LIMITS.timeout_seconds, self._limits.timeout_seconds)
        return LLMClient(
            server.base_url, server.model, server.api_key, usage=self.usage, budget=self.budget, temperature=0.0,
            limits=replace(_EMBEDDED_LIMITS, timeout_seconds=seconds),
        )  # fmt: skip

    def _note_progress(self, bytes_done: int, bytes_total: int) -> None:
        """Take the progress of the download, in the thread that fetches."""
        self.fetched_bytes = bytes_done, bytes_total
        self._on_progress(bytes_done, bytes_total)
