"""Words by which kinds of pages of one site can be told apart."""

from __future__ import annotations

import pytest

from llmcrawler.core.understanding.templates.page_sample import (
    common_pattern,
    name_tokens,
    title_tokens,
    url_tokens,
    words_of,
)
from llmcrawler.items import PageContent, TextBlock


@pytest.mark.parametrize(
    ("url", "tokens"),
    [
        ("http://a/std/struct.Vec.html", {"name begins:struct", "name ends:vec", "name words:2"}),
        ("http://a/classEigen_1_1Array.html", {"name begins:class", "name letters:class"}),
        ("http://a/classlog_1_1Array-members.html", {"name letters:class", "name ends:members"}),
        ("http://a/group__Core__Module.html", {"name begins:group", "name ends:module"}),
        ("http://a/%D0%BA%D0%BB%D0%B0%D1%81%D1%81_7.html", {"name begins:класс", "name ends:#"}),
        ("http://a/one/", {"name words:1"}),
        ("http://a/", set()),
    ],
)
def test_name_of_the_file_gives_its_first_and_last_words(url: str, tokens: set[str]) -> None:
    assert tokens <= name_tokens(url)


@pytest.mark.parametrize(
    ("title", "tokens"),
    [
        ("Eigen: Array< T > Class Template Reference", {"title ends:class template reference", "title0 ends:eigen"}),
        ("Vec in std::vec - Rust", {"title parts:2", "title0 begins:vec in", "title1 begins:rust"}),
        ("Category: Birds – The Allotment", {"title begins:category", "title0 begins:category"}),
        ("Anna Berg, Author at The Allotment", {"title ends:at the allotment"}),
        ("Ticket #17 (closed)", {"title begins:ticket #", "title ends:closed"}),
        ("", {"title parts:0"}),
    ],
)
def test_title_gives_the_words_at_its_edges(title: str, tokens: set[str]) -> None:
    assert tokens <= title_tokens(title)


def heading(text: str) -> TextBlock:
    return TextBlock(text, 3, 1.0, 0)


def test_page_gives_tokens_of_each_place() -> None:
    names = [{"@type": "ListItem", "name": "Home"}, {"@type": "ListItem", "item": {"name": "Structs"}}, "broken"]
    content = PageContent(
        blocks=(heading("# Struct [ns](http://a/ns/)::**B**"), heading("words"), heading("## Implementations (12)")),
        structured_data=({"@type": "BreadcrumbList", "itemListElement": names},),
    )
    assert {"h1 begins:struct", "h1:struct ns b", "h2:implementations #", "crumb1:structs", "crumbs:2"} <= words_of(
        content
    )


def test_any_page_gives_few_and_short_tokens() -> None:
    content = PageContent(
        blocks=tuple(heading(f"## {'abc'[n % 3]}{n}x" * 300) for n in range(5000)),
        structured_data=({"@type": "BreadcrumbList", "itemListElement": [{"name": "c" * 500}] * 900},),
    )
    tokens = words_of(content) | title_tokens("w - " * 5000) | name_tokens("http://a/" + "x_" * 5000)
    assert len(tokens) < 100
    assert max(map(len, tokens)) < 80


@pytest.mark.parametrize(
    ("url", "tokens"),
    [
        ("http://a/catalogue/12/", {"depth:2", "at0:catalogue", "at1:#", "shape1:number", "slash:True"}),
        ("http://a/x/edit", {"from_end0:edit", "from_end1:x", "slash:False"}),
        ("http://a/api/a.html", {"ext:html"}),
        ("http://a/?do=edit&page=3", {"key:do=edit", "key:do", "key:page"}),
        ("http://a/805183e40ab04662840be07f181acb67", {"at0:#", "shape0:hash"}),
        ("http://a/blue-shoes_12/", {"shape0:slug+number"}),
    ],
)
def test_url_gives_tokens(url: str, tokens: set[str]) -> None:
    assert tokens <= url_tokens(url)


@pytest.mark.parametrize(
    "url", ["", "http://a", "http://a/?" + "&".join(f"k{i}=v" for i in range(500)), "http://a" + "/x" * 900]
)
def test_any_url_gives_few_tokens(url: str) -> None:
    assert len(url_tokens(url)) < 60


@pytest.mark.parametrize(
    ("urls", "pattern"),
    [
        ([], ""),
        (["http://a/"], "/"),
        (["http://a/b/c"], "/b/c"),
        (["http://a/shop/x_1/", "http://a/shop/y_2/"], "/shop/*/"),
        (["http://a/p/1/review/", "http://a/p/2/review/"], "/p/*/review/"),
        (["http://a/l?page=1", "http://a/l?page=2&q=x"], "/l?page"),
        (["http://a/c/x/", "http://a/c/x/y/"], "/c/**/"),
    ],
)
def test_pattern_shows_what_urls_share(urls: list[str], pattern: str) -> None:
    assert common_pattern(urls) == pattern
