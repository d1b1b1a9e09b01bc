"""Reads LLM_FALLBACKS: the servers and models that are asked where the first one cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.providers import ProviderChoice, checked_key, checked_url, other_choice
from llmcrawler.core.llm.usage import OwnPrices, Price, price_of
from llmcrawler.errors import ConfigError

_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server with a model, the limits of calls to it, and what they cost (None: not known)."""

    choice: ProviderChoice
    limits: CallLimits
    price: Price | None


class _Fallback(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    base_url: str = ""
    model: str = ""
    api_key_env: str = ""
    reasoning_effort: str = ""
    concurrency: Annotated[int, Field(ge=1)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    tokens_per_minute: Annotated[int, Field(ge=0)] = 0
    price_input: _Dollars | None = None
    price_output: _Dollars | None = None
    price_cached_input: _Dollars | None = None
    price_cache_write: _Dollars | None = None


def read_fallbacks(settings: Mapping[Any, Any], environ: Mapping[str, str], first: Endpoint) -> list[Endpoint]:
    """Return what LLM_FALLBACKS lists: objects, or names of models at the first server. What an entry leaves open is as
    for the first one, but for prices, and for the key, which goes to no other host. Raises ConfigError, which names the
    entry.
    """
    return [_endpoint(entry, number, environ, first) for number, entry in enumerate(_entries(settings), 1)]


def _entries(settings: Mapping[Any, Any]) -> Sequence[Any]:
    given = settings.get("LLM_FALLBACKS") or ()
    if isinstance(given, str) and not given.lstrip().startswith(("[", "{")):
        return [name.strip() for name in given.split(",") if name.strip()]
    try:
        entries = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ConfigError(f"LLM_FALLBACKS is no JSON: {error}") from None
    if not isinstance(entries, list | tuple):
        raise ConfigError("LLM_FALLBACKS is to be a list of objects, or names of models with commas")
    return entries


def _endpoint(entry: Any, number: int, environ: Mapping[str, str], first: Endpoint) -> Endpoint:
    where = f"LLM_FALLBACKS, entry {number}"
    if isinstance(entry, str):
        entry = {"model": entry}
    try:
        given = _Fallback.model_validate(entry)
    except ValidationError as error:
        # Its values are left out: somebody may have put a key there.
        wrong = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(map(str, wrong["loc"])) or "it"
        keys = ", ".join(_Fallback.model_fields)
        raise ConfigError(f"{where}: {name}: {wrong['msg']}; there are: {keys}") from None
    if not given.base_url and not given.model:
        raise ConfigError(f"{where}: it needs a base_url or a model")
    key = ""
    if given.api_key_env:
        key = checked_key(f"{where}: api_key_env={given.api_key_env}", environ.get(given.api_key_env, "").strip())
        if not key:
            raise ConfigError(f"{where}: {given.api_key_env} is not set in the environment, and is to hold its key")
    url = checked_url(f"{where}: base_url", given.base_url) if given.base_url else ""
    choice = other_choice(first.choice, url, given.model, key, given.reasoning_effort, environ)
    limits = replace(
        first.limits,
        concurrency=given.concurrency or first.limits.concurrency,
        timeout_seconds=given.timeout_seconds or first.limits.timeout_seconds,
        requests_per_minute=given.requests_per_minute,
        tokens_per_minute=given.tokens_per_minute,
    )
    own = OwnPrices(given.price_input, given.price_output, given.price_cached_input, given.price_cache_write)
    return Endpoint(choice, limits, price_of(choice.model, own))
