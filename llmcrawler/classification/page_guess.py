"""Guesses the page type of a page by itself: a trained model knows seven kinds of page, rules of thumb the others."""

from __future__ import annotations

from typing import Final

from llmcrawler.classification.page_type_rules import PageTypeRules
from llmcrawler.classification.page_types import PageTypes
from llmcrawler.classification.question import CLASSIFIER, RULE, Question

# Kinds of the model -> the names that a set of page types may have for them, the most fitting first.
KIND_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "article": ("article", "blog_post", "news_article", "post", "news", "story"),
    "collection": ("collection", "category", "product_listing", "product_list", "listing"),
    "documentation": ("documentation", "docs", "guide", "manual", "help"),
    "forum": ("forum_thread", "thread", "discussion", "forum", "question"),
    "listing": ("listing", "index", "archive", "list", "collection", "category"),
    "product": ("product", "item"),
    "service": ("service", "landing_page", "services"),
}
# Rules that are so many points ahead may name a type which the model does not know; see LEADS of page_type_rules. With
# a lead of 2, they were right on 8 of 71 pages of WCXB's dev split, on most of which the model was.
_LEAD: Final = 4


def labels_of_kinds(page_types: PageTypes) -> dict[str, str]:
    """Return, for each kind of the model that the set has a name for, that name."""
    by_name = {name.casefold().replace("-", "_").replace(" ", "_"): name for name in page_types.names}
    return {
        kind: by_name[known[0]]
        for kind, names in KIND_NAMES.items()
        if (known := [name for name in names if name in by_name])
    }


class PageGuesser:
    """Decides among the labels of the given set whose names it knows."""

    def __init__(self, page_types: PageTypes) -> None:
        self._label_of = labels_of_kinds(page_types)
        self._rules = PageTypeRules(page_types)

    def decide(self, question: Question) -> tuple[str | None, float, str]:
        """Return the label, the confidence and who decided; without any cue the fallback type or None, with little
        confidence.
        """
        likely = self.likely(question)
        if likely is None or self._is_of_other_type(question):
            return (*self._rules.decide(question), RULE)
        return (*likely, CLASSIFIER)

    def likely(self, question: Question) -> tuple[str, float] | None:
        """Return the label that the model finds most probable, and the probability; None where it knows none."""
        shares: dict[str, float] = {}
        for kind, probability in question.content.kinds.items():
            if label := self._label_of.get(kind):
                shares[label] = shares.get(label, 0.0) + probability
        return max(shares.items(), key=lambda pair: pair[1], default=None)

    def _is_of_other_type(self, question: Question) -> bool:
        best = self._rules.best(question)
        if best is None or best[1] < _LEAD:
            return False
        return self._rules.label_of(best[0]) not in self._label_of.values()
