"""The official model hub as a source: HTTP with ranges, so that a partial file goes on where it was."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from llmcrawler.llm.embedded.download import CHUNK_BYTES, Download, SourceFailedError

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Hub:
    """Gives up after 5 s without a connection: the next source is waiting."""

    connect_seconds: float = CONNECT_SECONDS
    name: str = "the model hub"

    def fetch(self, download: Download) -> None:
        offset, size_bytes = download.bytes_done(), download.weights.size_bytes
        headers = {"Range": f"bytes={offset}-", "User-Agent": "llmcrawler"}
        request = urllib.request.Request(download.weights.hub_url, headers=headers)  # noqa: S310 - our own constant
        opener = urllib.request.build_opener(_QuickHTTP, _QuickHTTPS)
        try:
            with opener.open(request, timeout=self.connect_seconds) as response:
                # Without this check the page of a captive portal would be appended to good bytes.
                if not _continues(response, offset, size_bytes):
                    raise SourceFailedError(f"answered {response.status}, but not with the rest of the file")
                _append(response, download)
        except urllib.error.HTTPError as error:
            raise SourceFailedError(f"answered {error.code}") from error
        except (OSError, http.client.HTTPException) as error:
            raise SourceFailedError(str(getattr(error, "reason", error)) or type(error).__name__) from error
        if download.bytes_done() != size_bytes:
            raise SourceFailedError(f"the connection ended after {download.bytes_done()} of {size_bytes} bytes")


def _continues(response: Any, offset: int, size_bytes: int) -> bool:
    if response.status == 206:
        return bool(response.headers.get("Content-Range") == f"bytes {offset}-{size_bytes - 1}/{size_bytes}")
    return offset == 0 and bool(response.headers.get("Content-Length") == str(size_bytes))


def _append(response: Any, download: Download) -> None:
    with download.partial.open("ab") as target:
        while chunk := response.read(CHUNK_BYTES):
            target.write(chunk)
            target.flush()
            download.report()
            download.stop_if_cancelled()
            if download.bytes_done() > download.weights.size_bytes:
                target.truncate(0)  # not the file that it was taken for
                raise SourceFailedError("sends more than the file has")


class _PatientOnceConnected:
    """A short limit to connect, a longer one between two chunks: urllib has one limit for both."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # a mixin before http.client's connections
        self.sock.settimeout(SILENCE_SECONDS)


class _PlainConnection(_PatientOnceConnected, http.client.HTTPConnection):
    pass


class _TLSConnection(_PatientOnceConnected, http.client.HTTPSConnection):
    pass


class _QuickHTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PlainConnection, req)


class _QuickHTTPS(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TLSConnection, req)
