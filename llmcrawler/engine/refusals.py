"""Requests that the crawler refuses itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from scrapy.exceptions import IgnoreRequest

# Answers of a host that has no time now.
OVERLOAD_STATUSES: Final = frozenset({429, 503})


class RefusalKind(StrEnum):
    """Reason why a request is refused; `error.kind` in the feed's line of its url."""

    ROBOTS = "robots"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    RIGHTS = "rights"
    REDIRECT_LOOP = "redirect_loop"
    REDIRECT_OFFSITE = "redirect_offsite"
    REDIRECT_SEEN = "redirect_seen"
    PRIVATE_ADDRESS = "private_address"
    HOST_DOWN = "host_down"
    NO_PROXY = "no_proxy"
    PROXY = "proxy"
    VALIDATION = "validation"
    BODY = "body"


class RequestRefused(IgnoreRequest):
    """Raised for a request that the crawler refuses itself. `url` is where a redirect led to."""

    def __init__(self, kind: RefusalKind, message: str, url: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind.value
        self.url = url
