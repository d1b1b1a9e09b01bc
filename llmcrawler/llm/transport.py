"""One request to an OpenAI-compatible server through the openai package: an answer, or the fault, never a raise."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from llmcrawler.llm.faults import LOST, SERVER_ERROR, TIMEOUT, UNREACHED, Fault, Redactor, fault_of_status

if TYPE_CHECKING:
    import openai

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model said. Token counts are None where the server gives none."""

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    provider_cached_tokens: int = 0


class OpenAITransport:
    """Imports openai at the first request and in a thread: the import takes 0.5 s and 37 MB, which a crawl that never
    asks the model should not pay, and the event loop should not wait for.
    """

    def __init__(
        self, base_url: str, api_key: str, timeout_seconds: float, redact: Redactor, *, wall_clock: Callable[[], float]
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._redact = redact
        self._wall_clock = wall_clock
        self._opening = asyncio.Lock()
        self._client: openai.AsyncOpenAI | None = None
        self._was_reached = False

    async def complete(self, body: dict[str, Any]) -> Completion | Fault:
        """Send the body of a chat completion; `timeout_seconds` bounds the whole exchange."""
        client = await self._open()
        outcome = await self._guarded(client.chat.completions.create(**body))
        return outcome if isinstance(outcome, Fault) else self._completion(outcome)

    async def models(self) -> list[str] | Fault:
        """The ids of the server's models, in its order."""
        client = await self._open()
        outcome = await self._guarded(client.get("/models", cast_to=object))
        if isinstance(outcome, Fault):
            return outcome
        entries = outcome.get("data") if isinstance(outcome, dict) else None
        if not isinstance(entries, list):
            return Fault(SERVER_ERROR, f"no list of models: {self._redact(outcome)}")
        return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id")]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> openai.AsyncOpenAI:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._build)
            return self._client

    def _build(self) -> openai.AsyncOpenAI:
        package = importlib.import_module("openai")
        for name in ("openai", "httpx2", "httpcore2"):
            logger = logging.getLogger(name)
            # At DEBUG, Scrapy's default level, each of these writes whole prompts or dozens of lines a request.
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        host = urlsplit(self._base_url).hostname or ""
        at_home = host in {"localhost", "::1"} or host.startswith("127.")
        client: openai.AsyncOpenAI = package.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            timeout=package.Timeout(self._timeout_seconds, connect=min(_CONNECT_SECONDS, self._timeout_seconds)),
            # The proxy of the environment can't reach a server on this machine.
            http_client=package.DefaultAsyncHttpxClient(trust_env=False) if at_home else None,
        )
        _ = client.chat.completions  # its modules are imported here too, and not at the first request
        return client

    async def _guarded(self, request: Coroutine[Any, Any, Any]) -> Any:
        import openai  # noqa: PLC0415 - imported in a thread by now, so this is only a name

        try:
            # The package's timeout is for each read: a server that trickles would never reach it.
            async with asyncio.timeout(self._timeout_seconds):
                answer = await request
        except (TimeoutError, openai.APITimeoutError) as error:
            if "connect" in type(error.__cause__).__name__.lower():
                return self._no_connection("the connection timed out")
            return Fault(TIMEOUT, f"no answer within {self._timeout_seconds:g} s", may_be_billed=True)
        except openai.APIStatusError as error:
            self._was_reached = True
            message = self._redact(_server_message(error))
            return fault_of_status(error.status_code, message, error.code, error.response.headers, self._wall_clock())
        except openai.APIConnectionError as error:
            # A connection that breaks was one: the server has only gone away, perhaps with the answer on its way.
            broke = "connect" not in type(error.__cause__).__name__.lower()
            self._was_reached |= broke
            return self._no_connection(self._redact(error.__cause__ or error), may_be_billed=broke)
        except (openai.OpenAIError, ValueError) as error:
            return Fault(SERVER_ERROR, self._redact(f"{type(error).__name__}: {error}"), may_be_billed=True)
        self._was_reached = True
        return answer

    def _no_connection(self, message: str, *, may_be_billed: bool = False) -> Fault:
        return Fault(LOST if self._was_reached else UNREACHED, message, may_be_billed=may_be_billed)

    def _completion(self, answer: Any) -> Completion | Fault:
        """`answer` is a ChatCompletion in name only: the package checks nothing, and servers leave things out."""
        choices = getattr(answer, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            what = f"no chat completion: {self._redact(getattr(answer, 'error', None) or answer)}"
            return Fault(SERVER_ERROR, what, may_be_billed=True)
        message, usage = choices[0].message, getattr(answer, "usage", None)
        details = getattr(usage, "prompt_tokens_details", None)
        refusal = getattr(message, "refusal", None)
        return Completion(
            text=message.content or "",
            finish_reason="refusal" if refusal else choices[0].finish_reason or "stop",
            prompt_tokens=getattr(usage, "prompt_tokens", None),
            completion_tokens=getattr(usage, "completion_tokens", None),
            provider_cached_tokens=getattr(details, "cached_tokens", None) or 0,
        )


def _server_message(error: openai.APIStatusError) -> str:
    """The sentence in an error body, of OpenAI's form or of the others that are about."""
    body = error.body
    if isinstance(body, dict):
        for key in ("message", "detail", "error"):
            if isinstance(body.get(key), str):
                return str(body[key])
    return str(body or error.message)
