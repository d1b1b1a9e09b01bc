"""Tells the kinds of failed calls apart, and says how often to try each again, and what to do about a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from llmcrawler.core.politeness.throttling import retry_after_seconds

# Kinds of failure, as they stand in stats and log lines.
RATE_LIMIT = "rate_limit"
SERVER_ERROR = "server_error"
TIMEOUT = "timeout"
NO_CAPACITY = "no_capacity"  # the service tier that was asked for has no room just now; nothing was charged
UNREACHED = "unreached"  # no connection, and there has been none in this session
AWAY = "away"  # a gateway answers for a server that is down, starting or overloaded (502, 503, 504)
LOST = "lost"  # no connection to a server that was there before: it restarts, or the network is down
REFUSED = "refused"  # the key, the account or the address is wrong: no call can work
UNKNOWN_FORMAT = "unknown_format"  # the server does not know json_schema or json_object
UNKNOWN_PARAMETER = "unknown_parameter"
BAD_REQUEST = "bad_request"  # these questions are refused (too long, filtered): fewer may pass


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Allows up to `attempts` tries, after waits of `first_seconds`, then twice as long each, up to `cap_seconds`."""

    attempts: int
    first_seconds: float
    cap_seconds: float

    def delay_seconds(self, failures: int, jitter: float) -> float:
        """Return the wait after the nth failure (from 1). `jitter` in 0..1 takes off up to a half ("Exponential Backoff
        And Jitter", AWS Architecture Blog, equal jitter).
        """
        return min(self.cap_seconds, self.first_seconds * 2.0 ** (failures - 1)) * (1 - jitter / 2)


# A timeout is tried once more only: the same question is likely to take as long again, a smaller one is not.
# AWAY and LOST wait 40 to 80 s in all, which outlasts the restart of a server; UNREACHED, 22 to 44 s, may be a wrong
# address, or a server that is restarted just when the crawl begins.
RETRY_RULES: Mapping[str, RetryRule] = {
    RATE_LIMIT: RetryRule(6, 1.0, 30.0),
    SERVER_ERROR: RetryRule(5, 0.5, 8.0),
    TIMEOUT: RetryRule(2, 0.5, 2.0),
    NO_CAPACITY: RetryRule(6, 1.0, 30.0),
    UNREACHED: RetryRule(14, 0.5, 4.0),
    AWAY: RetryRule(14, 0.5, 8.0),
    LOST: RetryRule(14, 0.5, 8.0),
}
# Before the first request of a crawl somebody may be looking on, and nothing is lost yet.
FIRST_CONTACT = RetryRule(4, 0.5, 2.0)


def rules_with(max_attempts: int) -> dict[str, RetryRule]:
    """Return RETRY_RULES, with at most `max_attempts` where the server answered."""
    rules = dict(RETRY_RULES)
    for kind in (RATE_LIMIT, SERVER_ERROR, TIMEOUT, NO_CAPACITY):
        rules[kind] = replace(rules[kind], attempts=min(rules[kind].attempts, max_attempts))
    return rules


@dataclass(frozen=True, slots=True)
class Fault:
    """Failure of one request. `message` is the server's own, without secrets. `may_be_billed`: it may have been
    answered.
    """

    kind: str
    message: str
    status: int | None = None
    retry_after_seconds: float | None = None
    may_be_billed: bool = False


_FORMAT = re.compile(r"response_format|json_schema|json_object|structured.?output|guided|grammar", re.IGNORECASE)
_NO_CAPACITY = re.compile(r"resource.?unavailable|capacity.?exceeded", re.IGNORECASE)
_TOO_LONG = re.compile(r"context.?length|context window|context size|too long|too many tokens", re.IGNORECASE)
# Options of a call, and bounds in its schema, that a server may not know and that can be left out.
SCHEMA_KEYWORDS = frozenset({"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"})
CACHE_PARAMETERS = ("prompt_cache_options", "prompt_cache_breakpoint", "prompt_cache_key")
PARAMETERS = tuple("reasoning_effort max_tokens max_completion_tokens service_tier".split()) + CACHE_PARAMETERS


