"""Requests that we refuse ourselves."""

from __future__ import annotations

from scrapy.exceptions import IgnoreRequest


class RequestRefused(IgnoreRequest):
    """`kind` is the page error's: robots, redirect_loop, redirect_offsite, redirect_seen, private_address, no_proxy,
    proxy, validation or body.
    """

    def __init__(self, kind: str, message: str, url: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.url = url
