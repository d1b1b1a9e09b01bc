"""Says what to do about a server that cannot be used."""

from __future__ import annotations

from llmcrawler.llm.faults import Fault

# What is to be set for a server of LLM_FALLBACKS, by what it is for the first one.
_FALLBACK_KEYS = {"LLM_API_KEY": "the key of api_key_env", "LLM_BASE_URL": "base_url", "LLM_MODEL": "model"}


def cure_of(fault: Fault, host: str, model: str, *, is_fallback: bool = False) -> str:
    """Return what a refusal means, and what to set. The words of the server stand in it, cleaned of secrets."""
    what, cure = _refusal(fault, host, model)
    said = f"({fault.status}: {fault.message})"
    return f"{for_fallback(what, is_fallback)} {said}; {for_fallback(cure, is_fallback)}"


def for_fallback(advice: str, is_fallback: bool) -> str:
    """Return an advice with the names that hold in LLM_FALLBACKS, where it is about a server of that."""
    for setting, key in _FALLBACK_KEYS.items() if is_fallback else ():
        advice = advice.replace(setting, f"{key} (LLM_FALLBACKS)")
    return advice


def _refusal(fault: Fault, host: str, model: str) -> tuple[str, str]:
    if "insufficient_quota" in fault.message or "quota" in fault.message or fault.status == 402:
        return f"the account of LLM_API_KEY has no credit left at {host}", "add credit or set another key"
    if fault.status in {401, 403}:
        return f"LLM_API_KEY was refused by {host}", "set a key that is valid there"
    if fault.status is not None and 300 <= fault.status < 400:
        return f"LLM_BASE_URL leads elsewhere: {host} redirects", "set the address that it leads to"
    if "model" in fault.message.lower():
        return f"LLM_MODEL {model!r} is not to be had at {host}", "set one that the server lists"
    return f"LLM_BASE_URL leads to no chat completions at {host}", "it mostly ends in /v1"
