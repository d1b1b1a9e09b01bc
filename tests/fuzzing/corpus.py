"""Inputs that have hurt once, by target: each is a short recipe, and stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tests.fuzzing.inputs import Stretch, built

_MAX_CHARS = 400_000

CORPUS: Mapping[str, Sequence[Sequence[Stretch]]] = MappingProxyType(
    {
        "decoding": [
            [Stretch("<meta charset=punycode>"), Stretch("abc-", 50_000)],
            [Stretch("<meta charset=idna>"), Stretch("a" * 70, 1_000)],
            [Stretch("<meta charset=undefined>"), Stretch("a")],
            [Stretch("<meta charset=unicode_escape>"), Stretch("\\N{", 10_000)],
        ],
        "page": [
            [Stretch("<b id=%d>", 2_000), Stretch("<p>", 2_000)],
            [Stretch("<div>", 30_000)],
            [Stretch("<table>"), Stretch("<b>x", 10_000)],
            [Stretch("<table><tr>"), Stretch("<td colspan=1000000 rowspan=65534>a", 2_000)],
            [Stretch("<a"), Stretch(" x%d=1", 20_000), Stretch(">a</a>")],
            [Stretch("<ul><li>", 5_000)],
            [Stretch("\x02\x04", 30_000)],
            [Stretch("<script type='application/ld+json'>"), Stretch("[", 100_000), Stretch("</script>")],
        ],
        "robots": [
            [Stretch("User-agent: a%d\n", 4_000), Stretch("Disallow: /a%d\n", 4_000)],
            [Stretch("User-agent: *\nDisallow: /"), Stretch("*a", 5_000), Stretch("b\n")],
            [Stretch("User-agent: *\n"), Stretch("Disallow: /*a*a*a*a%d$\n", 10_000)],
        ],
        "page_robots": [
            [Stretch("noindex, "), Stretch("unavailable_after: 1,", 1_000)],
            [Stretch("a: noindex: ", 5_000)],
            [Stretch("unavailable_after", 5_000)],
            [Stretch("max-a: unavailable_after: Fri, 9 Jan 99999999999999999999,", 500)],
        ],
        "signs": [[Stretch("<div>", 30_000)], [Stretch("<script>fetch(", 20_000)]],
        "record": [
            [Stretch("<table><tr>"), Stretch("<th>UPC</th>", 30_000)],
            [Stretch("<table>"), Stretch("<tr><th>UPC</th><td>a%d</td></tr>", 10_000)],
            [Stretch("<div>UPC", 10_000)],
            [Stretch("<div class='price'>", 5_000), Stretch("a " * 100)],
        ],
        "learning": [
            [Stretch("<table><tr>"), Stretch("<th>UPC</th><td>a%d</td>", 10_000)],
            [Stretch("<div>a", 5_000)],
            [Stretch("<ma\x07th>a<b>c", 20)],
        ],
        "sitemap": [
            [Stretch('<?xml version="1.0" encoding="punycode"?><urlset>'), Stretch("abc-", 50_000)],
            [Stretch("<urlset>"), Stretch("<a%d>", 50_000)],
            [Stretch("<loc>", 60_000)],
        ],
        "answer": [
            [Stretch("[", 100_000)],
            [Stretch('{"a":', 60_000)],
            [Stretch("<think>", 50_000)],
            [Stretch('{"pages": ['), Stretch('{"id": "1", "label": "product", "confidence": 0.9},', 5_000)],
        ],
        "url": [[Stretch("http://u:pw@host/")], [Stretch("https://x.example/"), Stretch("%", 2_000)]],
        "value": [[Stretch("9", 5_000)], [Stretch("1.", 4_000)], [Stretch(" ", 8_000), Stretch("a")]],
        "header": [[Stretch("9" * 400)], [Stretch("9e999")]],
    }
)


def bodies(target: str) -> list[bytes]:
    return [built(stretches, _MAX_CHARS).encode("utf-8", "replace") for stretches in CORPUS.get(target, ())]
