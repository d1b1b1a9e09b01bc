"""Tells the `kind` and message of a page's error from what went wrong with its request."""

from __future__ import annotations

import zlib

from scrapy import exceptions
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.http import HtmlResponse, Response
from scrapy.utils.response import response_status_message
from twisted.internet import error as network

from llmcrawler.core.content import is_binary
from llmcrawler.engine.refusals import RequestRefused
from llmcrawler.engine.request_context import response_context
from llmcrawler.errors import ProtocolFault

_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (exceptions.CannotResolveHostError, "dns"),
    (exceptions.DownloadConnectionRefusedError, "refused"),
    (exceptions.DownloadTimeoutError, "timeout"),
    (exceptions.ResponseDataLossError, "truncated"),
    (exceptions.DownloadCancelledError, "too_large"),
    (exceptions.UnsupportedURLSchemeError, "scheme"),
    (exceptions.DownloadFailedError, "connection"),
    (network.ConnectError, "connection"),
    (network.ConnectionClosed, "connection"),
    (TunnelError, "proxy"),
    (ProtocolFault, "protocol"),
    (exceptions.IgnoreRequest, "ignored"),
)
# A header that names another compression or another encoding than the body has; brotli and zstd are optional packages.
_BODY_ERRORS = (OSError, EOFError, zlib.error, UnicodeError, LookupError)
_DECODER_ERRORS = frozenset({"ZstdError", "error"})
_SILENT = {"ResponseDataLossError": "the response ended before its declared length"}
_TLS_MARKS = ("ssl", "tls", "certificate")
_NO_TLS = "there is no TLS at that port, http:// may be meant"
_MAX_MESSAGE = 300


def failure_kind(error: BaseException | None) -> tuple[str, str]:
    """Return the (kind, message) of a failed download: `internal` with the error's type where no table has it."""
    if isinstance(error, RequestRefused):
        return error.kind, str(error)
    message = _message_of(error)
    if isinstance(error, _BODY_ERRORS) or type(error).__name__ in _DECODER_ERRORS:
        return "body", f"the body cannot be decoded: {message}"
    kind = next((kind for error_type, kind in _KINDS if isinstance(error, error_type)), None)
    if kind is None:
        return "internal", f"{type(error).__name__}: {message}"
    if kind == "connection" and any(mark in message.lower() for mark in _TLS_MARKS):
        return "tls", f"{_NO_TLS}: {message}" if "wrong version number" in message else message
    if "DOWNLOAD_MAXSIZE" in message or kind == "too_large":
        return "too_large", "the body is larger than DOWNLOAD_MAXSIZE"
    return kind, message


def _message_of(error: BaseException | None) -> str:
    # An error that Scrapy wraps holds its reasons as a list of Twisted failures.
    reasons = getattr(error.__cause__ if error is not None else None, "reasons", None)
    text = "; ".join(reason.getErrorMessage() for reason in reasons) if reasons else str(error)
    return (text or _SILENT.get(type(error).__name__, type(error).__name__))[:_MAX_MESSAGE]


def response_fault(response: Response) -> tuple[str, str] | None:
    """Return the (kind, message) of a response that is no page, None for one that is."""
    if not 200 <= response.status < 300:
        put_backs = response_context(response).put_backs
        still = f", still after {put_backs} times that it was put back" if put_backs else ""
        return f"http_{response.status}", response_status_message(response.status) + still
    # Scrapy chose the class by the header, and looked into the body only where that says nothing.
    if not isinstance(response, HtmlResponse) or is_binary(response.body):
        content_type = (response.headers.get("Content-Type") or b"unknown").decode("latin-1")[:80]
        return "not_html", f"not a web page: {content_type}"
    return None
