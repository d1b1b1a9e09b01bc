"""Chooses the model to ask by the settings and the environment, without a look at the network."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llmcrawler.errors import ConfigError

if TYPE_CHECKING:
    from llmcrawler.core.llm.call_limits import CallLimits
    from llmcrawler.core.llm.usage import Price

PROVIDERS = ("auto", "openai", "none")
OPENAI_BASE_URL = "https://api.openai.com/v1"

# The cheapest of OpenAI's models with structured outputs that has no announced end (November 2026).
OPENAI_DEFAULT_MODEL = "gpt-6-luna"
# The page type of a page needs no long thoughts, and thoughts are paid as output.
_OPENAI_EFFORT = "low"
_OPENAI_THINKERS = ("gpt-5", "gpt-6", "o3", "o4")

PLACEHOLDER_KEY = "no-key"  # the openai package refuses an empty key; servers of one's own mostly want none


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """The model to ask. `kind` is openai or none; an empty `model` means the first that the server lists. None that is
    not `is_chosen` is what is left without a key.
    """

    kind: str
    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    reasoning_effort: str | None = None
    service_tier: str | None = None
    is_chosen: bool = True
    is_fallback: bool = False


def resolve_provider(settings: Mapping[Any, Any], environ: Mapping[str, str]) -> ProviderChoice:
    """Choose by LLM_PROVIDER, LLM_BASE_URL, LLM_MODEL and LLM_API_KEY, each from the settings or the environment.

    OPENAI_API_KEY and OPENAI_BASE_URL count too. A key of OpenAI's goes to OpenAI and to OPENAI_BASE_URL, never to
    the host of LLM_BASE_URL. Raises ConfigError, which names the setting and its value (a key's value never).
    """
    provider = _text("LLM_PROVIDER", settings, environ).lower() or "auto"
    if provider not in PROVIDERS:
        raise ConfigError(f"LLM_PROVIDER is {provider!r}; it can be {', '.join(PROVIDERS)}")
    own_url = _checked_url("LLM_BASE_URL", _text("LLM_BASE_URL", settings, environ))
    base_url = own_url or _checked_url("OPENAI_BASE_URL", _text("OPENAI_BASE_URL", settings, environ))
    api_key = _api_key(own_url, settings, environ)
    if provider == "auto" and not base_url and not api_key:
        return ProviderChoice("none", is_chosen=False)
    if provider == "none":
        return ProviderChoice("none")
    from llmcrawler.core.llm.usage import FLEX

    model = _text("LLM_MODEL", settings, environ)
    if not base_url and not api_key:
        raise ConfigError(
            "LLM_PROVIDER is 'openai', but neither LLM_API_KEY (or OPENAI_API_KEY) nor LLM_BASE_URL is set: "
            "set a key, or the address of your own server"
        )
    tier = _text("LLM_SERVICE_TIER", settings, environ).lower()
    tiers = ("", "default", FLEX)
    if tier not in tiers:
        # The faster tiers cost more than the prices that a budget reckons with.
        raise ConfigError(f"LLM_SERVICE_TIER is {tier!r}; it can be {', '.join(filter(None, tiers))}, or empty")
    effort = _text("LLM_REASONING_EFFORT", settings, environ)
    return replace(_openai_choice(base_url or OPENAI_BASE_URL, model, api_key, effort), service_tier=tier or None)


def own_prices(settings: Mapping[Any, Any], environ: Mapping[str, str]) -> list[float | None]:
    """Return LLM_PRICE_INPUT and LLM_PRICE_OUTPUT, as far as they are set. Raises ConfigError for what is no price."""
    prices: list[float | None] = []
    for name in ("LLM_PRICE_INPUT", "LLM_PRICE_OUTPUT"):
        price, text = None, _text(name, settings, environ)
        if text:
            try:
                price = float(text)
            except ValueError:
                price = math.nan
            if not 0 <= price < math.inf:
                raise ConfigError(f"{name} is {text!r}; it must be US dollars per million tokens, such as 0.25")
        prices.append(price)
    return prices


def _openai_choice(base_url: str, model: str, api_key: str, effort: str) -> ProviderChoice:
    if _is_openai(base_url):
        model = model or OPENAI_DEFAULT_MODEL
        effort = effort or _OPENAI_EFFORT * model.startswith(_OPENAI_THINKERS)
    return ProviderChoice("openai", base_url, model, api_key or PLACEHOLDER_KEY, effort or None)


def _api_key(own_url: str, settings: Mapping[Any, Any], environ: Mapping[str, str]) -> str:
    name = "LLM_API_KEY"
    key = _text(name, settings, environ)
    if not key and (not own_url or _is_openai(own_url)):
        name = "OPENAI_API_KEY"
        key = _text(name, settings, environ)
    return _checked_key(name, key)


def _checked_key(name: str, key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{name} contains a space, a line break or a character that no key has; copy it again")
    return key


def _is_openai(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _text(name: str, settings: Mapping[Any, Any], environ: Mapping[str, str]) -> str:
    value = settings.get(name)
    return ("" if value is None else str(value).strip()) or environ.get(name, "").strip()


def _checked_url(name: str, url: str) -> str:
    """Return the address of an API, if there is one; `name` is what gives it."""
    if not url:
        return ""
    parts = urlsplit(url)
    try:
        well_formed = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # urlsplit checks a port only when it is asked for it
        well_formed = False
    if not well_formed:
        raise ConfigError(f"{name} is {url!r}; it must be an address such as http://127.0.0.1:11434/v1")
    # Ollama, vLLM, LM Studio and llama.cpp all serve the API under /v1, and their users give the bare address.
    return url.rstrip("/") + ("/v1" if parts.path in {"", "/"} else "")


_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server with a model, the limits of calls to it, and what they cost (None: not known)."""

    choice: ProviderChoice
    limits: CallLimits
    price: Price | None = None


class _Fallback(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    base_url: str = ""
    model: str = ""
    api_key_env: str = ""
    price_input: _Dollars | None = None
    price_output: _Dollars | None = None


def read_fallbacks(settings: Mapping[Any, Any], environ: Mapping[str, str], first: Endpoint) -> list[Endpoint]:
    """Return what LLM_FALLBACKS lists: objects, or names of models at the first server. What an entry leaves open is as
    for the first one, but prices and keys of other hosts. Raises ConfigError, which names the entry.
    """
    entries = settings.get("LLM_FALLBACKS") or ()
    if isinstance(entries, str):
        if entries.lstrip().startswith(("[", "{")):
            try:
                entries = json.loads(entries)
            except ValueError as error:
                raise ConfigError(f"LLM_FALLBACKS is not JSON: {error}") from None
        else:
            entries = [name.strip() for name in entries.split(",") if name.strip()]
    if not isinstance(entries, list | tuple):
        raise ConfigError("LLM_FALLBACKS must be a list of objects, or names of models separated by commas")
    return [_endpoint(entry, number, environ, first) for number, entry in enumerate(entries, 1)]


def _endpoint(entry: Any, number: int, environ: Mapping[str, str], first: Endpoint) -> Endpoint:
    from llmcrawler.core.llm.usage import price_of

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
        key = _checked_key(f"{where}: api_key_env={given.api_key_env}", environ.get(given.api_key_env, "").strip())
        if not key:
            raise ConfigError(f"{where}: {given.api_key_env} is not set in the environment; it must hold the key")
    url = _checked_url(f"{where}: base_url", given.base_url) or first.choice.base_url
    if not key and url == first.choice.base_url:
        key = first.choice.api_key
    elif not key and _is_openai(url):
        key = _api_key("", {}, environ)
    choice = replace(_openai_choice(url, given.model, key, ""), is_fallback=True)
    price = price_of(choice.model, given.price_input, given.price_output)
    return Endpoint(choice, first.limits, price)
