"""Asks OpenAI-compatible servers, with limits, a budget, retries and fallbacks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from llmcrawler.core.llm import faults
from llmcrawler.core.llm.answers import read_answer
from llmcrawler.core.llm.budget import Budget, BudgetLimits, CommonBudget
from llmcrawler.core.llm.call_limits import REAL_CLOCK, CallBreaker, CallRate, Clock, RateLimiter
from llmcrawler.core.llm.dialect import Dialect, ModelRequest, answer_bound, messages_estimate, prompt_estimate
from llmcrawler.core.llm.faults import Fault, cure_of, rules_with
from llmcrawler.core.llm.openai_transport import Completion, OpenAITransport
from llmcrawler.core.llm.providers import OPENAI_BASE_URL, Endpoint
from llmcrawler.core.llm.usage import FLEX, CallReport, Usage, counted_tokens
from llmcrawler.errors import BadAnswer, BudgetSpent, LLMError, LLMFailed, LLMStopped, LLMUnavailable

logger = logging.getLogger(__name__)

_CHECK_TRIES: Final = 3  # a model may fail once by chance
# Faults where no model has answered: the address may be wrong, or the server down.
_NO_CONNECTION: Final = frozenset({faults.UNREACHED, faults.LOST, faults.AWAY})
_FALLBACK_SECONDS: Final = 10.0  # a server that is out is waited for no longer where there is another one
_FLEX_TIMEOUT_SECONDS: Final = 900.0  # what OpenAI's guide to flex processing recommends

_OF_FALLBACKS: Final = "; in LLM_FALLBACKS these are api_key_env, base_url and model"

T = TypeVar("T")

AskLLM = Callable[[ModelRequest], Awaitable[Any]]
"""Asks a model as LLMClient.ask does, and raises as it does."""


class LLMClient:
    """Asks the server and model of an endpoint, by a retry rule for each kind of failure (faults.py). An endpoint
    without a model stands for the first that the server lists; its price is needed where it is not that of `usage` and
    `budget`.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        endpoint: Endpoint,
        *,
        usage: Usage | None = None,
        budget: Budget | None = None,
        rate: CallRate | None = None,
        clock: Clock = REAL_CLOCK,
        is_optional: bool = False,
    ) -> None:
        choice, self._limits, self._price = endpoint.choice, endpoint.limits, endpoint.price
        self.usage = usage or Usage()
        self._budget = budget or Budget(BudgetLimits())
        self.host = urlsplit(choice.base_url).netloc.rpartition("@")[2]
        self._model = choice.model
        self._clock = clock
        self._rules = rules_with(self._limits.max_attempts)
        self._transport = OpenAITransport(choice.base_url, choice.api_key, self._limits.timeout_seconds, clock.wall)
        self._slots = asyncio.Semaphore(self._limits.concurrency)
        self._rate = rate or RateLimiter(self._limits, clock)
        self._circuit = CallBreaker(clock.monotonic)
        options = {
            "reasoning_effort": choice.reasoning_effort,
            "service_tier": choice.service_tier,
        }
        self._dialect = Dialect(options, bounded=bool(self._budget.limits))
        self._loss_level = logging.WARNING if is_optional else logging.ERROR
        self._naming = asyncio.Lock()
        self._names = _OF_FALLBACKS if choice.is_fallback else ""
        self._unavailable = ""

    @property
    def label(self) -> str:
        return f"{self._model or 'a model'} at {self.host}"

    async def ask(self, ask: ModelRequest) -> Any:
        """Return the model's answer, which fits the schema that was asked for. Raises LLMUnavailable (never ask again;
        BudgetSpent is one), LLMFailed (this call is lost) or BadAnswer (ask again, with fewer questions).
        """
        await self.model_name()
        completion = await self._persist(lambda: self._attempt(ask))
        try:
            if completion.finish_reason == "length" and not ask.salvage:
                raise BadAnswer(f"the answer was cut after {completion.completion_tokens} tokens")
            if completion.finish_reason in {"content_filter", "refusal"}:
                raise BadAnswer(f"the model refused to answer ({completion.finish_reason})")
            return read_answer(completion.text, ask.schema, salvage=ask.salvage)
        except BadAnswer:
            self.usage.bad_answers += 1
            raise

    async def check(self, ask: ModelRequest) -> None:
        """Ask a first small question, and raise as `ask` does, with what to do about it. A server that cannot be
        reached is not waited for as long as later in the crawl.
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
                models = await self._persist(self._transport.models)
                if not models:
                    raise self._give_up(f"{self.host} lists no model; set LLM_MODEL")
                self._model = models[0]
                logger.info("LLM_MODEL is not set: using %s, the first that %s lists", self._model, self.host)
        return self._model

    async def close(self) -> None:
        await self._transport.close()

    async def _persist(self, attempt: Callable[[], Awaitable[T | Fault]]) -> T:
        """Attempt until it works or the rule of its fault is used up; raises what `ask` raises."""
        failures: Counter[str] = Counter()
        waited_seconds = 0.0
        if self._unavailable:
            raise LLMUnavailable(self._unavailable)
        self._circuit.admit()
        try:
            while isinstance(outcome := await attempt(), Fault):
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
        self._circuit.succeed()
        return outcome

    async def _attempt(self, ask: ModelRequest) -> Completion | Fault:
        """Send a request, again in a simpler form where the server does not understand it, or not in flex where that
        has no room.
        """
        while True:
            body = self._dialect.body(self._model, ask)
            outcome = await self._send(ask.task, body)
            if not isinstance(outcome, Fault):
                return outcome
            if change := self._dialect.adapt(outcome, body):
                change += " from now on"
            elif body.get("service_tier") == FLEX and outcome.kind in {faults.NO_CAPACITY, faults.TIMEOUT}:
                ask, change = replace(ask, is_urgent=True), "asking this once in the usual service tier"
            else:
                return outcome
            logger.info("%s; %s", self._describe(outcome), change)
            self.usage.faults[outcome.kind] += 1
            self.usage.retries += 1

    async def _send(self, task: str, body: dict[str, Any]) -> Completion | Fault:
        estimated_tokens, tier = messages_estimate(body), body.get("service_tier")
        async with self._slots:
            entry = await self._rate.admit(estimated_tokens)
            async with self._budget.call(prompt_estimate(body), answer_bound(body), self._price) as call:
                started = self._clock.monotonic()
                outcome = await self._transport.complete(body)
                seconds = self._clock.monotonic() - started
                self.usage.seconds += seconds
                if isinstance(outcome, Fault):
                    if outcome.kind not in {faults.UNREACHED, faults.LOST}:
                        self.usage.tasks[task].calls += 1
                    if not outcome.may_be_billed:
                        call.release()
                    self.usage.on_call(CallReport(task, self._model, self.host, seconds, fault=outcome.kind))
                    return outcome
                tokens = counted_tokens(outcome, estimated_tokens)
                price = self._price or self.usage.price
                if price is not None and tier == outcome.service_tier:
                    # At the lower price only where it was asked for and the server says that it was given.
                    price = price.of_tier(tier)
                self.usage.count_answer(task, tokens, price)
                call.settle(tokens, price)
                self._rate.settle(entry, tokens.prompt + tokens.completion)
                self.usage.on_call(CallReport(task, self._model, self.host, seconds, tokens.prompt, tokens.completion))
        return outcome

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
            return self._give_up(cure_of(fault, self.host, self._model) + self._names)
        if fault.kind in {faults.BAD_REQUEST, faults.UNKNOWN_FORMAT, faults.UNKNOWN_PARAMETER}:
            return BadAnswer(what)
        cooldown_seconds = fault.retry_after_seconds if fault.kind == faults.RATE_LIMIT else None
        if fault.kind in _NO_CONNECTION:
            cooldown_seconds = 0.0  # its retries have waited long enough to be sure
        has_answered = fault.kind in {faults.SERVER_ERROR, faults.TIMEOUT}
        if has_answered or fault.kind in _NO_CONNECTION:
            proxy = " HTTPS_PROXY or HTTP_PROXY of the environment," if self._transport.is_proxied else ""
            if self.host == urlsplit(OPENAI_BASE_URL).netloc:
                what += f"; see whether this machine reaches the internet{proxy and f' and{proxy[:-1]} is right'}"
            else:
                what += f"; see whether LLM_BASE_URL is right,{proxy} and whether the server runs{self._names}"
        if self._circuit.fail(cooldown_seconds):
            logger.warning("%s; the LLM is skipped for a while and then tried again", what)
        # A server that has just answered others may fail on this very request: then fewer questions help.
        return BadAnswer(what) if has_answered and not self._circuit.is_open else LLMFailed(what)

    def _give_up(self, reason: str) -> LLMUnavailable:
        if not self._unavailable:
            self._unavailable = reason
            logger.log(self._loss_level, "The LLM is unavailable for this crawl: %s", reason)
        return LLMUnavailable(reason)

    def _describe(self, fault: Fault) -> str:
        status = f" {fault.status}" if fault.status else ""
        return f"LLM at {self.host}: {fault.kind}{status}: {fault.message}"


class LanguageModel:
    """Asks the first of `endpoints` that is not known to be out, and the next where it fails there for good. Used as
    LLMClient is; nothing is imported before it is asked.

    What a client knows of its own server makes that sticky: one that was refused (key, credit, model) is never asked
    again, one that was down is left alone, and tried again by a single call after 10 s, 20 s and so on up to 2 min.
    An answer that is no good is no reason to go on: the same question is asked again, in smaller parts.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        usage: Usage | None = None,
        budget: Budget | None = None,
        is_optional: bool = False,
    ) -> None:
        self._endpoints = endpoints
        self.provider = endpoints[0].choice.kind
        self.usage = usage or Usage(endpoints[0].price)
        self.budget = budget or Budget(BudgetLimits(price=endpoints[0].price))
        self._rate: CallRate | None = None
        self._close_shared: Callable[[], Awaitable[object]] | None = None
        self.is_optional = is_optional
        self._clients: list[LLMClient] = []  # in the order of the endpoints
        self._current = 0  # the client that answered last
        self._failure: LLMUnavailable | None = None
        self._answers = 0
        self._last_error: LLMError | None = None
        self._waiting: set[asyncio.Timeout] = set()  # one for each answer that somebody waits for

    @property
    def failure(self) -> str:
        """The last error, where each question of the crawl has failed; "" where one was answered, or none was asked."""
        return "" if self._answers or self._last_error is None else str(self._last_error)

    @property
    def has_answered(self) -> bool:
        """Tell whether a question of the crawl was answered; the check of the model is none."""
        return self._answers > 0

    def figures(self) -> dict[str, int | float]:
        return self.usage.as_dict() | self.budget.as_dict()

    def share(self, budget: CommonBudget, rate: CallRate, close: Callable[[], Awaitable[object]] | None = None) -> None:
        """Keep to a budget and a rate together with other processes, from the first question on."""
        self.budget.share(budget)
        self._rate, self._close_shared = rate, close

    async def ask(self, ask: ModelRequest) -> Any:
        """Return the answer of the first server that has one. Raises as LLMClient.ask does, and LLMStopped after
        `give_up`.
        """
        answered = await self._answer(lambda client: client.ask(ask))
        self._answers += 1
        return answered

    async def check(self, ask: ModelRequest) -> None:
        """Do what LLMClient.check does, until one server can be used. Raises LLMStopped after `give_up`."""
        await self._answer(lambda client: client.check(ask))

    async def name(self) -> str:
        """Return the name that keeps this model's answers apart from another's. Raises as `ask` does."""
        return await self._unless_given_up(self._first(lambda client: client.model_name()))

    def give_up(self) -> int:
        """Wait for no answer any more. Return how many were waited for."""
        self._failure = LLMStopped("the crawl was stopped before the model had answered")
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting:
            waiting.reschedule(now)
        count = len(self._waiting)
        self._waiting.clear()
        return count

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        if self._close_shared is not None:
            await self._close_shared()

    async def _answer(self, attempt: Callable[[LLMClient], Awaitable[T]]) -> T:
        try:
            return await self._unless_given_up(self._first(attempt))
        except (BudgetSpent, LLMStopped):
            raise  # nothing was asked, or nobody waited for the answer
        except LLMError as error:
            self._last_error = error
            raise

    async def _unless_given_up(self, answer: Awaitable[T]) -> T:
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

    async def _first(self, attempt: Callable[[LLMClient], Awaitable[T]]) -> T:
        if self._failure is not None:
            raise self._failure
        if not self._clients:
            self._clients = self._connect()
        clients, errors = self._clients, list[LLMError]()
        for place, client in enumerate(clients):
            try:
                result = await attempt(client)
            except BudgetSpent:
                raise
            except (LLMUnavailable, LLMFailed) as error:
                if len(clients) == 1:
                    raise
                errors.append(error)
                continue
            self._note_server(place, errors)
            return result
        what = "; ".join(f"{client.label}: {error}" for client, error in zip(clients, errors, strict=True))
        raise (LLMUnavailable if all(isinstance(one, LLMUnavailable) for one in errors) else LLMFailed)(what)

    def _note_server(self, place: int, errors: Sequence[LLMError]) -> None:
        """Count answers of others than the first server, and say once where they come from now."""
        self.usage.fallback_answers += place > 0
        label = self._clients[place].label
        if place > self._current:
            logger.warning("The LLM is now %s (LLM_FALLBACKS), as before it: %s", label, "; ".join(map(str, errors)))
        elif place < self._current:
            logger.warning("The LLM is %s again", label)
        self._current = place

    def _connect(self) -> list[LLMClient]:
        """Make a client for each server. One with others behind it is not waited for long; the shared rate is that of
        the first.
        """
        clients = []
        for place, endpoint in enumerate(self._endpoints, 1):
            limits, is_last = endpoint.limits, place == len(self._endpoints)
            if not is_last:
                limits = replace(limits, max_retry_seconds=_FALLBACK_SECONDS)
            if endpoint.choice.service_tier == FLEX:
                limits = replace(limits, timeout_seconds=max(limits.timeout_seconds, _FLEX_TIMEOUT_SECONDS))
            clients.append(
                LLMClient(
                    replace(endpoint, limits=limits),
                    usage=self.usage,
                    budget=self.budget,
                    rate=self._rate if place == 1 else None,
                    is_optional=self.is_optional or not is_last,
                )
            )
        return clients
