"""Reads the bodies that an OpenAI-compatible server sends, without trust in their form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmcrawler.content.bounds.untrusted_json import loads
from llmcrawler.llm.faults import SERVER_ERROR, Fault

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


def completion_of(body: bytes, redact: Redact) -> Completion | Fault:
    """Return the first choice of a chat completion."""
    reply = _object(body)
    choices = reply.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message, usage = choice.get("message"), _dict(reply.get("usage"))
    text = message.get("content") if isinstance(message, dict) else 0
    if not isinstance(message, dict) or not isinstance(text, str | None):
        return Fault(SERVER_ERROR, f"no chat completion: {redact(_said(body))}", may_be_billed=True)
    reason = choice.get("finish_reason")
    return Completion(
        text=text or "",
        finish_reason="refusal" if message.get("refusal") else reason if isinstance(reason, str) and reason else "stop",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        provider_cached_tokens=_count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0,
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
    reply = _object(body)
    inner = reply.get("error")
    error = inner if isinstance(inner, dict) else reply
    code = error.get("code")
    said = [error.get("message"), error.get("detail"), inner, _said(body)]
    return next(text for text in said if isinstance(text, str)), code if isinstance(code, str) else ""


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
    """Return the value if it can be a number of tokens, else None."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MOST_TOKENS else None
