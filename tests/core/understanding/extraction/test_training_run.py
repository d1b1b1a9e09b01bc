"""Which pages are shown to the annotator."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from llmcrawler.core.understanding.extraction.blocks import BlockList, PageBlocks, TrainingPage, labels_of
from llmcrawler.core.understanding.extraction.training_run import TrainingRules, TrainingRun, spread, unseen
from tests.core.understanding.extraction.record_pages import TruthAnnotator, question

PAIRS = 12


def mirrored_pages(seed: int) -> list[list[str]]:
    """Pages in pairs: the second has "b7" where the first has "a7", so no sum over features tells them apart."""
    random = Random(seed)
    pages = []
    for _ in range(5):
        names = [f"{side}{number}" for number in range(PAIRS) for side in "ab" if random.random() < 0.5]
        pages += [names, [name.translate(str.maketrans("ab", "ba")) for name in names]]
    return pages


def chosen_under_other_names(pages: list[list[str]]) -> set[tuple[tuple[int, ...], ...]]:
    """Choose pages again and again, their features named otherwise, and so in another order within each set."""
    renamed = ([frozenset(f"{turn} {name}" for name in page) for page in pages] for turn in range(30))
    return {(tuple(spread(some, 5)), tuple(spread(some, 3, [4])), tuple(unseen(some, [0], 3))) for some in renamed}


def test_the_order_of_a_set_does_not_decide_which_pages_are_shown():
    for seed in range(5):
        (chosen,) = chosen_under_other_names(mirrored_pages(seed))
        assert all(chosen)


def test_the_first_of_equal_pages_is_shown():
    pages = [frozenset(page) for page in mirrored_pages(1)]
    first = spread(pages, 1)[0]
    assert first % 2 == 0
    assert spread([*pages[:first], pages[first + 1], pages[first], *pages[first + 2 :]], 1) == [first]


def test_pages_that_were_shown_are_not_shown_again():
    pages = [frozenset(page) for page in mirrored_pages(1)]
    assert not {0, 3} & set(spread(pages, len(pages), {0, 3}))


def test_a_run_takes_a_page_apart_once_and_may_work_as_much_on_it_each_time():
    page = TrainingPage("http://s.test/1", "", "", "<h1>Lamp</h1>", frozenset())
    first = page.blocks()
    first.source.work.charge(1_000)
    sent = pickle.loads(pickle.dumps(page))  # as each task of a run sends it
    assert sent.blocks() is first
    assert first.source.work.done == 0
    assert TrainingPage("http://s.test/2", "", "", "<h1>Lamp</h1>", frozenset()).blocks() is not first


def test_what_names_a_value_is_told_from_values_in_any_element():
    def page(n: int) -> BlockList:
        facts = {"Company": f"Firm {n}", "Contract": ("Full time", "Freelance")[n % 2]}
        facts |= {"Department": f"Room {n}"} if n % 4 == 0 else {}
        facts["Reference"] = f"AB/{n}"
        return PageBlocks("".join(f"<div>{name}</div><div>{value}</div>" for name, value in facts.items())).listed()

    pages = [page(n) for n in range(12)]
    labels = labels_of(pages)
    assert labels[0] == {"Company", "Department", "Reference"}
    assert labels[1] == {"Company", "Reference"}
    assert unseen(labels, [1, 2, 3], 1) == [0]


@pytest.mark.parametrize(("is_last", "most"), [(False, 2), (True, 4)])
async def test_at_the_end_of_a_crawl_a_doubt_is_settled_with_twice_as_many_pages_at_once(is_last, most):
    annotator = TruthAnnotator(slip=0.6)
    pages = [question(number).to_learn_from() for number in range(14)]
    await TrainingRun("product", annotator, TrainingRules(), is_last=lambda: is_last).run(pages)
    first, *later = map(len, annotator.asked)
    assert first < TrainingRules().max_samples
    assert max(later) == min(most, TrainingRules().max_samples - first)
