"""What a site's answers tell of its other pages."""

from __future__ import annotations

import random

from llmcrawler.core.understanding.classification.answer_forest import AnswerForest
from llmcrawler.core.understanding.classification.question import Answer

KINDS = {"guides": "documentation", "api": "api_reference", "releases": "article"}


def pages(count: int, seed: int) -> list[tuple[frozenset[str], str]]:
    """Return pages of three sections of documentation in one theme: names, and what they are."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        section = chance.choice(list(KINDS))
        freely = {f"word:{chance.randrange(30)}" for _ in range(12)}
        found.append((frozenset({"div.body>p", "nav>ul", f"at0:{section}", *freely}), KINDS[section]))
    return found


def test_sections_are_told_by_few_answers() -> None:
    forest = AnswerForest(pages(24, seed=1))
    guesses = [(forest.guess(names), label) for names, label in pages(300, seed=2)]
    clear = [(guess, label) for guess, label in guesses if guess is not None and guess.confidence >= 0.7]
    assert len(clear) > 240
    assert sum(guess.label == label for guess, label in clear) >= 0.99 * len(clear)


def test_one_wrong_answer_in_ten_does_no_harm() -> None:
    answered = pages(60, seed=1)
    for at in range(0, len(answered), 10):
        answered[at] = answered[at][0], "other"
    forest = AnswerForest(answered)
    guesses = [(forest.guess(names), label) for names, label in pages(300, seed=2)]
    wrong = [label for guess, label in guesses if guess and guess.confidence >= 0.7 and guess.label != label]
    assert len(wrong) <= 3


def test_nothing_is_guessed_of_pages_that_are_alike_but_were_answered_differently() -> None:
    alike = frozenset({"div.body>p", "at0:wiki"})
    forest = AnswerForest([(alike, "article" if number % 4 else "product") for number in range(40)])
    assert forest.guess(alike) is None


def test_a_page_unlike_all_that_were_answered_is_not_guessed_for_sure() -> None:
    forest = AnswerForest(pages(24, seed=1))
    guess = forest.guess(frozenset({"at0:jobs"}))
    assert guess is None or guess.confidence < 1.0


def test_the_same_answers_give_the_same_guesses() -> None:
    one, other = AnswerForest(pages(40, seed=3)), AnswerForest(pages(40, seed=3))
    guesses = [one.guess(names) for names, _ in pages(50, seed=4)]
    assert guesses == [other.guess(names) for names, _ in pages(50, seed=4)]
    assert Answer("article", 1.0) in guesses
