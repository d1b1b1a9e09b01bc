"""Which urls are views of one page, and what a Link header names as canonical."""

import pytest

from llmcrawler.core.urls import canonical_link, names_view, view_key

HOME = "https://shop.test"


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("/a", "http://shop.test/a"),
        ("/a", "https://www.shop.test/a"),
        ("/a", "/a/"),
        ("/", "/index.html"),
        ("/a/", "/a/index.php"),
        ("/a", "/a?print=1"),
        ("/a?id=5", "/a?id=5&printable=yes"),
        ("/a?id=5", "/a?id=5&view=print"),
        ("/a?id=5&x=1", "/a?x=1&id=5"),
        ("/a", "/a/amp"),
        ("/a", "/amp/a/"),
        ("/a", "/a?amp"),
        ("/a", "/print/a"),
        ("/a.html", "/a.amp.html"),
        ("/a.html", "/a-print.html"),
    ],
)
def test_views_of_one_page_have_one_key(url: str, other: str) -> None:
    assert view_key(HOME + url) == view_key(other if "//" in other else HOME + other)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("/a", "https://shop.test:8443/a"),
        ("/a", "https://m.shop.test/a"),
        ("/a?id=5", "/a?id=6"),
        ("/a", "/a?page=2"),
        ("/a?print=lamp", "/a?print=chair"),
        ("/a", "/a?printer=epson"),
        ("/a", "/A"),
        ("/amplifier", "/"),
        ("/prints/a", "/a"),
        ("/a#/guide", "/a#/help"),
        ("/a?sort=name", "/a?sort=price"),
    ],
)
def test_other_pages_have_keys_of_their_own(url: str, other: str) -> None:
    assert view_key(HOME + url) != view_key(other if "//" in other else HOME + other)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/printer.php?id=5", True),
        ("/a/amp/", True),
        ("/a?print", True),
        ("/amplifier", False),
        ("/sprint", False),
    ],
)
def test_a_url_may_say_that_it_is_a_view(path: str, expected: bool) -> None:
    assert names_view(HOME + path) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('</b>; rel="canonical"', f"{HOME}/b"),
        ("<https://shop.test/b>; rel=canonical", f"{HOME}/b"),
        ('</x.css>; rel=preload; as=style, </b>; type="text/html"; rel="nofollow canonical"', f"{HOME}/b"),
        ("</b>; rel=next", None),
        ('</b>; title="rel"; hreflang=canonical', None),
        ("<b", None),
        ("", None),
        ("</" + "a" * 100_000 + ">; rel=canonical", None),
        ("<a>;" * 50_000, None),
    ],
)
def test_a_link_header_names_the_canonical_page(header: str, expected: str | None) -> None:
    assert canonical_link(header, f"{HOME}/a") == expected
