"""Finds pages on which a learned rule does not read what it was learned for: they are worth being shown, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.candidate_scores import CandidateScore
from llmcrawler.core.understanding.extraction.extractor import FieldRule
from llmcrawler.core.understanding.extraction.patterns import taken
from llmcrawler.core.understanding.extraction.training_set import TrainingSet
from llmcrawler.core.understanding.extraction.typed_values import fits

_NUMBER: Final = re.compile(r"\d[\d.,]*")
_MAX_AMOUNT_CHARS: Final = 60
_NOT_READ: Final = -1


def unread_pages(rule: FieldRule, pages: TrainingSet) -> tuple[int, ...]:
    """Return the other pages on which something stands where the value should be, but is written in another way than on
    all samples: "12 € (9 € for members)" instead of "12 €". None where a sample shows what cannot be read.
    """
    samples = {_numbers_read(rule, one.page, pages) for one in pages.annotated} - {None}
    if _NOT_READ in samples:
        return ()
    is_amount = len(samples) == 1 and 0 not in samples
    read = [_numbers_read(rule, page, pages) for page in pages.others]
    odd = {_NOT_READ, *((one for one in read if one is not None and one not in samples) if is_amount else ())}
    return tuple(at for at, one in enumerate(read) if one in odd)


def pages_with_more(scores: Sequence[CandidateScore]) -> tuple[int, ...]:
    """Return the other pages on which a candidate as good as the best one gives a longer list."""
    best, *others = scores
    good = [one for one in others if one.support >= best.support]
    return tuple(
        at for at, texts in enumerate(best.outputs) if texts and any(len(one.outputs[at]) > len(texts) for one in good)
    )


def _numbers_read(rule: FieldRule, page: PageBlocks, pages: TrainingSet) -> int | None:
    """Return how many numbers are in the text that a rule takes as the value of a page, _NOT_READ where it makes
    nothing of the only text there, None where there is none, or a choice.
    """
    is_there = False
    for selector in rule.selectors:
        texts = list(dict.fromkeys(pages.texts(page, selector)))
        read = next((one for one in taken(texts, selector.pattern) if fits(one, rule.field.type)), None)
        if read is not None:
            return len(_NUMBER.findall(read)) if len(read) <= _MAX_AMOUNT_CHARS else 0
        is_there |= len(texts) == 1
    return _NOT_READ if is_there else None
