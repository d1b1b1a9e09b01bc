"""Sends one request to an OpenAI-compatible server through the openai package; reads the answer, without trust in its
form, or tells the fault.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.llm.faults import LOST, SERVER_ERROR, TIMEOUT, UNREACHED, Fault, Redactor, fault_of_status

if TYPE_CHECKING:
    import openai

_PUT_OFF: Final = ("openai.types", "openai.types.responses")


def _run_on_demand(module: ModuleType) -> None:
    """Let a package that was found be run when one of its names is looked up; its modules can be imported before."""

    def look_up(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        del module.__dict__["__getattr__"]
        assert module.__spec__ is not None
        assert module.__spec__.loader is not None
        module.__spec__.loader.exec_module(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = look_up  # PEP 562


def import_openai() -> ModuleType:
    """Return the package, without those of its type definitions that a chat completion never looks at: some hundred
    generated modules, more than half of the half second that the import takes. They are imported when one of their
    names is looked up, as importlib.util.LazyLoader would do, which runs a package when one of its modules is imported.
    """
    found = None if "openai" in sys.modules else find_spec("openai")
    put_off: dict[str, ModuleType] = {}
    for name in _PUT_OFF if found is not None else ():
        within, _, own = name.rpartition(".")
        parent = put_off.get(within)
        places = found.submodule_search_locations if parent is None else parent.__path__  # type: ignore[union-attr]
        spec = PathFinder.find_spec(name, places)
        if spec is not None:
            put_off[name] = sys.modules[name] = module_from_spec(spec)
            _run_on_demand(put_off[name])
            if parent is not None:
                setattr(parent, own, put_off[name])  # as the import of a module does, which there will be none of
    return importlib.import_module("openai")


# Where servers say how many tokens of the prompt they had in their cache, and how many they put there: OpenAI and
# OpenRouter; LiteLLM; Anthropic's names, which gateways pass on; DeepSeek.
_CACHE_READS = ("prompt_tokens_details.cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_CACHE_WRITES = (
    "prompt_tokens_details.cache_write_tokens",
    "prompt_tokens_details.cache_creation_tokens",
    "cache_creation_input_tokens",
)
# No model takes or gives so many in a call.
_MOST_TOKENS = 100_000_000
_MAX_MODELS = 1_000
_MAX_NAME_CHARS = 200

Redact = Callable[[Any], str]


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


def completion_of(body: bytes, redact: Redact) -> Completion | Fault:
    """Return the first choice of a chat completion."""
    return read_completion(_object(body)) or Fault(
        SERVER_ERROR, f"no chat completion: {redact(_said(body))}", may_be_billed=True
    )


def read_completion(reply: dict[str, Any]) -> Completion | None:
    """Return the first choice of a chat completion; None for an object that is none."""
    choices = reply.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message, usage, tier = choice.get("message"), _dict(reply.get("usage")), reply.get("service_tier")
    text = message.get("content") if isinstance(message, dict) else 0
    if not isinstance(message, dict) or not isinstance(text, str | None):
        return None
    reason = choice.get("finish_reason")
    return Completion(
        text=text or "",
        finish_reason="refusal" if message.get("refusal") else reason if isinstance(reason, str) and reason else "stop",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        provider_cached_tokens=_first_count(usage, _CACHE_READS),
        provider_cache_write_tokens=_first_count(usage, _CACHE_WRITES),
        service_tier=tier if isinstance(tier, str) else None,
    )


def models_of(body: bytes, redact: Redact) -> list[str] | Fault:
    """Return the ids in a list of models, in its order."""
    entries = _object(body).get("data")
    if not isinstance(entries, list):
        return Fault(SERVER_ERROR, f"no list of models: {redact(_said(body))}")
    names = [entry.get("id") for entry in entries[:_MAX_MODELS] if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS]


def error_of(body: bytes) -> tuple[str, str]:
    """Return the message and the code in an error body, of OpenAI's form or of another that servers use."""
    return error_in(_object(body), _said(body))


def error_in(reply: dict[str, Any], otherwise: str = "") -> tuple[str, str]:
    """Return the same of a body that was read; `otherwise` is the message where it has none."""
    inner = reply.get("error")
    error = inner if isinstance(inner, dict) else reply
    code = error.get("code")
    said = [error.get("message"), error.get("detail"), inner, otherwise]
    message, parameter = next(text for text in said if isinstance(text, str)), error.get("param")
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


def _said(body: bytes) -> str:
    return body.decode("utf-8", "replace") or "an empty body"


def _count(value: Any) -> int | None:
    """Return the value if it can be a number of tokens."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MOST_TOKENS else None


def _first_count(usage: dict[str, Any], places: Sequence[str]) -> int:
    """Return the first number of tokens that stands at one of these places, or 0."""
    for place in places:
        inside, _, name = place.rpartition(".")
        if count := _count((_dict(usage.get(inside)) if inside else usage).get(name)):
            return count
    return 0


_CONNECT_SECONDS = 10.0
# The longest thoughts and answer that a model is asked for come to some 400 kB.
_MAX_BYTES = 2 * 2**20


class OpenAITransport:
    """Imports openai at the first request and in a thread: it takes 0.3 s and 25 MB, which a crawl that never asks the
    model should not pay, and which the event loop should not wait for.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        base_url: str,
        api_key: str,
        timeout_seconds: float,
        redact: Redactor,
        *,
        wall_clock: Callable[[], float],
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._redact = redact
        self._wall_clock = wall_clock
        self._max_bytes = max_bytes
        self._opening = asyncio.Lock()
        self._client: openai.AsyncOpenAI | None = None
        self._was_reached = False
        self.is_proxied = False  # known when it is opened: a proxy of the environment stands before the server

    async def complete(self, body: dict[str, Any]) -> Completion | Fault:
        """Send the body of a chat completion; `timeout_seconds` bounds the whole exchange."""
        rest = {name: value for name, value in body.items() if name not in {"model", "messages"}}
        # As `extra_body`, as older versions of the package do not know all parameters.
        answer = await self.send(
            lambda client: client.chat.completions.with_raw_response.create(
                model=body["model"], messages=body["messages"], extra_body=rest
            )
        )
        return answer if isinstance(answer, Fault) else completion_of(answer, self._redact)

    async def models(self) -> list[str] | Fault:
        """Return the ids of the server's models, in its order."""
        answer = await self.send(lambda client: client.models.with_raw_response.list())
        return answer if isinstance(answer, Fault) else models_of(answer, self._redact)

    async def send(self, request: Callable[[openai.AsyncOpenAI], Awaitable[Any]]) -> bytes | Fault:
        """Return the body of what the server answers to a request of the package's, which is one for its raw response;
        `timeout_seconds` bounds the whole exchange.
        """
        return await self._guarded(request(await self._open()))

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
        package = import_openai()
        http.quieten("openai")
        timeout = package.Timeout(self._timeout_seconds, connect=min(_CONNECT_SECONDS, self._timeout_seconds))
        trusts_env = http.takes_proxy(self._base_url)
        self.is_proxied = trusts_env and not getproxies().keys().isdisjoint({urlsplit(self._base_url).scheme, "all"})
        http_client = http.APIClient(max_bytes=self._max_bytes, timeout=timeout, trust_env=trusts_env)
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
