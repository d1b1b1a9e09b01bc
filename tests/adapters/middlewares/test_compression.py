import asyncio
import gzip
import threading
import zlib

import brotli
import pytest
from scrapy import Request
from scrapy.downloadermiddlewares import httpcompression
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from llmcrawler.engine.failures import RequestRefused
from llmcrawler.middlewares.bodies import CompressionMiddleware
from tests.adapters.crawlers import crawler_of

URL = "http://shop.example/"
PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}


@pytest.fixture
def unpacked_here(monkeypatch):
    """How many bytes each body took that was unpacked on the event loop, and whether it was given up."""
    found = []
    handle = httpcompression.HttpCompressionMiddleware._decode

    def noted(body, encoding, max_size):
        if threading.current_thread() is threading.main_thread():
            found.append(max_size)
        return handle(body, encoding, max_size)

    monkeypatch.setattr(httpcompression.HttpCompressionMiddleware, "_decode", staticmethod(noted))
    return found


def unpacked(body, coding, **settings):
    middleware = CompressionMiddleware.from_crawler(crawler_of(URL, **settings))
    response = Response(URL, body=body, headers={"Content-Encoding": coding})
    return asyncio.run(middleware.process_response(Request(URL), response))


@pytest.mark.parametrize("coding", PACKERS)
def test_a_small_body_that_unpacks_to_megabytes_does_so_in_a_thread(coding, unpacked_here):
    body = b"<p>" + b"\0" * 5_000_000
    packed = PACKERS[coding](body)
    assert len(packed) < 10_000
    response = unpacked(packed, coding)
    assert response.body == body
    assert "Content-Encoding" not in response.headers
    assert unpacked_here == [512 * 1024]  # the loop has left it there


def test_an_ordinary_page_is_unpacked_at_once(unpacked_here, monkeypatch):
    monkeypatch.setattr(asyncio, "to_thread", None)
    body = b"<p>Some text</p>" * 10_000
    assert unpacked(gzip.compress(body), "gzip").body == body
    assert len(unpacked_here) == 1


def test_many_packed_bytes_are_unpacked_in_a_thread(unpacked_here):
    assert unpacked(gzip.compress(b"") * 3000, "gzip").body == b""
    assert unpacked_here == []


@pytest.mark.parametrize("coding", PACKERS)
def test_a_body_that_is_larger_than_others_is_whole(coding, unpacked_here):
    body = b"<p>Some text</p>" * 200_000
    assert unpacked(PACKERS[coding](body), coding).body == body


def test_the_limit_is_that_of_the_crawl():
    packed = gzip.compress(b"\0" * 100_000)
    assert len(unpacked(packed, "gzip", DOWNLOAD_MAXSIZE=100_000).body) == 100_000
    with pytest.raises(IgnoreRequest, match="DOWNLOAD_MAXSIZE"):
        unpacked(packed, "gzip", DOWNLOAD_MAXSIZE=99_999)
    with pytest.raises(IgnoreRequest, match="DOWNLOAD_MAXSIZE"):
        unpacked(gzip.compress(b"\0" * 5_000_000), "gzip", DOWNLOAD_MAXSIZE=1_000_000)


@pytest.mark.parametrize("coding", [", ".join(["gzip"] * 6), ["gzip"] * 6])
def test_a_body_is_not_unpacked_as_often_as_the_other_side_likes(coding):
    with pytest.raises(RequestRefused) as refusal:
        unpacked(gzip.compress(b"text"), coding)
    assert refusal.value.kind == "body"
