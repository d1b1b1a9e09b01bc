"""What sites of one platform have taught is taken over where it holds, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.learner import extract_all
from llmcrawler.core.understanding.extraction.lessons import MAX_LESSONS, Lesson, lesson_of, with_lesson
from llmcrawler.core.understanding.extraction.shared_records import adopted
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.variants import Variant
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


def lesson(site: Site, name: str) -> Lesson:
    extractor = learned(site).extractor
    assert extractor is not None
    pages = pages_of(site)
    variant = Variant.measured(extractor, extract_all(extractor, pages))
    return lesson_of(variant, pages, name, shown=[page.url for page in pages], missing=())


@pytest.fixture(scope="module")
def lessons() -> list[Lesson]:
    """What two sites have taught alike."""
    return [lesson(platform_site(PLATFORM, number), f"site{number}") for number in (1, 2)]


def changed(site: Site, change: Callable[[str], str]) -> Site:
    return replace(site, pages=tuple(replace(page, html=change(page.html)) for page in site.pages))


def without(one: Lesson, key: str) -> Lesson:
    """The same lesson of a site that has no such field."""
    rules = tuple(rule for rule in one.extractor.rules if rule.field.key != key)
    coverage = {name: share for name, share in one.coverage.items() if name != key}
    return replace(one, extractor=replace(one.extractor, rules=rules), coverage=coverage)


def misled(one: Lesson, teacher: str) -> Lesson:
    """A lesson that takes the brand for the title."""
    brand = next(rule for rule in one.extractor.rules if rule.field.key == "brand")
    rules = tuple(
        replace(rule, selectors=brand.selectors) if rule.field.key == "title" else rule for rule in one.extractor.rules
    )
    return replace(one, teacher=teacher, extractor=replace(one.extractor, rules=rules))


@pytest.fixture(scope="module")
def third() -> list[TrainingPage]:
    return pages_of(platform_site(PLATFORM, 9))


@pytest.mark.parametrize("number", [9, 10, 17])
def test_another_site_of_the_platform_takes_it_over_and_has_all_fields(lessons: list[Lesson], number: int) -> None:
    site = platform_site(PLATFORM, number)
    doubt, variant = adopted(lessons, pages_of(site))
    assert variant is not None, doubt
    assert scored(site.records, variant.extractor).macro >= learned(site).scores.macro


def test_a_lesson_is_the_same_after_the_file(lessons: list[Lesson]) -> None:
    assert [Lesson.from_json(json.loads(json.dumps(one.to_json()))) for one in lessons] == lessons


def test_two_sites_are_needed_and_two_of_one_owner_are_one(lessons: list[Lesson], third: list[TrainingPage]) -> None:
    assert adopted(lessons, third)[1] is not None
    assert adopted(lessons[:1], third)[1] is None
    assert adopted([lessons[0], replace(lessons[1], teacher=lessons[0].teacher)], third)[1] is None


def test_few_pages_tell_nothing(lessons: list[Lesson], third: list[TrainingPage]) -> None:
    assert adopted(lessons, third[:9]) == ("9 pages are too few to tell", None)


def test_a_part_of_two_pages_in_twenty_that_nobody_knows_is_not_passed_over(
    lessons: list[Lesson], third: list[TrainingPage]
) -> None:
    def with_note(page: TrainingPage) -> TrainingPage:
        html = page.html.replace("</h1>", '</h1><p class="note">Express 12</p>')
        return TrainingPage(page.url, page.title, page.lang, html, page.features)

    doubt, variant = adopted(lessons, [*map(with_note, third[:2]), *third[2:]])
    assert variant is None
    assert doubt.startswith("nobody knows")


def test_one_site_that_was_misled_stops_two_but_not_four(lessons: list[Lesson], third: list[TrainingPage]) -> None:
    bad = misled(lessons[0], "bad")
    assert "1 do not" in adopted([bad, *lessons], third)[0]
    more = [replace(one, teacher=f"{one.teacher} again") for one in lessons]
    variant = adopted([bad, *lessons, *more], third)[1]
    assert variant is not None
    assert variant.extractor.rules != bad.extractor.rules


def test_what_one_site_only_has_told_of_is_left_out_where_it_is_not(lessons: list[Lesson]) -> None:
    def without_colours(html: str) -> str:
        return re.sub(r"<tr><th>Colour</th>.*?</tr>", "", html)

    site, fewer = platform_site(PLATFORM, 9), [lessons[0], without(lessons[1], "colour")]
    assert adopted(fewer, pages_of(site)) == ("only one site has told of colour", None)
    doubt, variant = adopted(fewer, pages_of(changed(site, without_colours)))
    assert variant is not None, doubt
    assert "colour" not in variant.coverage


def test_the_model_has_to_have_seen_ten_pages_in_all(lessons: list[Lesson], third: list[TrainingPage]) -> None:
    assert adopted([replace(one, shown=5) for one in lessons], third)[1] is not None
    assert "8 pages" in adopted([replace(one, shown=4) for one in lessons], third)[0]


def test_a_field_that_nobody_could_learn_is_waited_for_three_sites_long(
    lessons: list[Lesson], third: list[TrainingPage]
) -> None:
    lacking = [replace(one, missing=frozenset({"warranty"})) for one in lessons]
    assert adopted(lacking, third) == ("warranty may be learned yet", None)
    assert adopted([*lacking, replace(lacking[0], teacher="third")], third)[1] is not None


def test_of_too_many_lessons_those_that_differ_stay_and_of_others_the_older(lessons: list[Lesson]) -> None:
    first = [replace(lessons[0], teacher=f"first{n}", paths=frozenset({f"path{n}"})) for n in range(MAX_LESSONS)]
    many = first
    for number in range(30):
        many = with_lesson(many, replace(first[0], teacher=f"many{number}"))
    assert many == first


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
def test_a_site_that_means_something_else_is_found_out(lessons: list[Lesson], change: Callable[[str], str]) -> None:
    doubt, variant = adopted(lessons, pages_of(changed(platform_site(PLATFORM, 9), change)))
    assert doubt
    assert variant is None


def test_what_pages_say_of_themselves_is_heard(lessons: list[Lesson]) -> None:
    def with_data(html: str) -> str:
        price = re.search(r'<span class="price">£([\d,.]+)', html)
        title = re.search(r'<h1 class="product-title">([^<]*)', html)
        if price is None or title is None:
            return html
        said = {"@type": "Product", "name": title[1], "offers": {"price": price[1].replace(",", "")}}
        return html.replace("</head>", f'<script type="application/ld+json">{json.dumps(said)}</script></head>')

    taught = [lesson(changed(platform_site(PLATFORM, number), with_data), f"site{number}") for number in (1, 2)]
    third = changed(platform_site(PLATFORM, 9), with_data)
    doubt, variant = adopted(taught, pages_of(third))
    assert variant is not None, doubt
    # The price before a discount, which looks like any other: only the page itself tells.
    dearer = changed(third, lambda html: re.sub(r'(<span class="price">)£', r"\g<1>£9", html))
    for known in (taught, lessons):  # also where the others have no such data
        assert adopted(known, pages_of(dearer)) == ("price is not what the pages say of themselves", None)


def damaged(value: dict[str, Any], name: str, to: Any) -> dict[str, Any]:
    return {**value, name: to}


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("extractor", {}),
        ("shapes", []),
        ("labels", "abc"),
        ("paths", [1]),
        ("missing", None),
        ("coverage", {"title": "much"}),
    ],
)
def test_what_is_damaged_is_refused(lessons: list[Lesson], name: str, to: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Lesson.from_json(damaged(lessons[0].to_json(), name, to))


def test_a_selector_without_a_bound_is_refused(lessons: list[Lesson]) -> None:
    value = json.loads(json.dumps(lessons[0].to_json()))
    selector = {"query": "//th[contains(., 'a')]/ancestor::*//td", "language": "xpath"}
    value["extractor"]["rules"][0]["selectors"] = [selector]
    with pytest.raises(ValueError, match="no bound"):
        Lesson.from_json(value)