def fault_of_status(
    status: int, message: str, code: str | None, headers: Mapping[str, str], wall_seconds: float
) -> Fault:
    """Tell the kind of failure from an HTTP status; `wall_seconds` is Unix time, for a Retry-After date."""
    text = f"{code or ''} {message}"
    # OpenAI answers 429 to an account without credit too, and waiting does not help there.
    # A redirect is not followed: the key and the pages are for no other address than the one that the user gave.
    if status in {401, 402, 403, 404} or 300 <= status < 400 or "insufficient_quota" in text:
        return Fault(REFUSED, message, status)
    if status in {429, 498}:  # 498 is Groq's
        kind = NO_CAPACITY if status == 498 or _NO_CAPACITY.search(text) else RATE_LIMIT
        return Fault(kind, message, status, _wait_seconds(headers, wall_seconds))
    if status in {502, 503, 504, 529}:
        # A gateway that has waited in vain (504) knows nothing of what the server behind it has done.
        return Fault(AWAY, message, status, _wait_seconds(headers, wall_seconds), may_be_billed=status == 504)
    if status in {408, 409, 425} or status >= 500:
        return Fault(SERVER_ERROR, message, status, _wait_seconds(headers, wall_seconds))
    if status == 413 or _TOO_LONG.search(text):
        return Fault(BAD_REQUEST, message, status)
    if status in {400, 422} and any(name in text for name in PARAMETERS):
        return Fault(UNKNOWN_PARAMETER, message, status)
    if status in {400, 415, 422} and _FORMAT.search(text):
        return Fault(UNKNOWN_FORMAT, message, status)
    return Fault(BAD_REQUEST, message, status)


def _wait_seconds(headers: Mapping[str, str], wall_seconds: float) -> float | None:
    """Return what OpenAI's retry-after-ms or Retry-After asks for; None when absent or odd."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if re.fullmatch(r"\d+(\.\d*)?", milliseconds):
        return float(milliseconds) / 1000
    return retry_after_seconds(headers.get("retry-after"), datetime.fromtimestamp(wall_seconds, UTC))


_LOOKED_AT_CHARS = 10_000
_MESSAGE_CHARS = 300
# Keys of the usual providers and bearer tokens, also when a server echoes another one than ours.
_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|rk)[-_][A-Za-z0-9_*.\-]{6,}|(?<=Bearer )[^\s'\",}]+")


def redacted(text: Any, api_key: str) -> str:
    """Return the message of a server or a library, cut short and without secrets."""
    clean = str(text)
    if len(clean) > _LOOKED_AT_CHARS:
        # The last word may be a part of a key, which nobody would know for one.
        words = clean[:_LOOKED_AT_CHARS].rsplit(None, 1)
        clean = words[0] if len(words) > 1 else "…"
    if len(api_key) >= 8:  # a word such as "no-key" or "ollama" guards nothing, and stands in plain sentences
        clean = clean.replace(api_key, "***")
    clean = " ".join(_KEY_LIKE.sub("***", clean).split())
    return clean if len(clean) <= _MESSAGE_CHARS else clean[: _MESSAGE_CHARS - 1] + "…"


def cure_of(fault: Fault, host: str, model: str) -> str:
    """Return what a refusal means, and what to set. The words of the server stand in it, cleaned of secrets."""
    message = fault.message
    if "quota" in message or fault.status == 402:
        what, cure = f"the account of LLM_API_KEY has no credit left at {host}", "add credit or set another key"
    elif fault.status in {401, 403}:
        what, cure = f"LLM_API_KEY was refused by {host}", "set a key that is valid there"
    elif fault.status is not None and 300 <= fault.status < 400:
        what, cure = f"LLM_BASE_URL leads elsewhere: {host} redirects", "set the address that it leads to"
    elif "model" in message.lower():
        what, cure = f"LLM_MODEL {model!r} is not to be had at {host}", "set one that the server lists"
    else:
        what, cure = f"LLM_BASE_URL leads to no chat completions at {host}", "it mostly ends in /v1"
    return f"{what} ({fault.status}: {message}); {cure}"
