"""Urls of one kind of thing are one family, whatever their words; their orders and pages are others."""

from __future__ import annotations

import pytest

from llmcrawler.core.urls import family_of

SITE = "http://blog.test"


@pytest.mark.parametrize(
    ("urls", "family"),
    [
        (["/tag/winter/", "/tag/hot-soup/"], "/tag/*/"),
        (["/tag/winter/page/2/", "/tag/hot-soup/?page=3"], "/tag/*/?page"),
        (["/2025/11/06/kale/", "/2024/01/02/rye-and-salt/", "/2023/01/05/frost-2/"], "/{date}/*/"),
        (["/catalogue/red-shoe_12/", "/catalogue/lamp_7/"], "/catalogue/*/"),
        (["/report/1", "/report/2"], "/report/{n}"),
        (["/report/1?sort=owner&dir=asc", "/report/2?sort=id&page=3"], "/report/{n}?*"),
        (["/index.html", "/index2.html", "/index14.html"], "/index.html"),
        (["/query?status=new&owner=ann", "/query?owner=bob&milestone=spring&order=id"], "/query?*"),
        (["/?p=12", "/?p=13"], "/?p"),
        (["/wiki/Rye?action=history", "/wiki/Bread?action=history"], "/wiki/*?action=history"),
        (["/page/2/", "/page/3/?page=4"], "/?page"),
    ],
)
def test_urls_of_a_family(urls: list[str], family: str) -> None:
    assert {family_of(SITE + url) for url in urls} == {SITE + family}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/about", "/contact"),
        ("/tag/winter", "/category/winter"),
        ("/wiki/Rye", "/wiki/Rye?action=history"),
        ("/index.php?view=post&id=1", "/index.php?view=tag&id=1"),
    ],
)
def test_other_things_are_other_families(one: str, other: str) -> None:
    assert family_of(SITE + one) != family_of(SITE + other)
