"""What sites of one platform have taught is taken over where it holds, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmcrawler.content import read_page
from llmcrawler.extraction.learner import extract_all
from llmcrawler.extraction.shared_records import (
    SharedExtractor,
    compared,
    learned_from,
    objection,
    spoken_against,
    taught,
)
from llmcrawler.extraction.training_set import TrainingPage
from llmcrawler.extraction.variants import Variant
from tests.benchmarks.records_quality import LEARN_PAGES, ORIGIN, learned, scored
from tests.servers.platform_sites import platform_site
from tests.servers.record_sites import Site

PLATFORM = "Shopify"


def pages_of(site: Site) -> list[TrainingPage]:
    pages = []
    for page in site.records[:LEARN_PAGES]:
        content = read_page(page.html, ORIGIN + page.path)
        pages.append(TrainingPage(ORIGIN + page.path, content.title, content.lang, page.html, content.features))
    return pages


def lesson_of(site: Site, name: str) -> SharedExtractor:
    extractor = learned(site).extractor
    assert extractor is not None
    pages = pages_of(site)
    return learned_from(Variant.measured(extractor, extract_all(extractor, pages)), pages, name)


@pytest.fixture(scope="module")
def shared() -> SharedExtractor:
    """What two sites have taught alike."""
    first, site = lesson_of(platform_site(PLATFORM, 1), "one"), platform_site(PLATFORM, 2)
    second = lesson_of(site, "two")
    assert compared(first, second.extractor, pages_of(site)) is True
    (both,) = taught([first], second, 0)
    return replace(both, has_grown=False, in_vain={})


def changed(site: Site, change: Callable[[str], str]) -> Site:
    return replace(site, pages=tuple(replace(page, html=change(page.html)) for page in site.pages))


def test_two_sites_are_needed(shared: SharedExtractor) -> None:
    assert shared.is_trusted
    assert not replace(shared, sites=1).is_trusted
    assert not replace(shared, against=1).is_trusted


def test_it_is_not_trusted_while_it_grows(shared: SharedExtractor) -> None:
    rules = [rule for rule in shared.extractor.rules if rule.field.key != "brand"]
    fewer = replace(shared, extractor=replace(shared.extractor, rules=tuple(rules)), taught_by=("one",))
    (grown,) = taught([fewer], replace(shared, taught_by=("three",)), 0)
    assert {rule.field.key for rule in grown.extractor.rules} == {rule.field.key for rule in shared.extractor.rules}
    assert not grown.is_trusted
    (settled,) = taught([grown], replace(shared, taught_by=("four",)), 0)
    assert settled.is_trusted


def test_a_field_that_nobody_could_learn_is_waited_for_three_sites_long(shared: SharedExtractor) -> None:
    lacking = replace(shared, in_vain={"images of it": 1}, taught_by=("one",))
    assert not lacking.is_trusted
    (twice,) = taught([lacking], replace(lacking, taught_by=("three",)), 0)
    assert not twice.is_trusted
    (thrice,) = taught([twice], replace(lacking, taught_by=("four",)), 0)
    assert thrice.is_trusted
    key = shared.extractor.rules[0].field.key
    (found,) = taught([replace(shared, in_vain={key: 1}, taught_by=("one",))], replace(shared, taught_by=("two",)), 0)
    assert not found.in_vain


def test_a_site_counts_once(shared: SharedExtractor) -> None:
    again = lesson_of(platform_site(PLATFORM, 2), "two")
    assert taught([shared], again, 0) == [shared]
    assert spoken_against([shared], 0, "two") == [shared]
    assert spoken_against([shared], 0, "three")[0].against == 1


@pytest.mark.parametrize("number", [3, 4, 5])
def test_another_site_of_the_platform_takes_it_over_and_has_all_fields(shared: SharedExtractor, number: int) -> None:
    site = platform_site(PLATFORM, number)
    doubt, variant = objection(shared, pages_of(site))
    assert (doubt, variant is not None) == ("", True)
    assert scored(site.records, shared.extractor).macro >= learned(site).scores.macro - 0.005


def test_it_is_the_same_after_the_file(shared: SharedExtractor) -> None:
    assert SharedExtractor.from_json(json.loads(json.dumps(shared.to_json()))) == shared


# Sites whose pages have the platform's HTML around something else.
def weights_for_prices(html: str) -> str:
    return re.sub(r'(<span class="price">)£([\d,.]+)', r"\g<1>\g<2> kg", html)


def the_same_title_everywhere(html: str) -> str:
    return re.sub(r'(<h1 class="product-title">)[^<]*', r"\g<1>Buy now", html)


def rows_that_mean_something_else(html: str) -> str:
    return html.replace("<th>SKU</th>", "<th>Colour</th>").replace("<th>Brand</th>", "<th>SKU</th>")


def a_field_that_nobody_knows(html: str) -> str:
    return html.replace("<tr><th>SKU</th>", "<tr><th>Voltage</th><td>230 V</td></tr><tr><th>SKU</th>")


def another_design(html: str) -> str:
    return html.replace("specification", "facts").replace("product-", "item-").replace("price", "cost")


@pytest.mark.parametrize(
    "change",
    [
        weights_for_prices,
        the_same_title_everywhere,
        rows_that_mean_something_else,
        a_field_that_nobody_knows,
        another_design,
    ],
)
def test_a_site_that_means_something_else_is_found_out(shared: SharedExtractor, change: Callable[[str], str]) -> None:
    doubt, variant = objection(shared, pages_of(changed(platform_site(PLATFORM, 3), change)))
    assert doubt
    assert variant is None


def test_what_pages_say_of_themselves_is_heard() -> None:
    def with_data(html: str) -> str:
        price = re.search(r'<span class="price">£([\d,.]+)', html)
        title = re.search(r'<h1 class="product-title">([^<]*)', html)
        if price is None or title is None:
            return html
        said = {"@type": "Product", "name": title[1], "offers": {"price": price[1].replace(",", "")}}
        return html.replace("</head>", f'<script type="application/ld+json">{json.dumps(said)}</script></head>')

    first, second = (changed(platform_site(PLATFORM, number), with_data) for number in (1, 2))
    (both,) = taught([lesson_of(first, "one")], lesson_of(second, "two"), 0)
    assert "price" in both.stated
    third = changed(platform_site(PLATFORM, 3), with_data)
    assert objection(both, pages_of(third))[0] == ""
    # The price before a discount, which looks like any other: only the page itself tells.
    dearer = changed(third, lambda html: re.sub(r'(<span class="price">)£', r"\g<1>£9", html))
    assert "price" in objection(both, pages_of(dearer))[0]


def damaged(value: dict[str, Any], name: str, to: Any) -> dict[str, Any]:
    return {**value, name: to}


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("extractor", {}),
        ("shapes", []),
        ("labels", "abc"),
        ("paths", [1]),
        ("sites", None),
        ("coverage", {"title": "much"}),
    ],
)
def test_what_is_damaged_is_refused(shared: SharedExtractor, name: str, to: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SharedExtractor.from_json(damaged(shared.to_json(), name, to))


def test_a_selector_without_a_bound_is_refused(shared: SharedExtractor) -> None:
    value = json.loads(json.dumps(shared.to_json()))
    selector = {"query": "//th[contains(., 'a')]/ancestor::*//td", "language": "xpath"}
    value["extractor"]["rules"][0]["selectors"] = [selector]
    with pytest.raises(ValueError, match="no bound"):
        SharedExtractor.from_json(value)
