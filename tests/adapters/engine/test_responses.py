"""What becomes of a response before anybody looks into its body."""

from __future__ import annotations

import tracemalloc

import pytest
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

from llmcrawler.engine.responses import DecodedHtml, DecodedXml, decoded, may_refresh, page_text

MB = 2**20
URL = "http://site.example/"


@pytest.mark.parametrize(
    ("response", "kind", "encoding"),
    [
        (HtmlResponse(URL, body="<p>käse".encode(), flags=["a"]), DecodedHtml, "utf-8"),
        (XmlResponse(URL, body="<a>käse</a>".encode("latin-1"), flags=["a"]), DecodedXml, "cp1252"),
        (Response(URL, body=b"<html><p>a page", flags=["a"]), DecodedHtml, "utf-8"),
        (TextResponse(URL, body=b"<html><p>a page", flags=["a"], status=404), DecodedHtml, "utf-8"),
    ],
)
def test_a_response_keeps_all_but_its_encoding(response: Response, kind: type[Response], encoding: str) -> None:
    found = decoded(response)
    assert isinstance(found, TextResponse)
    assert type(found) is kind
    assert found.encoding == encoding
    assert (found.url, found.status, found.flags) == (URL, response.status, ["a"])
    assert found.body is response.body


def test_no_body_is_decoded_to_choose_an_encoding() -> None:
    response = XmlResponse(URL, body=b"<urlset>" + b"<loc>/x</loc>" * MB)
    tracemalloc.start()
    try:
        decoded(response)
        assert tracemalloc.get_traced_memory()[1] < 4 * MB
    finally:
        tracemalloc.stop()


def test_a_short_text_is_kept_and_a_long_one_is_not() -> None:
    short, long = (decoded(HtmlResponse(URL, body=b"<p>" + b"word " * count)) for count in (1000, MB))
    assert page_text(short) is page_text(short)
    assert page_text(long) is not page_text(long)
    assert page_text(long) == page_text(long)


REFRESH = '<meta HTTP-EQUIV="Refresh" content="0; url=/there">'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (REFRESH.encode(), True),
        (REFRESH.encode("utf-16"), True),
        (REFRESH.replace("Refresh", "&#82;efresh").encode(), True),
        (REFRESH.replace("Refresh", "&#82;&#101;&#102;&#114;&#101;&#115;&#104;").encode(), True),
        (b'<meta http-equiv="Content-Type" content="text/html">', False),
        (b"<p>refresh</p>", False),
        (b" " * 20_000 + REFRESH.encode(), False),
    ],
)
def test_only_a_page_that_may_lead_on_is_looked_through(body, expected):
    assert may_refresh(HtmlResponse("http://x.test/", body=body)) is expected
