from __future__ import annotations

import gzip
import pickle
import subprocess
import sys

import pytest

from llmcrawler.core.urls import Listed, Sitemap, in_turns, parse_packed_sitemap, parse_sitemap
from llmcrawler.core.urls.sitemaps import MAX_BODY_BYTES

URLSET = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    b' xmlns:xhtml="http://www.w3.org/1999/xhtml">'
    b'<url><xhtml:link rel="alternate" hreflang="de" href="http://h.example/de"/>'
    b"<loc> http://h.example/a?x=1&amp;y=2 </loc><lastmod>2024-05-01</lastmod></url>"
    b"<url><loc><![CDATA[http://h.example/b]]></loc></url><!-- c --><url></url></urlset>"
)
URLS = (Listed("http://h.example/a?x=1&y=2", "2024-05-01"), Listed("http://h.example/b"), Listed("http://h.example/de"))


def urls_of(body: bytes) -> list[str]:
    return [listed.url for listed in parse_sitemap(body).urls]


@pytest.mark.parametrize(
    "body",
    [
        URLSET,
        b"\n \n" + URLSET,
        b"\xef\xbb\xbf" + URLSET,
        gzip.compress(URLSET),
        gzip.compress(gzip.compress(URLSET)),
        URLSET.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
        URLSET.replace(b' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"', b""),
        URLSET.replace(b"</urlset>", b""),
        URLSET.replace(b"x=1&amp;y", b"x=1&amp;y") + b"<garbage",
    ],
    ids=["plain", "blank lines", "bom", "gzip", "gzip twice", "utf-16", "no namespace", "not closed", "garbage behind"],
)
def test_a_urlset_is_read_however_it_comes(body):
    assert parse_sitemap(body).urls == URLS


def test_an_index_names_more_sitemaps_also_as_urls():
    body = b"<sitemapindex><sitemap><loc>http://h.example/1.xml</loc><lastmod>x</lastmod></sitemap></sitemapindex>"
    assert parse_sitemap(body) == Sitemap(sitemaps=("http://h.example/1.xml",))
    body = b"<urlset><url><loc>http://h.example/sitemap-2.xml.gz</loc></url></urlset>"
    assert parse_sitemap(body).sitemaps == ("http://h.example/sitemap-2.xml.gz",)


def test_feeds_are_lists_of_pages():
    rss = (
        b"<rss><channel><link>http://h.example/</link><item><title>T</title><link>http://h.example/1</link>"
        b"<pubDate>Mon, 06 May 2024 10:00:00 GMT</pubDate></item></channel></rss>"
    )
    atom = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link rel="edit" href="http://h.example/edit"/>'
        b'<link href="http://h.example/1"/><updated>2024-05-06</updated></entry></feed>'
    )
    assert parse_sitemap(rss) == Sitemap(
        (Listed("http://h.example/1", "2024-05-06T10:00:00+00:00", "T"),), is_feed=True
    )
    assert parse_sitemap(atom) == Sitemap((Listed("http://h.example/1", "2024-05-06"),), is_feed=True)


def test_plain_text_is_one_url_a_line():
    body = b"http://h.example/a\r\n\r\nno url\nsee http://h.example/no\n http://h.example/b"
    assert urls_of(body) == ["http://h.example/a", "http://h.example/b"]


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset><url><loc>http://h.example/?a&b=2</loc></url><url><loc>http://h.example/?a=1&amp;b=3</loc></url></urlset>",
        (
            b'<?xml version="1.0" encoding="no-such"?><urlset><url><loc>http://h.example/?a&amp;b=2</loc></url>'
            b"<url><loc>http://h.example/?a=1&amp;b=3</loc></url></urlset>"
        ),
        (
            b"Warning: <br>\n<?xml version='1.0'?><urlset><url><loc>http://h.example/?a&amp;b=2</loc></url>"
            b"<url><loc>http://h.example/?a=1&amp;b=3</loc></url><url><loc>http://h.exa"
        ),
    ],
    ids=["bare ampersand", "unknown encoding", "a warning before it, and cut"],
)
def test_malformed_xml_still_gives_its_urls_as_they_are(body):
    assert sorted(urls_of(body)) == ["http://h.example/?a&b=2", "http://h.example/?a=1&b=3"]


def test_bytes_that_are_not_of_the_encoding_are_read_as_most_such_files_mean_them():
    body = b"<urlset><url><loc>http://h.example/\xe4</loc></url><url><loc>http://h.example/b</loc></url></urlset>"
    assert urls_of(body) == ["http://h.example/\xe4", "http://h.example/b"]


def test_a_cut_gzip_gives_what_came():
    body = gzip.compress("\n".join(f"http://h.example/{n * 7919 % 10007}" for n in range(5000)).encode())
    assert 100 < len(parse_sitemap(body[: len(body) // 2]).urls) < 5000


@pytest.mark.slow
def test_bombs_stay_small():
    entities = b"".join(b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 10))
    bomb = (
        b'<!DOCTYPE x [<!ENTITY e0 "http://h.example/">' + entities + b"]><urlset><url><loc>&e9;</loc></url></urlset>"
    )
    assert all(len(url) < 100 for url in urls_of(bomb))
    found = parse_sitemap(gzip.compress(b" " * (MAX_BODY_BYTES + 1000)))
    assert found.urls == ()
    assert "larger than 50 MB" in found.fault


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (URLSET, ""),
        (b"\x1f\x8b" + b"junk" * 9, "gzip stream is damaged"),
        (gzip.compress(URLSET)[:-20], "gzip stream is cut short"),
        (b"<html lang='en'><p>Not found", "web page"),
        (b"<?xml version='1.0'?>\n<!-- x --><!DOCTYPE html PUBLIC '-//W3C'><html>", "web page"),
        (URLSET.replace(b"&amp;", b"&"), "malformed"),
        (b"<urlset></urlset>", "no URLs"),
        (b"\x89PNG\r\n", "no URLs"),
    ],
)
def test_what_is_wrong_is_said(body, fault):
    found = parse_sitemap(body).fault
    assert fault in found
    assert bool(fault) == bool(found)


