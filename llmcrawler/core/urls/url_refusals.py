"""Reasons for which urls get no place in a crawl."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class UrlRefusalKind(StrEnum):
    MALFORMED = "malformed"
    TOO_LONG = "too long"
    TOO_DEEP = "too deep"
    OFFSITE = "offsite"
    NO_PAGE = "no page"
    DENIED = "denied"
    NOT_ALLOWED = "not allowed"
    PRIVATE_HOST = "private host"
    TRAP = "trap"


class UrlRefusal(str):
    """A reason in words; `kind` is what callers decide by."""

    kind: UrlRefusalKind

    def __new__(cls, kind: UrlRefusalKind, detail: str = "") -> Self:
        refusal = super().__new__(cls, f"{kind}: {detail}" if detail else kind.value)
        refusal.kind = kind
        return refusal
