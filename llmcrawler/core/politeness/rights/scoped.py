"""Finds which of a host's statements are about a path: the longest pattern that matches, as in robots.txt (RFC 9309,
2.2.2), whose wildcards they all have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmcrawler.core.politeness.rights.combined_signals import Signal
from llmcrawler.core.politeness.robots.path_rules import PathRules, canonical

# Of one file. They bound the time for a path: a look at a pattern takes microseconds, at one with wildcards up to a
# fifth of a millisecond. What is beyond them is left out.
_MAX_PATTERNS: Final = 1_000
_MAX_WILDCARDS: Final = 50
_MAX_OCTETS: Final = 200
_MAX_TOGETHER: Final = 8  # statements with one pattern
_WHOLE_HOST: Final = (b"/", b"*", b"/*")
_SCOPE_BYTES: Final = 2_000  # about what one takes in memory, beside its signals


class ScopedSignals:
    """Statements of one file and one standard, each with the pattern of the paths that it is about."""

    def __init__(self, rules: Iterable[tuple[str, Signal]]) -> None:
        scopes: dict[bytes, list[Signal]] = {}
        wildcards = 0
        for text, signal in rules:
            pattern = canonical(text.encode("utf-8", "surrogatepass")) or b"/"
            if pattern not in scopes:
                wildcards += b"*" in pattern
                if len(scopes) >= _MAX_PATTERNS or (b"*" in pattern and wildcards > _MAX_WILDCARDS):
                    continue
            if len(pattern) <= _MAX_OCTETS and pattern.startswith((b"/", b"*")):
                scopes.setdefault(pattern, []).append(signal)
        ordered = sorted(scopes, key=len, reverse=True)
        self._scopes = [(PathRules([(one, False)]), tuple(scopes[one][:_MAX_TOGETHER])) for one in ordered]
        self.is_scoped = any(one not in _WHOLE_HOST for one in ordered)
        self.size_bytes = sum(_SCOPE_BYTES + sum(len(one.value) for one in signals) for _, signals in self._scopes)

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def of(self, path: bytes) -> tuple[Signal, ...]:
        """Return the statements about a canonical path (`path_of` of a url)."""
        return next((signals for rule, signals in self._scopes if not rule.allow(path)), ())
