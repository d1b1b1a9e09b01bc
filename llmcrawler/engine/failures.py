"""Names what went wrong with a request: as the `kind` and message of a page's error, as the refusal of a request, and
as the feed item of a url that gave no content.
"""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from scrapy import exceptions
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.utils.response import response_status_message
from twisted.internet import error as network

from llmcrawler.core.content import is_binary, is_text
from llmcrawler.engine.request_context import attempts_of, response_context
from llmcrawler.errors import ProtocolFault
from llmcrawler.items import Page, PageError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from llmcrawler.core.frontier.protocol import Lease
    from llmcrawler.items import FeedItem


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
    # An error that Scrapy wraps holds its reasons as a list of Twisted failures.
    reasons = getattr(error.__cause__ if error is not None else None, "reasons", None)
    text = "; ".join(reason.getErrorMessage() for reason in reasons) if reasons else str(error)
    if isinstance(error, exceptions.ResponseDataLossError):
        text = text.partition("; ")[2]  # the first reason is that the connection closed, "cleanly"
    message = (text or _SILENT.get(type(error).__name__, type(error).__name__))[:_MAX_MESSAGE]
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


def response_fault(response: Response) -> tuple[str, str] | None:
    """Return the (kind, message) of a response that is no page, None for one that is."""
    if not 200 <= response.status < 300:
        put_backs = response_context(response).put_backs
        still = f", still after {put_backs} times that it was put back" if put_backs else ""
        return f"http_{response.status}", response_status_message(response.status) + still
    if not response.body or response.body.isspace():
        return "empty", "the answer has no content"
    # Scrapy chose the class by the header, and looked into the body only where that says nothing.
    content_type = (response.headers.get("Content-Type") or b"unknown").decode("latin-1")[:80]
    is_page = isinstance(response, HtmlResponse) or (isinstance(response, TextResponse) and is_text(content_type))
    if not is_page or is_binary(response.body):
        return "not_html", f"not a web page: {content_type}"
    return None


def error_page(
    lease: Lease, kind: str, message: str, response: Response | None = None, request: Request | None = None
) -> Page:
    """Return the item of a leased url that ended with an error of stage `fetch`."""
    tried = request or (response.request if response is not None else None)
    page = lease.task.page()
    page.status = response.status if response is not None else None
    page.error = PageError("fetch", kind, message, attempts_of(tried))
    return page


def unasked_line(crawler: Crawler, lease: Lease) -> FeedItem:
    """Return the line of a url that is not fetched: it is none, or it took down the crawl too often."""
    lost = f"the crawl was taken down {lease.attempts - 1} times while it was read"
    error = ("lost", lost) if lease.is_lost else ("url", lease.task.fault)
    return spider_line(crawler, lease, error_page(lease, *error))


def spider_line(crawler: Crawler, lease: Lease, page: Page) -> FeedItem:
    """Return the line of a page that `error_page` made, for a spider whose lines may be no pages."""
    line_of_fault = getattr(crawler.spider, "line_of_fault", None)
    line: FeedItem = page if line_of_fault is None else line_of_fault(lease, page)
    return line
