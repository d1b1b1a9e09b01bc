"""Urls as tokens, and the pattern that a person is shown."""

import pytest

from llmcrawler.core.understanding.templates.url_tokens import common_pattern, url_tokens


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
