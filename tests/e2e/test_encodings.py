"""What a page says of its encoding can neither hold up a crawl nor break it, nor does it hide the page."""

from __future__ import annotations

import gzip
from collections import Counter
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.crawling import Outcome, explore
from tests.servers.mock_site import MockSite

WORDS = "<p>The kettle boils a litre of water in two minutes, and is silent while it does so.</p>" * 8
# Punycode takes quadratic time for it: many minutes.
LONG = WORDS + "<p hidden>-" + "a0" * 600_000 + "</p>"
CODECS = ("punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7", "rot13", "x" * 4000)


def page(title: str, head: str = "", content: str = WORDS) -> str:
    return (
        f"<!doctype html><html><head>{head}<title>{title}</title></head><body><h1>{title}</h1>{content}</body></html>"
    )


async def answer(
    _request: web.Request, *, body: bytes, content_type: str = "text/html", packed: bool = False
) -> web.Response:
    response = web.Response(body=gzip.compress(body) if packed else body)
    response.headers["Content-Type"] = content_type
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    return response


def odd_pages() -> dict[str, partial[Any]]:
    long = page("Käse", content=LONG).encode()
    pages = {}
    for number, codec in enumerate(CODECS):
        declared = page("Käse", f"<meta charset={codec}>", LONG).encode()
        pages[f"/codec/{number}/header"] = partial(answer, body=long, content_type=f"text/html; charset={codec}")
        pages[f"/codec/{number}/meta"] = partial(answer, body=declared)
        pages[f"/codec/{number}/both"] = partial(
            answer, body=declared, content_type=f"text/html; charset={codec}", packed=True
        )
    plain, bad = page("Käse"), page("Käse", '<meta http-equiv="refresh" content="0; url=http://[bad">')
    refresh = page("Käse", '<meta http-equiv="refresh" content="1; url=/about/?moved=1">')
    return pages | {
        "/utf-16/marked": partial(answer, body=plain.encode("utf-16")),
        "/utf-16/little": partial(answer, body=plain.encode("utf-16-le")),
        "/utf-16/big": partial(answer, body=plain.encode("utf-16-be"), content_type="text/html; charset=utf-8"),
        "/utf-16/no-type": partial(answer, body=plain.encode("utf-16"), content_type=""),
        "/utf-16/no-type-nor-mark": partial(answer, body=plain.encode("utf-16-be"), content_type=""),
        "/zero/in-text": partial(answer, body=plain.replace("silent", "si\x00lent").encode()),
        "/zero/before-markup": partial(answer, body=b"\x00\x00\x00" + plain.encode()),
        "/header/quoted": partial(answer, body=plain.encode("latin-1"), content_type="text/html; charset='latin1'"),
        "/header/not-ascii": partial(answer, body=plain.encode(), content_type="text/html; charset=\u00fctf-8"),
        "/refresh/nowhere": partial(answer, body=bad.encode(), content_type="text/html; charset=punycode"),
        "/refresh/utf-16": partial(answer, body=refresh.encode("utf-16")),
    }


BINARY = {
    "/binary/picture": partial(answer, body=b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8),
    "/binary/paper": partial(answer, body=b"%PDF-1.7\n" + b"1 0 obj <</Type /Catalog>> endobj\n" * 90),
    "/binary/archive": partial(answer, body=b"PK\x03\x04" + bytes(range(256)) * 8),
    "/binary/unknown": partial(answer, body=bytes(range(256)) * 8),
}


async def sitemap(request: web.Request) -> web.Response:
    address = f"{request.scheme}://{request.host}/listed/"
    body = f'<?xml version="1.0" encoding="punycode"?><urlset><url><loc>{address}</loc></url>{LONG}</urlset>'
    return web.Response(body=body.encode(), content_type="application/xml")


async def robots(request: web.Request) -> web.Response:
    return web.Response(text=f"User-agent: *\nSitemap: {request.scheme}://{request.host}/sitemap.xml")


@pytest.fixture(scope="module")
def site():
    pages = odd_pages()
    links = "".join(f"<a href={path}>{path}</a> " for path in [*pages, *BINARY])
    routes: dict[str, Any] = {
        **pages,
        **BINARY,
        "/start/": page("Start", content=WORDS + links),
        "/listed/": page("Listed"),
    }
    with MockSite(routes | {"/robots.txt": robots, "/sitemap.xml": sitemap}).in_thread() as site:
        yield site


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("encodings")


@pytest.fixture(scope="module")
def outcome(site, folder):
    return explore(folder, site.url("/start/"), {"JOBDIR": folder / "job"}, depth=1, duplicates="keep")


def check_lines(outcome: Outcome) -> None:
    assert outcome.exit_status == 0, outcome.log
    assert "rror of our own" not in outcome.log
    assert Counter(page["url"] for page in outcome.pages).most_common(1)[0][1] == 1
    for path in odd_pages():
        line = outcome.page(path)
        assert line["error"] is None, line
        if path != "/refresh/utf-16":
            assert line["title"] == "Käse", path
            assert "kettle" in line["text"], path
    assert {path: outcome.page(path)["error"]["kind"] for path in BINARY} == dict.fromkeys(BINARY, "not_html")


def test_every_page_is_read_whatever_it_says_of_its_encoding(outcome):
    check_lines(outcome)


def test_a_sitemap_that_names_any_codec_is_read(outcome):
    assert outcome.page("/listed/")["error"] is None


def test_a_meta_refresh_is_followed_in_utf_16_too(outcome):
    assert outcome.page("/refresh/utf-16")["final_url"].endswith("/about/?moved=1")


@pytest.mark.nightly
def test_stored_pages_are_read_in_the_same_way(site, folder, outcome):
    requests = site.stats()["requests"]
    job = {"JOBDIR": folder / "job"}
    again = explore(folder, site.url("/start/"), job, depth=1, duplicates="keep", force="content")
    check_lines(again)
    assert site.stats()["requests"] == requests
    assert {page["url"] for page in again.pages} == {page["url"] for page in outcome.pages}
