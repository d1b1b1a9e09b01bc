"""Guesses of a page's type by the trained model, and by rules where the model does not know the type."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.classification.page_guess import PageGuesser
from llmcrawler.classification.page_types import DEFAULT_PAGE_TYPES, PageType, PageTypes
from llmcrawler.classification.question import CLASSIFIER, RULE, Question
from llmcrawler.items import PageContent


def question(
    kinds: dict[str, float], url: str = "https://a.example/x/y", title: str = "A page", **content: Any
) -> Question:
    return Question(url, title, "", PageContent(kinds=kinds, **content), "a.example", "t1", 1)


def guesser(*names: str) -> PageGuesser:
    return PageGuesser(PageTypes([PageType(name, "") for name in names]) if names else DEFAULT_PAGE_TYPES)


@pytest.mark.parametrize(
    ("names", "kinds", "wanted"),
    [
        ((), {"article": 0.7, "product": 0.3}, ("article", 0.7)),
        ((), {"listing": 0.2, "collection": 0.5, "product": 0.3}, ("collection", 0.5)),
        (("listing", "product"), {"listing": 0.3, "collection": 0.3, "product": 0.4}, ("listing", 0.6)),
        ((), {"forum": 0.9, "article": 0.1}, ("forum_thread", 0.9)),
        (("collection", "listing"), {"listing": 0.4, "collection": 0.6}, ("collection", 0.6)),
        (("Blog-Post", "forum"), {"article": 0.8, "forum": 0.2}, ("Blog-Post", 0.8)),
        (("product", "other"), {"article": 0.9, "product": 0.1}, ("product", 0.1)),
    ],
)
def test_kinds_are_given_the_names_that_the_set_has_for_them(
    names: tuple[str, ...], kinds: dict[str, float], wanted: tuple[str, float]
) -> None:
    found = guesser(*names).likely(question(kinds))
    assert found is not None
    assert found[0] == wanted[0]
    assert found[1] == pytest.approx(wanted[1])


def test_the_model_decides_where_it_knows_the_type() -> None:
    asked = question({"article": 0.9, "product": 0.1}, "https://a.example/products/red-lamp")
    assert guesser().decide(asked) == ("article", 0.9, CLASSIFIER)


def test_rules_decide_for_types_that_the_model_does_not_know() -> None:
    asked = question({"article": 0.9}, "https://a.example/account/login", cues={"password_inputs": 1.0})
    assert guesser().decide(asked)[::2] == ("login", RULE)


def test_rules_decide_where_the_page_was_judged_by_no_model() -> None:
    asked = question({}, "https://a.example/item/red-lamp", cues={"add_to_cart": 1.0})
    assert guesser().decide(asked)[::2] == ("product", RULE)


def test_a_set_without_known_names_has_no_guess() -> None:
    asked = question({"article": 0.9})
    assert guesser("castle", "moat").likely(asked) is None
    assert guesser("castle", "moat").decide(asked) == (None, 0.0, RULE)
