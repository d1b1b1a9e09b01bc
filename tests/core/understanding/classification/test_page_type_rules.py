"""Guesses of a page's type by the trained model, and by rules where the model does not know the type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules, score
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageType, PageTypes
from llmcrawler.core.understanding.classification.question import CLASSIFIER, RULE, Question, Verdict
from llmcrawler.items import PageContent


def question(
    kinds: dict[str, float], url: str = "https://a.example/x/y", title: str = "A page", **content: Any
) -> Question:
    return Question(url, title, "", PageContent(kinds=kinds, **content), "a.example", "t1", 1)


def guesser(*names: str) -> PageTypeRules:
    return PageTypeRules(PageTypes([PageType(name, "") for name in names]) if names else DEFAULT_PAGE_TYPES)


def decided(by: PageTypeRules, asked: Question) -> tuple[str | None, str]:
    found = by.guess(asked)
    return found.page_type, found.decided_by


@pytest.mark.parametrize(
    ("names", "kinds", "wanted"),
    [
        ((), {"article": 0.7, "product": 0.3}, ("article", 0.7)),
        ((), {"listing": 0.2, "collection": 0.5, "product": 0.3}, ("collection", 0.5)),
        (("listing", "product"), {"listing": 0.3, "collection": 0.3, "product": 0.4}, ("listing", 0.6)),
        ((), {"forum": 0.9, "article": 0.1}, ("forum_thread", 0.9)),
        (("collection", "listing"), {"listing": 0.4, "collection": 0.6}, ("collection", 0.6)),
        (("Blog-Post", "forum"), {"article": 0.8, "forum": 0.2}, ("Blog-Post", 0.8)),
    ],
)
def test_kinds_are_given_the_names_that_the_set_has_for_them(
    names: tuple[str, ...], kinds: dict[str, float], wanted: tuple[str, float]
) -> None:
    found = guesser(*names).guess(question(kinds))
    assert found.page_type == wanted[0]
    assert found.confidence == pytest.approx(wanted[1])


FORM = {"password_inputs": 1.0, "word_count": 500.0}
DOXYGEN = {"generator": "Doxygen 1.9.4"}


@pytest.mark.parametrize(
    ("kinds", "about", "wanted"),
    [
        # the model decides where it knows the type
        ({"article": 0.9, "product": 0.1}, {"url": "https://a.example/products/red-lamp"}, ("article", CLASSIFIER)),
        # rules decide for types that it does not know
        (
            {"article": 0.9},
            {"url": "https://a.example/account/login", "cues": {"password_inputs": 1.0}},
            ("login", RULE),
        ),
        # they need less of a lead where it is in doubt
        ({"listing": 0.9}, {"cues": FORM}, ("listing", CLASSIFIER)),
        ({"listing": 0.5, "article": 0.4}, {"cues": FORM}, ("login", RULE)),
        # a page of little but a password is a login
        ({"listing": 0.9}, {"cues": {**FORM, "word_count": 40.0}}, ("login", RULE)),
        # what made the page tells that it describes code
        ({"documentation": 0.9}, {"title": "A: B Class Reference", "metadata": DOXYGEN}, ("api_reference", RULE)),
        ({"documentation": 0.9}, {"metadata": DOXYGEN}, ("documentation", CLASSIFIER)),
        # rules decide where the page was judged by no model
        ({}, {"url": "https://a.example/item/red-lamp", "cues": {"add_to_cart": 1.0}}, ("product", RULE)),
    ],
)
def test_rules_decide_where_the_model_does_not_know_the_type(
    kinds: dict[str, float], about: dict[str, Any], wanted: tuple[str, str]
) -> None:
    assert decided(guesser(), question(kinds, **about)) == wanted


def test_only_types_of_the_set_are_guessed() -> None:
    reference = question({"documentation": 0.9}, title="A: B Class Reference", metadata=DOXYGEN)
    assert decided(guesser("documentation", "other"), reference) == ("documentation", CLASSIFIER)
    assert guesser("castle", "moat").guess(question({"article": 0.9})) == Verdict(None, 0.0, RULE)


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("PDP", "", "product"),
        ("product-page", "", "product"),
        ("Shop category", "", "collection"),
        ("blog_post", "", "article"),
        ("forum", "", "forum"),
        ("thing", "one product of the shop, with its price; not a list of products", "product"),
        ("shelf", "a list of products", "collection"),
        ("overview_of_news", "many news articles, each with a link", "listing"),
        ("chat", "a discussion between several people", "forum"),
        ("castle", "a page about one castle", None),
        ("lemma", "an entry of a dictionary, not an article", None),
    ],
)
def test_a_users_own_type_is_known_by_its_name_or_description(name: str, description: str, kind: str | None) -> None:
    own = PageTypeRules(PageTypes([PageType(name.replace(" ", "_"), description), PageType("other", "anything else")]))
    kinds = dict.fromkeys(("article", "product", "collection", "forum", "listing"), 0.1) | ({kind: 0.5} if kind else {})
    assert own.guess(question(kinds)).page_type == (name.replace(" ", "_") if kind else "other")


def test_a_page_of_a_kind_that_the_set_lacks_is_of_the_fallback_type_and_unsure() -> None:
    asked = question({"forum": 0.9, "article": 0.06, "product": 0.04})
    assert guesser("article", "product", "other").guess(asked) == Verdict("other", 0.1, CLASSIFIER)
    assert guesser("article", "product").guess(asked) == Verdict("article", 0.06, CLASSIFIER)


@pytest.mark.parametrize(
    ("path", "field", "is_form"),
    [
        ("/lamp/reviews/add/", "div>textarea.wide", True),
        ("/topic/7/Reply", "form>textarea", True),
        ("/new/", "form>input", False),  # what has come in
        ("/lamp/", "div>textarea.wide", False),  # below the product
        ("/address/", "form>textarea", False),
    ],
)
def test_a_form_to_write_something_is_not_what_it_is_written_about(path: str, field: str, is_form: bool) -> None:
    asked = question({"product": 0.9}, f"https://a.example{path}", features=frozenset({"body>main", field}))
    assert decided(guesser(), asked) == (("other", RULE) if is_form else ("product", CLASSIFIER))
    assert decided(guesser("product", "article"), asked) == ("product", CLASSIFIER)


@pytest.mark.parametrize("with_collections", [True, False])
def test_shop_categories_have_a_type_of_their_own_where_the_set_has_one(with_collections: bool) -> None:
    names = [name for name in DEFAULT_PAGE_TYPES.names if name != "collection"] + ["collection"] * with_collections
    asked = question({"collection": 0.9, "listing": 0.1})
    assert guesser(*names).guess(asked).page_type == ("collection" if with_collections else "listing")


def test_documentation_is_less_sure_where_the_set_tells_references_of_code_from_it() -> None:
    asked = question({"documentation": 0.98, "article": 0.02})
    assert decided(guesser(), asked) == ("documentation", CLASSIFIER)
    assert 0.4 < guesser().guess(asked).confidence < 0.6
    assert guesser("documentation", "article").guess(asked) == Verdict("documentation", 0.98, CLASSIFIER)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("Posted by A. QUOTE\nReplies: 2, topic closed", {"forum_thread": 1}),
        ("reposted, misquote, _posted, topics", {}),
        ("Add to basket. In Stock (SKU 7)", {"product": 3}),
        ("Our team: we offer a lot. Hour team, powe offer", {"service": 2}),
    ],
)
def test_phrases_of_a_text_count_in_any_case_where_words_begin(text: str, points: dict[str, int]) -> None:
    asked = Question("https://a.example/x/y", "A page", text, PageContent(), "a.example", "t1", 1)
    found = score(asked) - score(replace(asked, text=""))  # without those of the address
    assert dict(found) == points


def test_links_are_held_against_all_words_of_a_page_and_not_those_of_an_excerpt():
    content = PageContent(cues={"word_count": 900.0, "link_count": 80.0})
    asked = Question("https://a.test/x", "Rain", "word " * 100, content, "a.test", "t1", 1)
    assert score(asked)["listing"] == 0
    assert score(replace(asked, content=replace(content, cues={**content.cues, "link_count": 500.0})))["listing"] == 2
