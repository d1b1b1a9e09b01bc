"""Sends one request to an OpenAI-compatible server through the openai package; reads the answer, without trust in its
form, or tells the fault.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.llm.faults import LOST, SERVER_ERROR, TIMEOUT, UNREACHED, Fault, fault_of_status, redacted

if TYPE_CHECKING:
    import openai

# Where servers say how many tokens of the prompt they had in their cache, and how many they put there: OpenAI and
# OpenRouter; LiteLLM; Anthropic's names, which gateways pass on; DeepSeek.
_CACHE_READS: Final = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_CACHE_WRITES: Final = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
_MOST_TOKENS: Final = 100_000_000  # no model takes or gives so many in a call
_MAX_MODELS: Final = 1_000
_MAX_NAME_CHARS: Final = 200
_CONNECT_SECONDS: Final = 10.0
_MAX_BYTES: Final = 2 * 2**20  # the longest thoughts and answer that a model is asked for come to some 400 kB


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model. Token counts are None where the server gives none, or numbers that make no sense."""

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    provider_cached_tokens: int = 0
    provider_cache_write_tokens: int = 0
    service_tier: str | None = None  # the one that answered, where the server says so


def completion_of(body: bytes, redact: Callable[[Any], str]) -> Completion | Fault:
    reply = _object(body)
    choices = reply.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message, usage, tier = choice.get("message"), _dict(reply.get("usage")), reply.get("service_tier")
    text = message.get("content") if isinstance(message, dict) else 0
    if not isinstance(message, dict) or not isinstance(text, str | None):
        return Fault(SERVER_ERROR, f"no chat completion: {redact(_text(body))}", may_be_billed=True)
    reason, counts = choice.get("finish_reason"), usage | _dict(usage.get("prompt_tokens_details"))
    return Completion(
        text=text or "",
        finish_reason="refusal" if message.get("refusal") else reason if isinstance(reason, str) and reason else "stop",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        provider_cached_tokens=next(filter(None, (_count(counts.get(name)) for name in _CACHE_READS)), 0),
        provider_cache_write_tokens=next(filter(None, (_count(counts.get(name)) for name in _CACHE_WRITES)), 0),
        service_tier=tier if isinstance(tier, str) else None,
    )


def _error_in(body: bytes) -> tuple[str, str]:
    """Return the message and the code in an error body, of OpenAI's form or of another that servers use."""
    reply = _object(body)
    inner = reply.get("error")
    error = inner if isinstance(inner, dict) else reply
    candidates = [error.get("message"), error.get("detail"), inner, _text(body)]
    message, parameter, code = (
        next(one for one in candidates if isinstance(one, str)),
        error.get("param"),
        error.get("code"),
    )
    if isinstance(parameter, str) and parameter not in message:
        message = f"{message} ({parameter})"
    return message, code if isinstance(code, str) else ""


def _object(body: bytes) -> dict[str, Any]:
    try:
        return _dict(loads(body))
    except ValueError:
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace") or "an empty body"


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MOST_TOKENS else None


class OpenAITransport:
    """Imports openai at the first request and in a thread: it takes 0.3 s and 16 MB, which a crawl that never asks the
    model should not pay, and which the event loop should not wait for. `timeout_seconds` bounds a whole exchange.
    """

    def __init__(self, base_url: str, api_key: str, timeout_seconds: float, wall_clock: Callable[[], float]) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._wall_clock = wall_clock
        self._opening = asyncio.Lock()
        self._client: openai.AsyncOpenAI | None = None
        self._was_reached = False
        self.is_proxied = False  # known when it is opened: a proxy of the environment stands before the server

    async def complete(self, body: dict[str, Any]) -> Completion | Fault:
        client = await self._open()
        # As `extra_body`, as older versions of the package do not know all parameters.
        rest = {name: value for name, value in body.items() if name not in {"model", "messages"}}
        answer = await self._guarded(
            client.chat.completions.with_raw_response.create(
                model=body["model"], messages=body["messages"], extra_body=rest
            )
        )
        return answer if isinstance(answer, Fault) else completion_of(answer, self._redact)

    async def models(self) -> list[str] | Fault:
        """Return the ids of the server's models, in its order; none where it has no such list."""
        client = await self._open()
        answer = await self._guarded(client.models.with_raw_response.list())
        if isinstance(answer, Fault):
            return [] if answer.status == 404 else answer
        entries = _object(answer).get("data")
        if not isinstance(entries, list):
            return Fault(SERVER_ERROR, f"no list of models: {self._redact(_text(answer))}")
        names = [entry.get("id") for entry in entries[:_MAX_MODELS] if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS]

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
        http, _ = map(importlib.import_module, ("llmcrawler.core.content.api_client", "jsonschema_rs"))
        package = _import_openai()
        http.quieten("openai")
        timeout = package.Timeout(self._timeout_seconds, connect=min(_CONNECT_SECONDS, self._timeout_seconds))
        trusts_env = http.takes_proxy(self._base_url)
        self.is_proxied = trusts_env and not getproxies().keys().isdisjoint({urlsplit(self._base_url).scheme, "all"})
        http_client = http.APIClient(max_bytes=_MAX_BYTES, timeout=timeout, trust_env=trusts_env)
        client: openai.AsyncOpenAI = package.AsyncOpenAI(
            base_url=self._base_url, api_key=self._api_key, max_retries=0, timeout=timeout, http_client=http_client
        )
        # Their modules are imported here too, and not at the first request.
        _ = client.chat.completions, client.models
        return client

    async def _guarded(self, request: Awaitable[Any]) -> bytes | Fault:
        """Return the body of an answer with status 2xx, or what went wrong."""
        import openai  # imported in a thread by now, so this is only a name

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
            message, code = _error_in(error.response.content)
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

    def _redact(self, text: Any) -> str:
        return redacted(text, self._api_key)

    def _no_connection(self, message: str, *, may_be_billed: bool = False) -> Fault:
        return Fault(LOST if self._was_reached else UNREACHED, message, may_be_billed=may_be_billed)


def _import_openai() -> ModuleType:
    """Import the package without some hundred generated modules of types that a chat completion never looks at: they
    are half of its 0.6 s and a third of its 25 MB. They are loaded when one of their names is looked up (PEP 562);
    importlib.util.LazyLoader would load them as soon as a module below them is imported.
    """
    found = None if "openai" in sys.modules else find_spec("openai")
    parent, folders = None, None if found is None else found.submodule_search_locations
    for name in ("openai.types", "openai.types.responses") if folders else ():
        if (spec := PathFinder.find_spec(name, folders)) is None:
            break
        module = sys.modules[name] = module_from_spec(spec)
        module.__dict__["__getattr__"] = partial(_load_for, module)
        if parent is not None:
            setattr(parent, name.rpartition(".")[2], module)  # as its import would do, which will not take place
        parent, folders = module, list(module.__path__)
    return importlib.import_module("openai")


def _load_for(module: ModuleType, name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    del module.__dict__["__getattr__"]
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)
    return getattr(module, name)
