"""Sends one request to an OpenAI-compatible server through the openai package; returns the answer or the fault."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from llmcrawler.llm.faults import LOST, SERVER_ERROR, TIMEOUT, UNREACHED, Fault, Redactor, fault_of_status
from llmcrawler.llm.replies import Completion, completion_of, error_of, models_of

if TYPE_CHECKING:
    import openai

_CONNECT_SECONDS = 10.0
# The longest thoughts and answer that a model is asked for come to some 400 kB.
_MAX_BYTES = 2 * 2**20


class OpenAITransport:
    """Imports openai at the first request and in a thread: it takes 0.5 s and 37 MB, which a crawl that never asks the
    model should not pay, and which the event loop should not wait for.
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
        answer = await self._guarded(client.chat.completions.with_raw_response.create(**body))
        return answer if isinstance(answer, Fault) else completion_of(answer, self._redact)

    async def models(self) -> list[str] | Fault:
        """Return the ids of the server's models, in its order."""
        client = await self._open()
        answer = await self._guarded(client.models.with_raw_response.list())
        return answer if isinstance(answer, Fault) else models_of(answer, self._redact)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> openai.AsyncOpenAI:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._build)
            return self._client

    def _build(self) -> openai.AsyncOpenAI:
        # The last of them checks the answers.
        package, http, _ = map(
            importlib.import_module, ("openai", "llmcrawler.content.bounds.api_client", "jsonschema_rs")
        )
        for name in ("openai", "httpx2", "httpcore2"):
            logger = logging.getLogger(name)
            # At DEBUG, Scrapy's default level, each of these writes whole prompts or dozens of lines a request.
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        host = urlsplit(self._base_url).hostname or ""
        at_home = host in {"localhost", "::1"} or host.startswith("127.")
        timeout = package.Timeout(self._timeout_seconds, connect=min(_CONNECT_SECONDS, self._timeout_seconds))
        # The proxy of the environment can't reach a server on this machine.
        http_client = http.APIClient(max_bytes=_MAX_BYTES, timeout=timeout, trust_env=not at_home)
        client: openai.AsyncOpenAI = package.AsyncOpenAI(
            base_url=self._base_url, api_key=self._api_key, max_retries=0, timeout=timeout, http_client=http_client
        )
        # Their modules are imported here too, and not at the first request.
        _ = client.chat.completions, client.models
        return client

    async def _guarded(self, request: Awaitable[Any]) -> bytes | Fault:
        """Return the body of an answer with status 2xx, or what went wrong."""
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
            message, code = error_of(error.response.content)
            headers = error.response.headers
            return fault_of_status(error.status_code, self._redact(message), code, headers, self._wall_clock())
        except openai.APIConnectionError as error:
            # A connection that breaks was one: the server has only gone away, perhaps with the answer on its way.
            broke = "connect" not in type(error.__cause__).__name__.lower()
            self._was_reached |= broke
            return self._no_connection(self._redact(error.__cause__ or error), may_be_billed=broke)
        except Exception as error:  # noqa: BLE001 - whatever the packages make of what a server sends, it is its fault
            return Fault(SERVER_ERROR, self._redact(f"{type(error).__name__}: {error}"), may_be_billed=True)
        self._was_reached = True
        return bytes(answer.content)

    def _no_connection(self, message: str, *, may_be_billed: bool = False) -> Fault:
        return Fault(LOST if self._was_reached else UNREACHED, message, may_be_billed=may_be_billed)
