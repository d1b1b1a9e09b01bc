from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request

from llmcrawler.core.urls import MAX_URL_LENGTH, dedup_key, normalise, normalise_with_route, route_of, routed_path


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Example.COM:80", "http://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:443/a", "http://example.com:443/a"),
        ("http://example.com:08080/a", "http://example.com:8080/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://user:pass@example.com/", "http://example.com/"),
        ("  http://example.com/a b\n", "http://example.com/a%20b"),
        ("http://exam\nple.com/a\tb", "http://example.com/ab"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/../../a/..", "http://example.com/"),
        ("http://example.com/a/%2e%2E/b", "http://example.com/b"),
        ("http://example.com//a//b", "http://example.com//a//b"),
        ("http://example.com/%7euser/%2f%c3%a4", "http://example.com/~user/%2F%C3%A4"),
        ("http://example.com/100%/%zz", "http://example.com/100%25/%25zz"),
        ("http://example.com/ä?q=ü|'", "http://example.com/%C3%A4?q=%C3%BC%7C%27"),
        ("http://example.com/a#top", "http://example.com/a"),
        ("http://example.com/#!/app", "http://example.com/"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com?a=1", "http://example.com/?a=1"),
        ("http://example.com/?b=1&&a=2&", "http://example.com/?b=1&a=2"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::0001]:80/", "http://[::1]/"),
        ("http://under_score.example.com/", "http://under_score.example.com/"),
    ],
)
def test_spellings_of_one_url_become_one(url, expected):
    assert normalise(url) == expected


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("utm_source=x&id=1&utm_medium=y", "?id=1"),
        ("UTM_Source=x", ""),
        ("gclid=a&fbclid=b&msclkid=c&mc_cid=d", ""),
        ("id=1&PHPSESSID=0a1b", "?id=1"),
        ("jsessionid=abc", ""),
        ("sid=0123456789abcdef0123456789abcdef", ""),
        ("sid=12", "?sid=12"),
        ("s=red+shoes", "?s=red+shoes"),
        ("s=iphone-15-pro-max-256-gb-black", "?s=iphone-15-pro-max-256-gb-black"),
        ("session=morning", "?session=morning"),
        ("source=utm_source", "?source=utm_source"),
        ("ref=home&token=abc", "?ref=home&token=abc"),
    ],
)
def test_tracking_and_session_parameters_are_dropped(query, kept):
    assert normalise(f"http://example.com/a?{query}") == f"http://example.com/a{kept}"


@pytest.mark.parametrize("path", ["/a;jsessionid=0A1B.node1", "/(S(abcdefghijklmnopqrstuvwx))/a"])
def test_sessions_in_the_path_are_dropped(path):
    assert normalise(f"http://example.com{path}?x=1") == "http://example.com/a?x=1"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative",
        "mailto:a@example.com",
        "javascript:void(0)",
        "ftp://example.com/",
        "data:text/html,x",
        "http://",
        "http:///",
        "http://exa mple.com/",
        "http://example..com/",
        "http://-.com/",
        "http://example.com:99999/",
        "http://example.com:0/",
        "http://example.com:abc/",
        "http://[::1/",
        "http://256.256.256.256/",
        "http://example.com/\x00",
        "http://example.com/\ud800",
        "http://" + "a" * 64 + ".com/",
        "http://example.com/" + "a" * MAX_URL_LENGTH,
        "http://example.com/" + "a" * 1_000_000,
    ],
)
def test_what_is_no_http_url_has_no_form(url):
    assert normalise(url) is None


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("c", "http://h.example/a/c"),
        ("./c", "http://h.example/a/c"),
        ("../c", "http://h.example/c"),
        ("../../../c", "http://h.example/c"),
        ("/c", "http://h.example/c"),
        ("\\c", "http://h.example/c"),
        ("//other.example/c", "http://other.example/c"),
        ("?y=2", "http://h.example/a/b?y=2"),
        ("", "http://h.example/a/b?x=1"),
        ("#f", "http://h.example/a/b?x=1"),
        ("HTTPS://other.example", "https://other.example/"),
        ("c:d", None),
        ("./c:d", "http://h.example/a/c:d"),
        ("mailto:x@h.example", None),
    ],
)
def test_references_are_resolved_against_their_page(reference, expected):
    assert normalise(reference, "http://h.example/a/b?x=1#z") == expected


@pytest.mark.parametrize(("base", "expected"), [("http://h.example", "http://h.example/c"), ("file:///etc/", None)])
def test_a_base_may_lack_a_path_and_not_a_host(base, expected):
    assert normalise("c", base) == expected


def test_the_order_of_the_query_makes_no_other_page_but_that_of_one_repeated_name():
    assert dedup_key("http://h.example/?b=1&a=2") == dedup_key("http://h.example/?a=2&b=1")
    assert dedup_key("http://h.example/?a=2&b=1&a=1") == dedup_key("http://h.example/?a=2&a=1&b=1")
    assert dedup_key("http://h.example/?a=1&a=2") != dedup_key("http://h.example/?a=2&a=1")


_ODDITIES = r"/ // .. . %2e %2F % %zz ? & = # ; : @ ' ä ( ) [ \ a B 1 utm_x=1 sid= ;jsessionid=1 && 日本 + |"
_PIECES = st.sampled_from([*_ODDITIES.split(), " ", "\t", "s=0123456789abcdef0123456789abcdef"])
_URLS = st.builds(
    lambda scheme, host, tail: scheme + host + "".join(tail),
    st.sampled_from(["http://", "HTTPS://", "http:/"]),
    st.sampled_from(
        ["h.example", "H.Example:80", "bücher.example:443", "127.1", "u@h.example.", "[::1]:8080", "x_y.z"]
    ),
    st.lists(_PIECES, max_size=12),
)


@given(_URLS | st.text().map("http://h.example/".__add__) | st.text())
def test_normalising_twice_changes_nothing_and_scrapy_requests_the_form_as_it_is(url):
    if (once := normalise(url)) is not None:
        assert normalise(once) == once
        assert Request(once).url == once
        assert dedup_key(dedup_key(once)) == dedup_key(once)


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("HTTP://A.example:80/docs/#/Guide/a b", "http://a.example/docs/#/Guide/a%20b"),
        ("http://a.example/?utm_source=x#!/guide?id=1", "http://a.example/#!/guide?id=1"),
        ("http://a.example/#/", "http://a.example/"),
        ("http://a.example/page#section", "http://a.example/page"),
        ("http://a.example/page#1/2", "http://a.example/page"),
    ],
)
def test_a_route_is_of_the_address_and_a_place_on_the_page_is_not(url, spelled):
    assert normalise_with_route(url) == spelled
    assert Request(spelled).url == spelled
    assert normalise(url) == spelled.partition("#")[0]
    assert normalise_with_route(route_of(spelled), normalise(url)) == spelled


def test_a_route_has_words_as_a_path_has():
    assert routed_path("http://a.example/docs/?x=1#!/guide/start?q=2") == "http://a.example/docs/guide/start?q=2"
    assert routed_path("http://a.example/docs/") == "http://a.example/docs/"


def test_a_route_with_half_a_surrogate_pair_is_none():
    assert normalise_with_route("#/a\udc80", "http://docs.example/b") == "http://docs.example/b"
