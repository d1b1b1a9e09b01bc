"""Responses as a job's ledger keeps them."""

from __future__ import annotations

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from llmcrawler.core.content import decode_page
from llmcrawler.core.storage import StoredBody
from llmcrawler.engine.request_context import LATENCY

# The body is stored unpacked, and cookies are nobody else's.
NOT_STORED_COOKIES = (b"set-cookie", b"set-cookie2")
_NOT_STORED = {b"content-encoding", b"transfer-encoding", b"content-length", *NOT_STORED_COOKIES}


def response_of(stored: StoredBody) -> Response:
    """Return the response that a body was stored from."""
    assert stored.body is not None
    headers = Headers()
    for name, value in stored.headers:
        headers.appendlist(name, value)
    kind = responsetypes.from_args(headers=headers, url=stored.url, body=stored.body)
    return kind(url=stored.url, status=stored.status, headers=headers, body=stored.body)


def text_of(stored: StoredBody) -> str:
    """Return the text of a stored body."""
    assert stored.body is not None
    return decode_page(stored.body, stored.header("content-type"))


def body_of(response: Response, fetched_at: str) -> StoredBody:
    """Return what the ledger keeps of a response."""
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        if name.lower() not in _NOT_STORED
        for value in values or ()
    )
    latency = round(response.meta.get(LATENCY, 0.0), 4)
    return StoredBody(response.url, response.status, headers, response.body, fetched_at, latency)
