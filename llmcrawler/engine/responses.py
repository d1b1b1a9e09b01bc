"""Responses: their text in the encoding that a browser would choose, and how a job's ledger keeps them."""

from __future__ import annotations

from typing import Any

from scrapy.http import Headers, HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse
from scrapy.responsetypes import responsetypes

from llmcrawler.core.content import decode, decode_page, encoding_of, html_of, looks_like_html
from llmcrawler.core.storage import StoredBody
from llmcrawler.engine.request_context import LATENCY

ROBOTS_HEADER = "X-Robots-Tag"
LINKS_HEADER = "X-Rendered-Links"  # of a page that the browser made: urls of links that the body does not show
_KEPT_BYTES = 1024 * 1024
_META_REFRESH_BYTES = 4 * 4096  # Scrapy looks for one in the first 4096 characters


class _Decoded(TextResponse):
    """Decodes the first 6,000,000 bytes, once, in a time proportional to them.

    Scrapy's own class takes any codec of Python's that a page names, and punycode takes minutes for a page.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        if self._cached_ubody is None:
            self._cached_ubody = decode(self.body, self.encoding)
        return self._cached_ubody


class DecodedHtml(_Decoded, HtmlResponse):
    __slots__ = ()


class DecodedXml(_Decoded, XmlResponse):
    __slots__ = ()


class DecodedJson(_Decoded, JsonResponse):
    __slots__ = ()


_KINDS: dict[type[Response], type[TextResponse]] = {
    TextResponse: _Decoded,
    HtmlResponse: DecodedHtml,
    XmlResponse: DecodedXml,
    JsonResponse: DecodedJson,
}


def decoded(response: Response) -> Response:
    """Return the response with the encoding that a browser would choose.

    What has no Content-Type and begins as a web page becomes one: Scrapy takes it for a file where it has a zero byte,
    as all of UTF-16 has.
    """
    if type(response) in (Response, TextResponse) and looks_like_html(response.body):
        essence = (content_type_of(response) or "").partition(";")[0].strip().lower()
        if "/" not in essence or essence in ("unknown/unknown", "application/unknown", "*/*"):
            response = _as(HtmlResponse, response)
    if not isinstance(response, TextResponse):
        return response
    kind = _KINDS.get(type(response))  # a class of the user's own stays
    return _as(kind or type(response), response, encoding=encoding_of(response.body, content_type_of(response)))


def _as(kind: type[Response], response: Response, **fields: Any) -> Response:
    """Return a copy of another class. `response.replace` would decode the whole body to guess the old encoding."""
    kept = {name: getattr(response, name) for name in response.attributes if name != "encoding"}
    return kind(**{**kept, **fields})


def content_type_of(response: Response) -> str | None:
    """Return the Content-Type header, of several the last."""
    header = response.headers.get("Content-Type")
    return None if header is None else header.decode("latin-1")


def robots_tags_of(response: Response) -> list[str]:
    return [value.decode("latin-1") for value in response.headers.getlist(ROBOTS_HEADER)]


def page_text(response: Response) -> str:
    """Return the first 6,000,000 bytes as HTML.

    Their text is kept with the response, but for large ones: a text may take four times the memory of its body, and the
    response stays for as long as its page is worked on.
    """
    if isinstance(response, _Decoded) and (response._cached_ubody is not None or len(response.body) <= _KEPT_BYTES):
        text = response.text
    else:
        text = decode(response.body, _encoding_of(response))
    return html_of(text, content_type_of(response))


def may_refresh(response: Response) -> bool:
    """Return whether a page can have a <meta http-equiv=refresh>; to parse for one takes ten times as long.

    An attribute's value may be written with character references, its name may not.
    """
    head = response.body[:_META_REFRESH_BYTES].lower()
    if b"\x00" in head:  # as in UTF-16
        head = head.replace(b"\x00", b"")
    return b"http-equiv" in head and (b"refresh" in head or b"&#" in head)


def head_of(response: TextResponse) -> TextResponse:
    """Return the part of a response that can have a <meta http-equiv=refresh>.

    A page in UTF-16 becomes UTF-8: that is the encoding of the queries in its urls (url.spec.whatwg.org).
    """
    encoding = _encoding_of(response)
    head = response.body[:_META_REFRESH_BYTES]
    if encoding.startswith("utf-16"):
        head, encoding = decode(head, encoding).encode("utf-8", "replace"), "utf-8"
    return response.replace(body=head, encoding=encoding)


def _encoding_of(response: Response) -> str:
    if isinstance(response, _Decoded):
        return response.encoding
    return encoding_of(response.body, content_type_of(response))


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
    assert stored.body is not None
    return decode_page(stored.body, stored.header("content-type"))


def body_of(response: Response, fetched_at: str) -> StoredBody:
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        if name.lower() not in _NOT_STORED
        for value in values or ()
    )
    latency = round(response.meta.get(LATENCY, 0.0), 4)
    return StoredBody(response.url, response.status, headers, response.body, fetched_at, latency)