def test_news_have_titles():
    body = (
        b'<urlset xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"><url><loc>http://h.example/n</loc>'
        b"<news:news><news:title> A \n title</news:title></news:news></url></urlset>"
    )
    assert next(iter(parse_sitemap(body).urls)).title == "A title"


def test_external_entities_are_not_read(tmp_path):
    (tmp_path / "secret").write_text("http://h.example/secret")
    doctype = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]>'
    assert parse_sitemap(f"{doctype}<urlset><url><loc>&e;</loc></url></urlset>".encode()).urls == ()


@pytest.mark.parametrize("body", [b"", b"<", b"<html><a href='http://h.example/'>x</a>", b"\x1f\x8b", b"\x00\xff\xfe"])
def test_what_is_no_list_is_empty(body):
    found = parse_sitemap(body)
    assert (found.urls, found.sitemaps) == ((), ())
    assert found.fault


def test_a_large_sitemap_is_read_whole():
    entries = b"".join(b"<url><loc>http://h.example/%d</loc></url>" % n for n in range(30_000))
    assert len(parse_sitemap(b"<urlset>" + entries + b"</urlset>").urls) == 30_000


ONE = "<urlset><url><loc>http://site.example/käse</loc></url></urlset>"


@pytest.mark.parametrize(
    "body",
    [
        ONE.encode("utf-16-le"),
        ONE.encode("utf-16-be"),
        b"\xef\xbb\xbf" + ONE.encode(),
        *(f'<?xml version="1.0" encoding="{name}"?>{ONE}'.encode() for name in ("punycode", "utf-7", "idna", "rot13")),
        *(f'<?xml version="1.0" encoding="{name}"?>{ONE}'.encode() for name in ("utf-16", "ucs-4", "ascii")),
        f'PHP Warning\n<?xml version="1.0" encoding="latin1"?>{ONE}'.encode("latin-1"),
        f"<?xml version='1.0' encoding='cp437'?>{ONE}".encode("latin-1"),
    ],
)
def test_a_sitemap_is_read_whatever_it_says_of_its_encoding(body: bytes) -> None:
    assert [one.url for one in parse_sitemap(body).urls] == ["http://site.example/käse"]


_HOSTILE = r"""
from llmcrawler.core.urls import parse_llms_txt, parse_sitemap
for text in (b"<loc>" + b" " * 2**20, b"<loc " * 200_000, b"<loc>aaaa" * 120_000, b"<loc>a]]>" + b" " * 2**20,
             b"<loc><![CDATA[" * 80_000, b"<a/>" * 250_000, b"<url>" + b"<x/>" * 250_000, b"<" * 2**20,
             b"<a>" * 300_000,
             b"<a " + b"a='' " * 200_000, b"<url><loc>" + b"&amp;" * 200_000, b"<" + b"a-" * 500_000, b"<a:" * 300_000):
    for declared in (b"", b"<?xml version='1.0' encoding='punycode'?>"):
        parse_sitemap(declared + b"<urlset>" + text)
parse_sitemap(b"http://a/" + b"\n" * 2**20)
for text in (b"[", b"[a](x", b"[a](http://x ", b"[a](x(", b"http://", b"\xff", b"[a](" + b" " * 2**20):
    parse_llms_txt(text * (2**20 // len(text)))
"""


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
def test_lists_of_any_text_are_read_in_linear_time() -> None:
    """All take some seconds together; most of them took minutes, in which nothing else in the process ran."""
    subprocess.run([sys.executable, "-c", _HOSTILE], check=True, timeout=120)


@pytest.mark.slow
def test_what_would_fill_the_memory_is_left_out() -> None:
    assert "unclosed tag" in parse_sitemap(b"<urlset><a " + b"a='' " * 40_000 + b"/></urlset>").fault
    assert "too much besides entries" in parse_sitemap(b"<urlset>" + b"<x/>" * 200_000 + b"</urlset>").fault


def test_what_another_process_reads_is_packed_and_says_the_same():
    rows = "".join(
        f"<url><loc>https://x.example/{n}/é</loc><lastmod>2026-01-{n % 28 + 1}</lastmod></url>" for n in range(1_003)
    )
    body = f"<urlset>{rows}<url><loc>/sitemap-2.xml</loc></url></urlset>".encode()
    plain, packed = parse_sitemap(body), pickle.loads(pickle.dumps(parse_packed_sitemap(body)))
    assert list(packed.urls) == list(plain.urls)
    assert list(packed.urls) == list(packed.urls)  # it can be gone through again
    assert (len(packed.urls), packed.sitemaps, packed.fault) == (len(plain.urls), plain.sitemaps, plain.fault)
    assert list(plain.urls)[7] in packed.urls
    assert not parse_packed_sitemap(b"").urls


@pytest.mark.parametrize(
    ("lengths", "turns"),
    [([], []), ([60] * 150, [150]), ([20] * 450, [200, 200, 50]), ([2000] * 13, [6, 6, 1]), ([100_000, 10], [1, 1])],
)
def test_links_come_in_turns_of_bounded_work(lengths, turns):
    links = ["x" * length for length in lengths]
    parts = list(in_turns(links, len))
    assert [len(part) for part in parts] == turns
    assert [link for part in parts for link in part] == links
