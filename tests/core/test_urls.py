import gzip
from datetime import date
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcrawler.urls.addresses import AddressGuard, is_private_address, is_private_host
from llmcrawler.urls.normalise import normalise
from llmcrawler.urls.pattern import url_pattern
from llmcrawler.urls.scope import Scope
from llmcrawler.urls.sitemaps import parse_sitemap
from llmcrawler.urls.traps import TrapGuard


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTP://Example.COM:80/A/b", "http://example.com/A/b"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:8443/", "https://example.com:8443/"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/a/..", "https://example.com/"),
        ("https://example.com/../../x", "https://example.com/x"),
        ("https://example.com/.hidden/x", "https://example.com/.hidden/x"),
        ("https://example.com/x#part", "https://example.com/x"),
        ("https://example.com/%7euser/%e4", "https://example.com/~user/%E4"),
        ("https://example.com/caf\u00e9?q=\u00fc b", None),
        ("https://example.com/caf\u00e9?q=\u00fc", "https://example.com/caf%C3%A9?q=%C3%BC"),
        ("https://example.com/100%", "https://example.com/100%25"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example/"),
        ("https://user:secret@example.com/x", "https://example.com/x"),
        ("https://example.com/x?utm_source=a&id=3&fbclid=9", "https://example.com/x?id=3"),
        ("https://example.com/x?utm_source=a", "https://example.com/x"),
        ("https://example.com/x?b=2&a=1", "https://example.com/x?b=2&a=1"),
        ("https://example.com/x;jsessionid=0A1B?y=1", "https://example.com/x?y=1"),
        ("https://example.com/x?PHPSESSID=abc", "https://example.com/x"),
        ("https://example.com/x?sid=0123456789abcdef0123", "https://example.com/x"),
        ("https://example.com/x?sid=7", "https://example.com/x?sid=7"),
        ("https://example.com/x?&&a=1&", "https://example.com/x?a=1"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("  https://example.com/x \n", "https://example.com/x"),
        ("mailto:a@example.com", None),
        ("javascript:void(0)", None),
        ("ftp://example.com/", None),
        ("https://", None),
        ("https:///x", None),
        ("https://exa mple.com/", None),
        ("https://example.com:port/", None),
        ("http://[::1/", None),
        ("/relative", None),
        ("https://example.com/" + "a" * 3000, None),
    ],
)
def test_normalise(url, normal):
    assert normalise(url) == normal


def test_normalise_joins_with_the_base():
    assert normalise("../b?x=1#y", "https://example.com/a/c/d") == "https://example.com/a/b?x=1"


@given(st.text(max_size=60))
def test_normalise_never_raises_and_is_stable(text):
    for url in (text, f"https://example.com/{text}", f"https://example.com/?{text}"):
        normal = normalise(url)
        assert normal is None or normalise(normal) == normal


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("https://x.example/", "/"),
        ("https://x.example/about", "/about"),
        ("https://x.example/catalogue/the-shellcoders-handbook_209/", "/catalogue/{slug}_{n}/"),
        ("https://x.example/catalogue/page-2.html", "/catalogue/{slug}-{n}.html"),
        ("https://x.example/blog/2024/05/how-we-moved-house", "/blog/{n}/{n}/{slug}"),
        ("https://x.example/blog/2024-05-01", "/blog/{date}"),
        ("https://x.example/u/123", "/u/{n}"),
        ("https://x.example/f/550e8400-e29b-41d4-a716-446655440000", "/f/{id}"),
        ("https://x.example/s?q=red&page=3", "/s?page={n}&q={v}"),
        ("https://x.example/s?page=3&q=blue", "/s?page={n}&q={v}"),
        ("https://x.example/index.php?id=77", "/index.php?id={n}"),
    ],
)
def test_url_pattern(url, pattern):
    assert url_pattern(url) == pattern


@pytest.mark.parametrize(
    ("url", "depth", "reason"),
    [
        ("https://example.com/a", 1, None),
        ("http://www.example.com/a", 1, None),
        ("https://other.example/a", 1, "offsite"),
        ("https://sub.example.com/a", 1, "offsite"),
        ("https://example.com:8443/a", 1, "offsite"),
        ("https://example.com/a", 4, "too deep"),
        ("https://example.com/photo.JPG", 1, "not a page"),
        ("https://example.com/paper.pdf?download=1", 1, "not a page"),
        ("https://example.com/v1.2", 1, None),
        ("https://example.com/page.html", 1, None),
        ("https://example.com/private/x", 1, "denied"),
        ("https://example.com/xyz", 1, "not allowed"),
    ],
)
def test_scope(url, depth, reason):
    scope = Scope(["https://example.com/"], allow=[r"\.com(:\d+)?/[a-w]"], deny=["/private/"], max_depth=3)
    assert scope.reason_to_refuse(url, depth) == reason


def test_a_host_that_a_start_url_led_to_belongs_to_the_crawl():
    scope = Scope(["https://example.com/"])
    scope.widen("https://example.org/home")
    assert scope.reason_to_refuse("https://www.example.org/x", 1) is None


TODAY = date(2026, 11, 21)


def admitted(urls) -> int:
    guard = TrapGuard(TODAY)
    return sum(guard.reason_to_refuse(url) is None for url in urls)


