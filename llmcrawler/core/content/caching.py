"""Caches what is worked out of short texts, which the pages of one site share; long ones are of one page."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def cached_if_short(max_chars: int, *, size: int = 16_384) -> Callable[[F], F]:
    """Cache up to `size` results of a function whose last argument is a text, for texts of up to `max_chars`."""

    def decorate(function: F) -> F:
        cached = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return cached(*arguments) if len(arguments[-1]) <= max_chars else function(*arguments)

        vars(call)["cache_info"] = cached.cache_info
        vars(call)["cache_parameters"] = cached.cache_parameters
        return cast(F, call)

    return decorate
