"""Guesses the page type of a page by itself: a trained model knows some kinds of page, rules of thumb the others."""

from __future__ import annotations

from typing import Final

from llmcrawler.core.understanding.classification.known_types import labels_of_known
from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules
from llmcrawler.core.understanding.classification.page_types import PageTypes
from llmcrawler.core.understanding.classification.question import CLASSIFIER, NO_CUE, RULE, Question

# Rules that are so many points ahead may name a type which the model does not know, see LEADS of page_type_rules; where
# the model is not even so sure, a smaller lead will do. WCXB's dev split says little of it, as its pages have seven
# types: there the clear lead is front pages only, the smaller one changes 5 of 1,310 verdicts.
_CLEAR_LEAD: Final = 4
_LEAD: Final = 2
_DOUBTFUL: Final = 0.6
# The model takes references of code for documentation, which they are. Where a set has a type for them, it was right on
# so large a share of the pages that it was sure about: the mean over eight sites of documentation, of seven makers.
_NO_REFERENCE: Final = 0.52


class PageGuesser:
    """Decides among the labels of the given set that are known types, by name or by description."""

    def __init__(self, page_types: PageTypes) -> None:
        self._label_of = labels_of_known(page_types)
        self._fallback = page_types.fallback
        self._rules = PageTypeRules(page_types)
        # Where the set has types of the user's own, what looks like a known one may be one of those.
        self.knows_all_types = set(page_types.names) <= {*self._label_of.values(), page_types.fallback}

    def decide(self, question: Question) -> tuple[str | None, float, str]:
        """Return the label, the confidence and who decided. A page that is of a known kind which the set has no type
        for gets the fallback type, with little confidence; so does one without any cue, or None without a fallback.
        """
        likely = self.likely(question)
        if likely is None or self._is_of_other_type(question, likely[1]):
            return (*self._rules.decide(question), RULE)
        if self._fallback and likely[1] < 1 - sum(self._shares(question).values()):
            return self._fallback, NO_CUE, CLASSIFIER
        label, confidence = likely
        if label == self._label_of.get("documentation") and "api_reference" in self._label_of:
            confidence *= _NO_REFERENCE
        return label, confidence, CLASSIFIER

    def likely(self, question: Question) -> tuple[str, float] | None:
        """Return the label that the model finds most probable, and the probability; None where it knows none."""
        return max(self._shares(question).items(), key=lambda pair: pair[1], default=None)

    def _shares(self, question: Question) -> dict[str, float]:
        shares: dict[str, float] = {}
        for kind, probability in question.content.kinds.items():
            if label := self._label_of.get(kind):
                shares[label] = shares.get(label, 0.0) + probability
        return shares

    def _is_of_other_type(self, question: Question, confidence: float) -> bool:
        best = self._rules.best(question)
        if best is None or best[1] < (_LEAD if confidence < _DOUBTFUL else _CLEAR_LEAD):
            return False
        label = self._rules.label_of(best[0])
        return all(self._label_of.get(kind) != label for kind in question.content.kinds)
