"""Base classes of Scrapy's components, with public names for what is overridden or read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.cookiejar import Cookie
from typing import IO, TYPE_CHECKING, Any, Final

from scrapy import Request, Spider
from scrapy.commands import BaseRunSpiderCommand
from scrapy.core.downloader import Downloader, Slot
from scrapy.core.downloader.handlers import DownloadHandlerProtocol, DownloadHandlers
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.feedexport import FeedExporter, FeedSlot
from scrapy.http import Response, TextResponse
from scrapy.http.cookies import CookieJar
from scrapy.utils._compression import _DecompressionMaxSizeExceeded
from scrapy.utils.misc import build_from_crawler

# Keys of a request's meta that HttpProxyMiddleware sets for a proxy from the environment.
ENVIRONMENT_PROXY_SCHEME: Final = "_scheme_proxy"
ENVIRONMENT_PROXY_KEYS: Final = (ENVIRONMENT_PROXY_SCHEME, "_auth_proxy")
PARSE_DEPTH: Final = "_depth"  # of `scrapy parse`: how many rounds of callbacks a request has been through

if TYPE_CHECKING:
    _RedirectBase = BaseRedirectMiddleware
else:
    _RedirectBase = object


def create_crawler(command: BaseRunSpiderCommand, name: str) -> Crawler:
    """Make the crawler that a command runs for the spider of this name."""
    return command._create_crawler(name)


class DownloaderBase(Downloader):
    """Lets a subclass choose the class of slots and stand around each download."""

    def make_slot(self, key: str, slot: Slot) -> Slot:  # noqa: ARG002 (overridden)
        """Return the slot to use in the place of the new one that Scrapy made."""
        return slot

    def slot_made(self, key: str, slot: Slot) -> None:
        """Do what has to be done when `slots` has a new slot."""

    async def download(self, slot: Slot, request: Request) -> Response:
        """Download a request that has left its slot's queue."""
        return await super()._download(slot, request)

    def start_waiting(self, slot: Slot) -> None:
        """Start as many of a slot's waiting requests as may start now."""
        self._process_queue(slot)

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, Slot]:  # noqa: ARG002 (Scrapy's)
        is_new = self.get_slot_key(request) not in self.slots
        key, slot = super()._get_slot(request)
        if is_new:
            slot = self.slots[key] = self.make_slot(key, slot)
            self.slot_made(key, slot)
        return key, slot

    async def _download(self, slot: Slot, request: Request) -> Response:
        return await self.download(slot, request)


class DownloadHandlersBase(DownloadHandlers):
    """Lets a subclass have handlers that no scheme leads to; they are closed with the others."""

    def has_handler(self, name: str) -> bool:
        return name in self._handlers

    def extra_handler(self, name: str, load: Callable[[], type]) -> DownloadHandlerProtocol:
        """Return the handler of this name; the first time it is made of the class that `load` returns."""
        if name not in self._handlers:
            self._handlers[name] = build_from_crawler(load(), self._crawler)
        return self._handlers[name]


class FeedExporterBase(FeedExporter):
    """Lets a subclass decide how a feed is stored."""

    async def close_slot(self, slot: FeedSlot) -> None:
        """Store a feed, or a batch of it, whose last item has come."""
        raise NotImplementedError

    @staticmethod
    def file_of(slot: FeedSlot) -> IO[bytes]:
        """Return the file that a feed was written to; what post-processes it is closed by this."""
        return FeedExporter._get_file(slot)

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:  # noqa: ARG002 (Scrapy's)
        await self.close_slot(slot)


class RedirectHooks(_RedirectBase):
    """Mixin for Scrapy's middlewares for redirects, with public names for what is overridden; it stands before them."""

    def redirect_target(self, url: str) -> str:
        """Return the url to ask for. Raise ValueError to leave the response as it is."""
        return url

    def too_many_redirects(self, redirected: Request, error: IgnoreRequest) -> IgnoreRequest:  # noqa: ARG002 (overridden)
        """Return the error to raise for a request that was redirected too often."""
        return error

    def _build_redirect_request(
        self, source_request: Request, response: Response, *, url: str, **kwargs: Any
    ) -> Request:
        return super()._build_redirect_request(source_request, response, url=self.redirect_target(url), **kwargs)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        try:
            return super()._redirect(redirected, request, reason)
        except IgnoreRequest as error:
            raise self.too_many_redirects(redirected, error) from None


class CookiesBase(scrapy_cookies.CookiesMiddleware):
    """Lets a subclass refuse cookies."""

    def accepts(self, cookie: Cookie, kept: dict[str, dict[str, dict[str, Cookie]]]) -> bool:  # noqa: ARG002 (overridden)
        """Return whether a cookie may go into the jar; `kept` has what is there, by domain, path and name."""
        return True

    def _process_cookies(self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request) -> None:
        for cookie in cookies:
            if self.accepts(cookie, jar._cookies):
                super()._process_cookies((cookie,), jar=jar, request=request)


def use_public_suffixes(split_domain: Callable[[str], Any]) -> None:
    """Let Scrapy tell public suffixes by this function, which takes a host and returns tldextract's result."""
    scrapy_cookies._split_domain = split_domain  # type: ignore[assignment]


class UnpacksTooLarge(Exception):
    """Raised when a body has more bytes than it may have when it is unpacked."""


class BoundedUnpacking(HttpCompressionMiddleware):
    """Raises UnpacksTooLarge for a body of more than `most_bytes` when it is unpacked. What exceeds DOWNLOAD_MAXSIZE is
    refused as Scrapy refuses it.
    """

    def __init__(self, *, crawler: Crawler, most_bytes: int) -> None:
        super().__init__(crawler=crawler)
        self._most_bytes = most_bytes

    def _handle_encoding(self, body: bytes, content_encoding: list[bytes], max_size: int) -> tuple[bytes, list[bytes]]:
        if 0 < max_size <= self._most_bytes:
            return super()._handle_encoding(body, content_encoding, max_size)
        try:
            return super()._handle_encoding(body, content_encoding, self._most_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise UnpacksTooLarge from error


class TextBase(TextResponse):
    """A response whose text is decoded by `decode_text`, once."""

    __slots__ = ()

    def decode_text(self) -> str:
        raise NotImplementedError

    @property
    def text(self) -> str:
        if self._cached_ubody is None:
            self._cached_ubody = self.decode_text()
        return self._cached_ubody

    @property
    def has_decoded_text(self) -> bool:
        return self._cached_ubody is not None
