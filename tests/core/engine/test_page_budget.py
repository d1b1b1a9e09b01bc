"""What counts towards `max_pages`."""

from __future__ import annotations

from llmcrawler.core.frontier import Counts, Lease, UrlTask
from llmcrawler.core.reporting.account import FAILED_PER_PAGE
from llmcrawler.engine.page_budget import PageBudget

LEASE = Lease(UrlTask("https://a.example/", "a.example"))


def test_pages_come_until_there_are_max_pages_however_many_fail_in_between():
    budget = PageBudget(40)
    for _ in range(10 * 40):
        budget.spend(LEASE)
        assert budget.refund()
    assert budget.left() == 40
    budget.spend(LEASE)
    assert not budget.refund(), "a site could name dead urls for ever"
    assert budget.left() == 39


def test_an_entry_that_cannot_be_fetched_takes_no_place():
    budget = PageBudget(1)
    budget.spend(Lease(UrlTask.of_fault("not a url", "line 1: it is no url")))
    assert budget.left() == 1


def test_failures_of_earlier_runs_and_of_other_workers_count_the_same():
    budget = PageBudget(40)
    budget.start(Counts(done=10, dead=399))
    assert (budget.left(), budget.refunds) == (30, 1)
    assert budget.left_among_workers(Counts(leased=5, done=10, dead=FAILED_PER_PAGE * 40 + 2)) == 23


def test_duplicates_count_apart_up_to_as_many_as_pages():
    budget = PageBudget(40)
    for _ in range(40):
        budget.spend(LEASE)
        assert budget.refund_duplicate()
    assert budget.left() == 40
    budget.spend(LEASE)
    assert not budget.refund_duplicate(), "a site could show one page for ever"
    assert budget.left() == 39


def test_duplicates_of_earlier_runs_and_of_other_workers_count_the_same():
    budget = PageBudget(40)
    budget.start(Counts(done=45, duplicates=30))
    assert (budget.left(), budget.free_duplicates) == (25, 10)
    assert budget.left_among_workers(Counts(leased=5, done=70, duplicates=50)) == 5
