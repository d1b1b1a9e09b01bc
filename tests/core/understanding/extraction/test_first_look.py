"""Which pages may have a record, as their text tells before any parse."""

from __future__ import annotations

import pytest

from llmcrawler.core.understanding.extraction.structured_record import may_have_record

_TWO = "<meta name=author content=Ann><META\nCONTENT='2024-01-02' NAME='Date'/>"


@pytest.mark.parametrize(
    "html",
    [
        '<script type="application/ld+json">{}</script>',
        "<div itemscope>",
        '<div typeof="Product">',
        "<div typeof property=x>",
        "<div TYPEOF=Product><script>typeof x</script>",
        _TWO,
        '<meta name="descr&#105;ption" content="x">',
        '<meta content="a"b" name="x">',
    ],
)
def test_page_that_may_have_a_record(html: str) -> None:
    assert may_have_record(html, of_metas=True)


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<title>A</title><meta charset=utf-8><meta name='description' content='itemprop=\"author\"'>",
        '<meta property="og:title" content="A"><meta name="twitter:title" content="A"><meta name=keywords>',
        "<script>if (typeof x === 'y' || typeof(z) == 1) f(typeof a)</script>",
        "<metadata name=author><metadata name=date>",
    ],
)
def test_page_that_has_no_record(html: str) -> None:
    assert not may_have_record(html, of_metas=True)


def test_metas_count_where_they_are_asked_for() -> None:
    assert not may_have_record(_TWO, of_metas=False)
