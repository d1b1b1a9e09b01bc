"""Decides the encoding of a response once, so that nobody after it takes Scrapy's own guess."""

from __future__ import annotations

import asyncio
from typing import Any

from scrapy import Request
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from llmcrawler.content import decode, encoding_of, looks_like_html

_INLINE_BYTES = 64 * 1024  # what takes about a millisecond
_KEPT_BYTES = 1024 * 1024
_META_REFRESH_BYTES = 4 * 4096  # Scrapy looks for one in the first 4096 characters


class _Decoded(TextResponse):
    """`text` is that of the first 6,000,000 bytes, and is there in a time proportional to them.

    Scrapy's own takes any codec of Python's that the page names, and punycode takes minutes for a page.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        if self._cached_ubody is None:
            self._cached_ubody = decode(self.body, self.encoding)
        return self._cached_ubody


class DecodedText(_Decoded):
    __slots__ = ()


class DecodedHtml(_Decoded, HtmlResponse):
    __slots__ = ()


class DecodedXml(_Decoded, XmlResponse):
    __slots__ = ()


class DecodedJson(_Decoded, JsonResponse):
    __slots__ = ()


_KINDS: dict[type[Response], type[TextResponse]] = {
    TextResponse: DecodedText,
    HtmlResponse: DecodedHtml,
    XmlResponse: DecodedXml,
    JsonResponse: DecodedJson,
}


class EncodingMiddleware:
    """Stands right outside of the one that unpacks bodies: those of the HTTP cache and of a JOBDIR pass here too."""

    async def process_response(self, request: Request, response: Response) -> Response:  # noqa: ARG002 - Scrapy's
        if len(response.body) <= _INLINE_BYTES:
            return decoded(response)
        return await asyncio.to_thread(decoded, response)


def decoded(response: Response) -> Response:
    """The same with the encoding that a browser would choose. What has no Content-Type and begins as a web page is one:
    Scrapy takes it for a file where it has a zero byte, as all of UTF-16 has.
    """
    if type(response) in (Response, TextResponse) and _has_no_type(response) and looks_like_html(response.body):
        response = _as(HtmlResponse, response)
    if not isinstance(response, TextResponse):
        return response
    kind = _KINDS.get(type(response))  # a class of the user's own stays
    return _as(kind or type(response), response, encoding=encoding_of(response.body, content_type_of(response)))


def _as(kind: type[Response], response: Response, **fields: Any) -> Response:
    """`response.replace` would ask for the encoding that is replaced, and decode the whole body to guess it."""
    kept = {name: getattr(response, name) for name in response.attributes if name != "encoding"}
    return kind(**{**kept, **fields})


def content_type_of(response: Response) -> str | None:
    """What the header says, of several the last."""
    header = response.headers.get("Content-Type")
    return None if header is None else header.decode("latin-1")


def page_text(response: Response) -> str:
    """Of the first 6,000,000 bytes; decoded once for all who ask, but for a large one: the response is kept for as long
    as its page is on its way, and its text may take four times the memory of its body.
    """
    if isinstance(response, _Decoded) and (response._cached_ubody is not None or len(response.body) <= _KEPT_BYTES):
        return response.text
    return decode(response.body, _encoding_of(response))


def may_refresh(response: Response) -> bool:
    """Whether a page can have a <meta http-equiv=refresh>: most have none, and to look closer takes ten times as long.

    An attribute's value may be written with character references, its name may not.
    """
    head = response.body[:_META_REFRESH_BYTES].lower()
    if b"\x00" in head:  # as in UTF-16
        head = head.replace(b"\x00", b"")
    return b"http-equiv" in head and (b"refresh" in head or b"&#" in head)


def head_of(response: TextResponse) -> TextResponse:
    """So much of a response as can have a <meta http-equiv=refresh>. The query of an address is in the encoding of its
    page, but in UTF-8 where that is UTF-16 (url.spec.whatwg.org).
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


def _has_no_type(response: Response) -> bool:
    essence = (content_type_of(response) or "").partition(";")[0].strip().lower()
    return "/" not in essence or essence in ("unknown/unknown", "application/unknown", "*/*")
