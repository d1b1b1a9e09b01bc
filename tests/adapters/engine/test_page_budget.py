"""What counts towards `max_pages` and `max_pages_per_site`."""

from __future__ import annotations

from collections.abc import Sequence

from llmcrawler.core.frontier import Counts, Lease, MemoryFrontier, UrlTask
from llmcrawler.core.reporting.account import FAILED_PER_PAGE
from llmcrawler.engine.page_budget import PageBudget, SiteBudgets

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


PER_HOST = 8


async def budgets(max_pages: int | None, *hosts: str, urls: int = 20) -> SiteBudgets:
    frontier = MemoryFrontier()
    await frontier.add(UrlTask(f"https://{host}/{number}", host) for host in hosts for number in range(urls))
    return SiteBudgets(frontier, max_pages)


async def lease(sites: SiteBudgets, limit: int = 100) -> list[Lease]:
    return await sites.lease(limit, {}, PER_HOST, None)


def hosts_of(leases: Sequence[Lease]) -> list[str]:
    return sorted(one.task.host for one in leases)


async def test_no_site_gets_more_than_its_share_and_the_others_go_on():
    sites = await budgets(10, "a.example", "b.example")
    first = await lease(sites)
    assert hosts_of(first) == ["a.example"] * 8 + ["b.example"] * 8
    assert hosts_of(await lease(sites)) == ["a.example"] * 2 + ["b.example"] * 2
    assert not await lease(sites)
    assert not sites.has_queued(), "what is queued yet belongs to sites that have their share"
    await sites.frontier.add([UrlTask("https://c.example/", "c.example")])
    assert sites.has_queued()
    assert hosts_of(await lease(sites)) == ["c.example"]


async def test_a_share_smaller_than_what_keeps_a_host_busy_holds_from_the_first_lease():
    sites = await budgets(3, "a.example")
    assert len(await lease(sites)) == 3
    assert sites.frontier.counts().queued == 17, "what was leased beyond the share is queued again"


async def test_a_site_has_one_share_under_both_of_its_names():
    sites = await budgets(10, "www.a.example", "a.example")
    assert len(await lease(sites)) + len(await lease(sites)) == 10
    assert not sites.has_queued()


async def test_a_url_that_could_not_be_fetched_and_a_duplicate_give_their_places_back():
    sites = await budgets(4, "a.example")
    leases = await lease(sites)
    assert sites.refund(leases[0])
    assert sites.refund_duplicate(leases[1])
    assert len(await lease(sites)) == 2


async def test_pages_of_earlier_runs_count_and_those_that_are_gone_through_again_count_once():
    sites = await budgets(10, "a.example", "b.example")
    sites.start({"a.example": (Counts(done=6, dead=3, duplicates=1), 2), "b.example": (Counts(done=10), 0)})
    assert hosts_of(await lease(sites)) == ["a.example"] * 3, "6 done less a duplicate, and 2 that come again, of 10"
    assert sites.has_queued(), "these two are still to come"


async def test_without_a_share_all_is_as_it_was():
    sites = await budgets(None, "a.example")
    assert len(await lease(sites)) == PER_HOST
    assert sites.has_queued()
    assert not sites.refund(Lease(UrlTask("https://a.example/", "a.example")))
