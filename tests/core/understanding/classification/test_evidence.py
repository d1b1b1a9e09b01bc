"""Which structured data decides, which does not, and what rules make of a page."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from llmcrawler.core.understanding.classification.evidence import StructuredEvidence
from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules, confidence_of, score
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Question
from llmcrawler.items import PageContent

SHOE = {"@type": "Product", "name": "Red shoe", "offers": {"price": "12"}}


def question(title: str = "", url: str = "http://site.test/x", text: str = "", **content: Any) -> Question:
    return Question(url, title, text, PageContent(**content), "site.test", "t1", 1)


def types(*names: str) -> PageTypes:
    return PageTypes([PageType(name, "") for name in names])


@pytest.mark.parametrize(
    ("title", "data", "label"),
    [
        ("Red shoe | Shop", [SHOE], "product"),
        ("Red shoe | Shop", [{**SHOE, "@type": ["Thing", "http://schema.org/Product"]}], "product"),
        ("Red shoe | Shop", [SHOE, SHOE], "product"),
        ("Shoes | Shop", [{**SHOE, "name": f"Shoe {n} of many"} for n in range(20)], None),
        ("All our winter wear", [SHOE], None),
        ("Red shoe | Shop", [{"@type": "Product", "name": "Red shoe", "aggregateRating": {}}], None),
        ("Shoes | Shop", [SHOE, {"@type": "CollectionPage"}], "collection"),
        ("Winter | Blog", [{"@type": "CollectionPage"}], None),
        ("Rain again", [{"@type": "NewsArticle", "headline": "Rain again"}], "article"),
        ("Blog", [{"@type": "BlogPosting", "headline": f"Day {n}"} for n in range(9)], None),
        ("Soup", [{"@type": "Recipe", "name": "Soup"}, {"@type": "Article", "headline": "Soup"}], None),
        ("Cook wanted", [{"@type": "JobPosting", "title": "Cook wanted"}], "job"),
        ("Song night", [{"@type": "MusicEvent", "name": "Song night"}], "event"),
        ("Why?", [{"@type": "QAPage"}, {"@type": "Question", "name": "Why?"}], "question"),
        ("Hello all", [{"@type": "DiscussionForumPosting"}, {"@type": "Person"}], "forum_thread"),
        ("Us", [{"@type": "FAQPage"}, {"@type": "WebPage"}, {"@type": "Organization"}], None),
        ("Odd", [{"@type": None}, {"@type": 3}, {}, {"@type": {"a": 1}}], None),
        ("Odd", [{"@type": "Product", "name": ["Odd"], "offers": 1}], None),
    ],
)
def test_structured_data_decides_only_where_it_is_unambiguous(
    title: str, data: list[dict[str, Any]], label: str | None
) -> None:
    found = StructuredEvidence(DEFAULT_PAGE_TYPES).decide(question(title, structured_data=tuple(data)))
    assert (found and found[0]) == label


def test_structured_data_is_used_for_labels_of_the_users_set_only() -> None:
    page = question("Red shoe", structured_data=(SHOE,))
    assert StructuredEvidence(types("Product", "list")).decide(page) == ("Product", 0.96)
    assert StructuredEvidence(types("thing", "list")).decide(page) is None


def test_a_set_that_splits_a_kind_further_does_not_get_this_evidence() -> None:
    page = question("Shoes", structured_data=({"@type": "CollectionPage"},))
    assert StructuredEvidence(types("listing", "product")).decide(page) == ("listing", 0.96)
    assert StructuredEvidence(types("listing", "product_listing")).decide(page) is None


@pytest.mark.parametrize(("names", "label"), [(("listing", "a"), "listing"), (("Collection", "a"), "Collection")])
def test_a_set_with_one_name_for_lists_has_it_for_all_of_them(names: tuple[str, ...], label: str) -> None:
    posts = question("Blog", "http://acme.test/blog", cues={"article_tags": 12.0})
    goods = question("Shoes", "http://acme.test/kategorie/schuhe", cues={"price_count": 24.0})
    assert [PageTypeRules(types(*names)).decide(page)[0] for page in (posts, goods)] == [label] * 2


@pytest.mark.parametrize(
    ("page", "label"),
    [
        (question("Acme", "http://acme.test/"), "homepage"),
        (question("Sign in", "http://acme.test/account/login", cues={"password_inputs": 1.0}), "login"),
        (question("Page not found", "http://acme.test/products/old"), "error"),
        (question("Rain again", "http://acme.test/blog/2024/05/rain-again"), "article"),
        (question("Acme blog", "http://acme.test/blog", cues={"article_tags": 12.0}), "listing"),
        (
            question("Red shoe", "http://acme.test/products/red-shoe", text="Add to cart", cues={"price_count": 1.0}),
            "product",
        ),
        (question("Shoes", "http://acme.test/kategorie/schuhe", cues={"price_count": 24.0}), "collection"),
        (
            question("Installing", "http://docs.acme.test/guide/install.html", cues={"code_blocks": 6.0}),
            "documentation",
        ),
        (
            question("Help me", "http://acme.test/forum/viewtopic.php?t=3", text="Posted by Ann. Reply. Quote. " * 9),
            "forum_thread",
        ),
        (question("Impressum", "http://acme.test/impressum"), "legal"),
        (
            question("Careful cleaning", "http://acme.test/services/cleaning", text="We offer free quotes. Contact us"),
            "service",
        ),
    ],
)
def test_rules_know_the_plain_cases(page: Question, label: str) -> None:
    assert PageTypeRules(DEFAULT_PAGE_TYPES).decide(page)[0] == label


def test_rules_without_any_sign_say_other_or_nothing() -> None:
    page = question("Zzyzx", "http://acme.test/zzyzx")
    assert PageTypeRules(DEFAULT_PAGE_TYPES).decide(page) == ("other", 0.1)
    assert PageTypeRules(types("product", "basket")).decide(page) == (None, 0.0)


@pytest.mark.parametrize(
    ("url", "label", "measured"),
    [
        ("http://acme.test/blog/2024/05/rain", "article", (95, 95)),  # by the measured figures of its own type
        ("http://acme.test/docs/rain", "documentation", (22, 27)),
        ("http://acme.test/", "homepage", (255, 300)),  # by those of all verdicts, as no page there is called one
    ],
)
def test_the_confidence_of_rules_is_what_was_measured(url: str, label: str, measured: tuple[int, int]) -> None:
    assert PageTypeRules(DEFAULT_PAGE_TYPES).decide(question("Rain", url)) == (label, confidence_of(measured))
    assert confidence_of(measured) < measured[0] / measured[1] + 0.01


def test_rules_answer_with_the_users_labels_only() -> None:
    page = question("Rain", "http://acme.test/blog/2024/05/rain")
    assert PageTypeRules(types("product", "weather")).decide(page) == (None, 0.0)
    assert PageTypeRules(types("Article", "weather")).decide(page)[0] == "Article"


def test_the_words_of_a_long_text_are_counted_without_a_list_of_them():
    asked, less = question(text="я слово " * 250_000), question(text="я слово " * 500)
    tracemalloc.start()
    try:
        found = score(asked)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert found == score(less)
