"""Asks an OpenAI-compatible server, with limits, retries and fallbacks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from llmcrawler.core.llm import faults
from llmcrawler.core.llm.answers import read_answer
from llmcrawler.core.llm.budget import Budget, BudgetLimits, Call
from llmcrawler.core.llm.call_limits import CallBreaker, CallLimits, CallRate, Clock, RateLimiter
from llmcrawler.core.llm.dialect import Dialect, ModelRequest, answer_bound, messages_estimate, prompt_estimate
from llmcrawler.core.llm.faults import Fault, Redactor, cure_of, for_fallback, rules_with
from llmcrawler.core.llm.openai_transport import Completion, OpenAITransport
from llmcrawler.core.llm.usage import FLEX, CallReport, Price, Tokens, Usage, counted_tokens
from llmcrawler.errors import BadAnswer, LLMError, LLMFailed, LLMUnavailable

logger = logging.getLogger(__name__)

# A model may fail once by chance.
_CHECK_TRIES = 3
# Faults where no model has answered: the address may be wrong, or the server down.
_NO_WAY = frozenset({faults.UNREACHED, faults.LOST, faults.AWAY, faults.SERVER_ERROR, faults.TIMEOUT})

T = TypeVar("T")

AskLLM = Callable[[ModelRequest], Awaitable[Any]]
"""Asks a model as LLMClient.ask does, and raises as it does."""


class LLMClient:
    """Asks one server. It retries itself (the openai package does not), by a rule for each kind of failure (faults.py).

    An empty `model` stands for the first that the server lists; `price` is needed where it is another than that of
    `usage` and `budget`.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        base_url: str,
        model: str,
        api_key: str,
        *,
        limits: CallLimits | None = None,
        usage: Usage | None = None,
        temperature: float | None = None,
        reasoning_effort: str | None = None,
        service_tier: str | None = None,
        budget: Budget | None = None,
        price: Price | None = None,
        clock: Clock | None = None,
        rate: CallRate | None = None,
        is_optional: bool = False,
        is_fallback: bool = False,
    ) -> None:
        self.usage = usage or Usage()
        self._budget = budget or Budget(BudgetLimits())
        self.host = urlsplit(base_url).netloc.rpartition("@")[2]
        self._model = model
        self._price = price
        self._limits = limits or CallLimits()
        self._clock = clock or Clock()
        self._rules = rules_with(self._limits.max_attempts)
        redact = Redactor(api_key)
        self._transport = OpenAITransport(
            base_url, api_key, self._limits.timeout_seconds, redact, wall_clock=self._clock.wall
        )
        self._slots = asyncio.Semaphore(self._limits.concurrency)
        self._rate: CallRate = rate or RateLimiter(self._limits, self._clock)
        self._circuit = CallBreaker(self._clock.monotonic)
        self._dialect = Dialect(
            {"temperature": temperature, "reasoning_effort": reasoning_effort, "service_tier": service_tier},
            bounded=bool(self._budget.limits),
        )
        self._loss_level = logging.WARNING if is_optional else logging.ERROR
        self._naming = asyncio.Lock()
        self._is_fallback = is_fallback
        self._unavailable = ""

    def __repr__(self) -> str:
        return f"<LLMClient {self.label}>"

    @property
    def label(self) -> str:
        return f"{self._model or 'a model'} at {self.host}"

    async def ask(self, ask: ModelRequest) -> Any:
        """Return the model's answer, which fits the schema that was asked for.

        Raises LLMUnavailable (never ask again; BudgetSpent is one), LLMFailed (this call is lost) or BadAnswer (ask
        again, with fewer questions).
        """
        await self.model_name()
        completion = await self._persist(lambda: self._attempt(ask))
        try:
            return self._read(completion, ask)
        except BadAnswer:
            self.usage.bad_answers += 1
            raise

    async def check(self, ask: ModelRequest) -> None:
        """Ask a first small question, to know whether the model can be used. Raises as `ask` does, and says what to do
        about it. A server that cannot be reached is not waited for as long as later in the crawl.
        """
        rules, self._rules = self._rules, {**self._rules, faults.UNREACHED: faults.FIRST_CONTACT}
        try:
            for tries_left in reversed(range(_CHECK_TRIES)):
                try:
                    await self.ask(ask)
                    return
                except BadAnswer as error:
                    if not tries_left:
                        what = f"LLM_MODEL {self._model!r} at {self.host} gives no answer that could be used ({error})"
                        raise BadAnswer(f"{what}; set another one") from error
        finally:
            self._rules = rules

    async def model_name(self) -> str:
        """Return the model that answers: LLM_MODEL, else the first that the server lists. Raises as `ask` does."""
        async with self._naming:
            if not self._model:
                models = await self._persist(self._list_models)
                if not models:
                    raise self._give_up(f"{self.host} lists no model; set LLM_MODEL")
                self._model = models[0]
                logger.info("LLM_MODEL is not set: using %s, the first that %s lists", self._model, self.host)
        return self._model

    async def close(self) -> None:
        await self._transport.close()

    def _read(self, completion: Completion, ask: ModelRequest) -> Any:
        if completion.finish_reason == "length" and not ask.salvage:
            raise BadAnswer(f"the answer was cut after {completion.completion_tokens} tokens")
        if completion.finish_reason in {"content_filter", "refusal"}:
            raise BadAnswer(f"the model refused to answer ({completion.finish_reason})")
        return read_answer(completion.text, ask.schema, salvage=ask.salvage)

    async def _persist(self, attempt: Callable[[], Awaitable[T | Fault]]) -> T:
        """Attempt until it works or the rule of its fault is used up; raises what `ask` raises."""
        failures: Counter[str] = Counter()
        waited_seconds = 0.0
        if self._unavailable:
            raise LLMUnavailable(self._unavailable)
        self._circuit.admit()
        try:
            while True:
                outcome = await attempt()
                if not isinstance(outcome, Fault):
                    self._circuit.succeed()
                    return outcome
                failures[outcome.kind] += 1
                self.usage.faults[outcome.kind] += 1
                delay_seconds = self._delay_seconds(outcome, failures[outcome.kind])
                if delay_seconds is None or waited_seconds + delay_seconds > self._limits.max_retry_seconds:
                    raise self._final_error(outcome, failures.total())
                self.usage.retries += 1
                logger.info("%s; trying again in %.1f s", self._describe(outcome), delay_seconds)
                waited_seconds += delay_seconds
                await self._clock.sleep(delay_seconds)
        finally:
            self._circuit.release_probe()

    async def _list_models(self) -> list[str] | Fault:
        outcome = await self._transport.models()
        return [] if isinstance(outcome, Fault) and outcome.status == 404 else outcome

    async def _attempt(self, ask: ModelRequest) -> Completion | Fault:
        """Send a request, and again in a simpler form where the server does not understand it, or in the usual tier
        where flex has no room for it or takes too long.
        """
        while True:
            body = self._dialect.body(self._model, ask)
            outcome = await self._send(ask, body)
            if not isinstance(outcome, Fault):
                return outcome
            change = self._dialect.adapt(outcome, body)
            if change:
                change += " from now on"
            elif body.get("service_tier") == FLEX and outcome.kind in {faults.NO_CAPACITY, faults.TIMEOUT}:
                ask, change = replace(ask, is_urgent=True), "asking this once in the usual service tier"
            else:
                return outcome
            logger.info("%s; %s", self._describe(outcome), change)
            self.usage.faults[outcome.kind] += 1
            self.usage.retries += 1

    async def _send(self, ask: ModelRequest, body: dict[str, Any]) -> Completion | Fault:
        prompt_tokens = messages_estimate(body)
        async with self._slots:
            entry = await self._rate.admit(prompt_tokens)
            async with self._budget.call(prompt_estimate(body), answer_bound(body), self._price) as call:
                started = self._clock.monotonic()
                outcome = await self._transport.complete(body)
                if not isinstance(outcome, Fault) or outcome.kind not in {faults.UNREACHED, faults.LOST}:
                    self.usage.count_call(ask.task)
                seconds = self._clock.monotonic() - started
                self.usage.seconds += seconds
                if isinstance(outcome, Completion):
                    tier = body.get("service_tier")
                    # At the lower price only where it was asked for and the server says that it was given.
                    price = self._price_in(tier if outcome.service_tier == tier else None)
                    tokens = self._settle(ask.task, outcome, prompt_tokens, call, price)
                    self._rate.settle(entry, tokens.prompt + tokens.completion)
                    report = CallReport(ask.task, self._model, self.host, seconds, tokens.prompt, tokens.completion)
                    self.usage.tell(report)
                else:
                    self.usage.tell(CallReport(ask.task, self._model, self.host, seconds, fault=outcome.kind))
                    if not outcome.may_be_billed:
                        call.release()
        return outcome

    def _price_in(self, tier: str | None) -> Price | None:
        price = self._price or self.usage.price
        return price and price.of_tier(tier)

    def _settle(self, task: str, answer: Completion, prompt_tokens: int, call: Call, price: Price | None) -> Tokens:
        """Count what the call took."""
        tokens = counted_tokens(answer, prompt_tokens)
        self.usage.answers += 1
        self.usage.count_tokens(task, tokens, price)
        call.settle(tokens, price)
        return tokens

    def _delay_seconds(self, fault: Fault, failures: int) -> float | None:
        rule = self._rules.get(fault.kind)
        if rule is None or failures >= rule.attempts:
            return None
        jitter = self._clock.random()
        delay_seconds = rule.delay_seconds(failures, jitter)
        if fault.retry_after_seconds is not None:
            # Never earlier than the server asks for, and not all at the same moment.
            delay_seconds = max(delay_seconds, fault.retry_after_seconds * (1 + jitter / 10))
        if fault.kind == faults.RATE_LIMIT and delay_seconds <= self._limits.max_retry_seconds:
            self._rate.hold(delay_seconds)
        return delay_seconds

    def _final_error(self, fault: Fault, attempts: int) -> LLMError:
        what = f"{self._describe(fault)}, {attempts} attempts"
        if fault.kind == faults.REFUSED:
            return self._give_up(cure_of(fault, self.host, self._model, is_fallback=self._is_fallback))
        if fault.kind in {faults.BAD_REQUEST, faults.UNKNOWN_FORMAT, faults.UNKNOWN_PARAMETER}:
            return BadAnswer(what)
        if fault.kind in _NO_WAY:
            proxy = " HTTPS_PROXY or HTTP_PROXY of the environment," if self._transport.is_proxied else ""
            address = for_fallback("LLM_BASE_URL", self._is_fallback)
            what += f"; see whether {address} is right,{proxy} and whether the server runs"
        if self._note_failure(fault):
            logger.warning("%s; the LLM is left alone for a while and then tried again", what)
        # A server that has just answered others may fail on this very request: then fewer questions help.
        if fault.kind in {faults.SERVER_ERROR, faults.TIMEOUT} and not self._circuit.is_open:
            return BadAnswer(what)
        return LLMFailed(what)

    def _note_failure(self, fault: Fault) -> bool:
        if fault.kind in {faults.UNREACHED, faults.LOST, faults.AWAY}:
            return self._circuit.fail(cooldown_seconds=0.0)  # its retries have waited long enough to be sure
        if fault.kind == faults.RATE_LIMIT:
            return self._circuit.fail(cooldown_seconds=fault.retry_after_seconds)
        return self._circuit.fail()

    def _give_up(self, reason: str) -> LLMUnavailable:
        if not self._unavailable:
            self._unavailable = reason
            logger.log(self._loss_level, "The LLM is out for this crawl: %s", reason)
        return LLMUnavailable(reason)

    def _describe(self, fault: Fault) -> str:
        status = f" {fault.status}" if fault.status else ""
        return f"LLM at {self.host}: {fault.kind}{status}: {fault.message}"
