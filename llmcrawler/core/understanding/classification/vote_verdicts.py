"""Verdicts of what most pages of a template look like."""

from __future__ import annotations

from llmcrawler.core.understanding.classification.guess_votes import SURE_GUESS
from llmcrawler.core.understanding.classification.question import CLASSIFIER, Question, Verdict
from llmcrawler.core.understanding.classification.site_verdicts import TemplateGroup
from llmcrawler.core.understanding.classification.template_samples import QUORUM

# So many pages of a template have to look like one type, and this share of all votes, before it serves those of them
# that look like no type for sure.
_MIN_VOTES = 4
_MIN_VOTE_SHARE = 0.6
# Of the pages of a template that surely look alike, one in so many is looked at.
_LOOKED_AT = 16


def is_told_by_votes(group: TemplateGroup, question: Question, *, is_model_asked: bool) -> bool:
    """Tell whether a page need not be looked at, as so many of its template look alike; some are all the same.

    Where a lone answer of the model says otherwise, each page is looked at that may contradict it.
    """
    samples, votes = group.samples, group.samples.votes
    if not question.settled or question.rivals or question.member % _LOOKED_AT == 0 or not votes.are_clear:
        return False
    if is_model_asked and samples.majority != votes.winner and len(samples.labels) < QUORUM:
        return False
    return not samples.is_mixed


def verdict_by_votes(group: TemplateGroup, question: Question, guess: Verdict | None) -> Verdict | None:
    """Return what most pages of the template look like, for one of them that looks like nothing for sure."""
    votes = group.samples.votes
    winner = votes.winner
    own = 0.0 if guess is None else guess.confidence
    if winner is None or not question.settled or group.samples.is_mixed or own >= SURE_GUESS:
        return None
    if votes.page_count < _MIN_VOTES or (votes.share_of(winner) or 0.0) < _MIN_VOTE_SHARE:
        return None
    agrees = guess is not None and guess.page_type == winner
    return Verdict(winner, max(votes.sums[winner] / votes.page_count, own if agrees else 0.0), CLASSIFIER)
