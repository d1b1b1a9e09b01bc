"""Answers that look as if a page had told the model what to say of its neighbours in the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llmcrawler.classification.page_types import PageTypes
from llmcrawler.classification.prompt import COUNTS, Answer
from llmcrawler.classification.question import Question
from llmcrawler.classification.rules import Rules
from llmcrawler.items import PageContent

# Rules with the clearest lead are right for five pages in six; of several pages that they are sure about, and all of
# which they are to be wrong about, in one direction, it is more likely that the model was talked into something.
_SURE = 0.8


class Doubts:
    """Compares what a model says of a batch with what rules of thumb say of the same pages."""

    def __init__(self, page_types: PageTypes) -> None:
        self._rules = Rules(page_types)

    def about(self, pages: Sequence[Mapping[str, Any]], answers: Mapping[int, Answer]) -> list[int]:
        """The positions of pages (as `describe_page` gives them) that cannot be what the answers say, if rules are
        right; none unless most of the pages that rules are sure about got the same other label.
        """
        if len(answers) < 2:
            return []
        label, count = Counter(answer.label for answer in answers.values()).most_common(1)[0]
        sure = {place: found for place in answers if (found := self._by_rules(pages[place])) is not None}
        against = [place for place, found in sure.items() if answers[place].label == label != found]
        enough = 1 if count == len(answers) else 2
        return against if len(against) >= enough and 2 * len(against) > len(sure) else []

    def _by_rules(self, page: Mapping[str, Any]) -> str | None:
        label, confidence = self._rules.decide(_question(page))
        return label if confidence >= _SURE else None


def _question(page: Mapping[str, Any]) -> Question:
    counts = page.get("counts", {})
    cues = {cue: float(counts[word]) for cue, word in COUNTS.items() if word in counts}
    return Question(page["url"], page.get("title", ""), page.get("text", ""), PageContent(cues=cues), "", "", 1)
