"""The numbers and words that tell the kind of a page."""

from __future__ import annotations

import math
from zlib import crc32

import pytest

from benchmarks.page_kind_sites import HELD_OUT, SiteBuilder
from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.page import read_with_evidence
from llmcrawler.core.content.page_kind_numbers import (
    KindEvidence,
    kind_numbers,
    read_address,
    schema_types,
)
from llmcrawler.core.content.page_kinds import kind_tokens

SUM, WORDS = 791_910.10353, (389, 4_130_037_074)
URL = "https://www.shop.example/lamps/red-desk-lamp-20417.html"


def evidence_of(html: str, url: str = URL) -> KindEvidence:
    return read_with_evidence(parse(html), html, url)[1]


def numbers_of(html: str, url: str = URL) -> dict[str, float]:
    return kind_numbers(evidence_of(html, url))


def test_an_address_is_not_read_beyond_its_limit() -> None:
    assert len(read_address("https://a.example/" + "x" * 100_000).path) < 2000


def test_numbers_and_words_are_those_that_the_model_was_trained_with() -> None:
    """After a change of them the model is trained anew: python -m benchmarks.page_kind_train."""
    numbers, words = [], set()
    for page in SiteBuilder(HELD_OUT, 0).pages():
        evidence = evidence_of(page.html, page.url)
        numbers += [place * number for place, number in enumerate(kind_numbers(evidence).values(), 1)]
        words |= {f"{group} {token}" for group, tokens in kind_tokens(evidence).items() for token in tokens}
    assert sum(numbers) == pytest.approx(SUM)
    assert (len(words), crc32("\n".join(sorted(words)).encode())) == WORDS


def test_every_page_has_the_same_numbers() -> None:
    pages = ["", "<p>One", "<title>x</title><table><tr><td>1<td>2</table>", "<div><nav><a href=/>x</a></nav></div>"]
    found = [numbers_of(html) for html in pages]
    assert all(one.keys() == found[0].keys() for one in found)
    assert all(math.isfinite(value) for one in found for value in one.values())


def test_scripts_that_some_pages_have_lost_change_no_number() -> None:
    html = "<html><head><title>A lamp</title></head><body><main><h1>Lamp</h1><p>It shines.</p></main></body></html>"
    with_scripts = html.replace("</head>", "<script src=/x.js></script><style>p{}</style></head>").replace(
        "<p>", '<!-- x --><script>var x = "<p>";</script><p data-x=1 onclick="x()">'
    )
    assert numbers_of(with_scripts) == numbers_of(html)
    assert kind_tokens(evidence_of(with_scripts)) == kind_tokens(evidence_of(html))


def test_schema_types_are_found_at_any_depth() -> None:
    data = [{"@type": "Product", "offers": [{"@type": ["http://schema.org/Offer", "schema:Demand"]}], "x": 1}]
    assert sorted(schema_types(data)) == [("Demand", 1), ("Offer", 1), ("Product", 0)]


def test_endless_structured_data_ends() -> None:
    assert len(list(schema_types([{"@type": "Thing", "x": [{"@type": "Thing"}] * 199}] * 100))) <= 3000
