"""Caches what is worked out of short texts, which the pages of one site share; long ones are of one page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K", bound="str | tuple[object, ...]")
V = TypeVar("V")


class ShortTexts(dict[K, V]):
    """The results of a function for short texts; all are forgotten where they are more than `size`."""

    def __init__(self, function: Callable[[K], V], max_chars: int, size: int) -> None:
        self.size = size
        self._function = function
        self._max_chars = max_chars

    def __missing__(self, key: K) -> V:
        result = self._function(key)
        text = key if isinstance(key, str) else key[-1]
        if len(text) <= self._max_chars:  # type: ignore[arg-type]
            if len(self) >= self.size:
                self.clear()
            self[key] = result
        return result


def cached_if_short(max_chars: int, *, size: int = 16_384) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache up to `size` results of a function of a text, or a tuple that ends in one, of up to `max_chars`. What is
    known costs no call of Python code: it is looked up some hundred times on each page.
    """
    return lambda function: ShortTexts(function, max_chars, size).__getitem__