def test_ordinary_sites_are_never_cut():
    products = [f"https://x.example/shop/item-name-{n}_{n}/" for n in range(10_000)]
    by_id = [f"https://x.example/product.php?id={n}" for n in range(4_000)]
    posts = [
        f"https://x.example/{y}/{m:02}/a-post-number-{n}"
        for y in range(2010, 2026)
        for m in range(1, 13)
        for n in range(5)
    ]
    pages = [f"https://x.example/blog?page={n}" for n in range(1, 1000)]
    archive = [f"https://x.example/blog/page/{n}/" for n in range(1, 1000)]
    for urls in (products, by_id, posts, pages, archive):
        assert admitted(urls) == len(urls)


def facets():
    for colour, size, brand, price in product(range(18), repeat=4):
        yield f"https://x.example/shoes?colour={colour}&size={size}&brand={brand}&price={price}"


@pytest.mark.parametrize(
    ("urls", "most"),
    [
        ([f"https://x.example/calendar/{y}/{m:02}/" for y in range(2026, 2500) for m in range(1, 13)], 120),
        ([f"https://x.example/cal?month={m}&year={y}" for y in range(2026, 2500) for m in range(1, 13)], 120),
        ([f"https://x.example/events/?date=2{n:03}-01-01" for n in range(100, 999)], 0),
        (list(facets()), 100),
        ([f"https://x.example/list?sort={key}" for key in range(500)], 3),
        ([f"https://x.example/list?page={n}" for n in range(50_000)], 2_000),
        ([f"https://x.example/{'a/b/' * n}" for n in range(1, 500)], 3),
        ([f"https://x.example/{'/'.join(map(str, range(n)))}" for n in range(1, 500)], 20),
    ],
)
def test_traps_are_capped(urls, most):
    assert admitted(urls) <= most


def test_the_trap_guard_forgets_but_stays_small():
    guard = TrapGuard(TODAY)
    for n in range(50_000):
        guard.reason_to_refuse(f"https://x.example/{n}?page=1")
    assert len(guard._counts) <= 20_000


URLSET = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc> https://x.example/a?b=1&amp;c=2 </loc><lastmod>2024-01-02</lastmod></url>
<url><loc>https://x.example/b</loc></url></urlset>"""
RSS = b"<rss><channel><link>https://x.example/</link><item><link>https://x.example/post</link></item></channel></rss>"
ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="https://x.example/e"/><updated>2024</updated></entry></feed>'
BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>https://x.example/&b;</loc></url></urlset>'


@pytest.mark.parametrize(
    ("body", "urls"),
    [
        (URLSET, ["https://x.example/a?b=1&c=2", "https://x.example/b"]),
        (gzip.compress(URLSET), ["https://x.example/a?b=1&c=2", "https://x.example/b"]),
        (URLSET[:-40], ["https://x.example/a?b=1&c=2"]),
        (b"\xef\xbb\xbf" + URLSET, ["https://x.example/a?b=1&c=2", "https://x.example/b"]),
        (b"https://x.example/a\r\nhttps://x.example/b\nnonsense\n", ["https://x.example/a", "https://x.example/b"]),
        (ATOM, ["https://x.example/e"]),
        (b"", []),
        (b"<html><body>Not found</body></html>", []),
        (b"\x1f\x8bnot really gzip", []),
        (gzip.compress(URLSET)[:60], []),
    ],
)
def test_sitemaps_give_what_can_be_read(body, urls):
    found = [entry.url for entry in parse_sitemap(body).urls]
    assert found[: len(urls)] == urls
    assert len(found) <= len(urls) + 1


def test_a_feed_lists_its_items():
    assert "https://x.example/post" in [entry.url for entry in parse_sitemap(RSS).urls]


def test_an_index_lists_sitemaps_and_no_pages():
    index = b"<sitemapindex><sitemap><loc>https://x.example/s1.xml</loc></sitemap></sitemapindex>"
    assert parse_sitemap(index).sitemaps == ("https://x.example/s1.xml",)
    assert parse_sitemap(index).urls == ()


def test_entities_are_not_expanded():
    assert all("aaaa" not in entry.url for entry in parse_sitemap(BOMB).urls)


def test_a_large_sitemap_is_read_whole():
    body = (
        b"<urlset>"
        + b"".join(b"<url><loc>https://x.example/p/%d</loc></url>" % n for n in range(30_000))
        + b"</urlset>"
    )
    assert len(parse_sitemap(body).urls) == 30_000


@given(st.binary(max_size=300))
def test_parse_sitemap_never_raises(body):
    parse_sitemap(body)
    parse_sitemap(b"<urlset>" + body)


@pytest.mark.parametrize(
    "host",
    "localhost LOCALHOST. a.localhost printer.local db.internal 127.0.0.1 127.1 2130706433 0x7f.1 017700000001 "
    "10.2.3.4 192.168.0.1 169.254.169.254 0.0.0.0 [::1] [fe80::1] [fc00::1] [::ffff:127.0.0.1] 100.64.0.1".split(),
)
def test_private_hosts(host):
    assert is_private_host(host)
    assert AddressGuard(["example.com"]).reason_to_refuse(host)


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "localhost.example.com", "[2606:4700::1111]", "1.2.3.4.example.com"]
)
def test_public_hosts(host):
    assert not is_private_host(host)


def test_a_name_that_resolves_to_a_private_address_is_refused_unless_it_was_given():
    assert AddressGuard(["example.com"]).reason_to_refuse_address("10.0.0.7", "rebind.example")
    assert AddressGuard(["shop.test"]).reason_to_refuse_address("10.0.0.7", "shop.test") is None
    assert is_private_address("fe80::1%eth0")


def test_a_private_start_host_opens_only_itself():
    guard = AddressGuard(["127.0.0.1"])
    assert guard.reason_to_refuse("127.0.0.1") is None
    assert guard.reason_to_refuse("127.0.0.2")
