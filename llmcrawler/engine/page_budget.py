"""Counts how many urls a crawl may still lease under `max_pages`, and of each site under `max_pages_per_site`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmcrawler.core.frontier import Counts, Frontier, Lease, MemoryFrontier, SqliteFrontier
from llmcrawler.core.reporting.account import FAILED_PER_PAGE
from llmcrawler.crawl.job import ResumeState


class PageBudget:
    """Counts leases of this run and of earlier ones. A url that could not be fetched gives its place back, so that
    `max_pages` pages come of a site that has them; but no more than `free_failures` do. So does a page that repeats
    another one, of which `max_pages` are free. `repeats` are pages of earlier runs that will be leased again; they are
    counted already.
    """

    def __init__(self, max_pages: int) -> None:
        self.max_pages = max_pages
        self.free_failures = FAILED_PER_PAGE * max_pages
        self.repeats = 0
        self.spent = 0
        self.refunds = self.free_failures
        self.free_duplicates = max_pages

    def start(self, counts: Counts) -> None:
        """Count what the frontier has from earlier runs."""
        self.refunds = max(0, self.free_failures - counts.dead)
        free = min(counts.duplicates, self.max_pages)
        self.free_duplicates = self.max_pages - free
        self.spent = counts.done - free + max(0, counts.dead - self.free_failures)

    def resume(self, resumed: ResumeState) -> None:
        """Keep places for the pages that a resumed job goes through again; a finished job leases nothing else.

        Dead letters and duplicates are among them. With these they may be more than `max_pages`, and what they give
        back is no place for a new url before that is made up for.
        """
        self.repeats = resumed.stored + resumed.again
        self.spent += self.repeats
        if resumed.finished:
            self.max_pages, self.refunds, self.free_duplicates = self.spent, 0, 0

    def left(self) -> int:
        """Return how many urls may be leased for the first time."""
        return max(0, self.max_pages - self.spent)

    def left_among_workers(self, counts: Counts) -> int:
        """Return the same where several workers share the frontier, by its counts."""
        done = counts.done - min(counts.duplicates, self.max_pages)
        return self.max_pages - counts.leased - done - max(0, counts.dead - self.free_failures)

    def spend(self, lease: Lease) -> None:
        if self.takes_place(lease):
            self.spent += 1
        elif self.repeats and (lease.is_stored or lease.is_known):
            self.repeats -= 1

    def takes_place(self, lease: Lease) -> bool:
        """Return whether a lease takes a new place: not that of a page of an earlier run, nor that of an entry of a
        list that cannot be fetched.
        """
        return not lease.task.fault and not (self.repeats and (lease.is_stored or lease.is_known))

    def refund(self) -> bool:
        """Give the place of a url back that could not be fetched. Return False when too many were given back."""
        if self.refunds <= 0:
            return False
        self.refunds -= 1
        self.spent -= 1
        return True

    def refund_duplicate(self) -> bool:
        """Give the place of a page back that repeats another one. Return False when too many were given back."""
        if self.free_duplicates <= 0:
            return False
        self.free_duplicates -= 1
        self.spent -= 1
        return True


@dataclass
class SiteBudgets:
    """Leases urls for a crawl of one process, and of no site more than its share; www.example.com and example.com are
    one site. None: there is no share.
    """

    frontier: Frontier
    max_pages: int | None
    _of_host: dict[str, PageBudget] = field(default_factory=dict)

    def start(self, earlier: Mapping[str, tuple[Counts, int]]) -> None:
        """Count what earlier runs have of each host, and how many of its pages will be leased again."""
        if self.max_pages is None:
            return
        sites: dict[str, tuple[list[str], Counter[str]]] = {}
        for host, (counts, repeats) in earlier.items():
            hosts, sums = sites.setdefault(_site(host), ([], Counter()))
            hosts.append(host)
            sums.update(done=counts.done, dead=counts.dead, duplicates=counts.duplicates, repeats=repeats)
        for hosts, sums in sites.values():
            budget = PageBudget(self.max_pages)
            budget.start(Counts(done=sums["done"], dead=sums["dead"], duplicates=sums["duplicates"]))
            budget.repeats = sums["repeats"]
            budget.spent += budget.repeats
            self._of_host |= dict.fromkeys((*hosts, _site(hosts[0])), budget)

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None) -> list[Lease]:
        """Lease as `Frontier.lease` does, within the shares, and count what is leased."""
        if self.max_pages is None:
            return await self.frontier.lease(limit, held, per_host, worst)
        busy = {**held}
        for host, budget in self._of_host.items():
            if (left := budget.left() + budget.repeats) < per_host:
                busy[host] = max(busy.get(host, 0), per_host - left)
        leases = []
        for lease in await self.frontier.lease(limit, busy, per_host, worst):
            budget = self._budget(lease.task.host)
            if budget.left() > 0 or not budget.takes_place(lease):
                budget.spend(lease)
                leases.append(lease)
            else:  # of a new host, or of one that is leased from under two names
                await self.frontier.release(lease.url)
        return leases

    def has_queued(self) -> bool:
        """Tell whether urls are queued that may be leased, now or later."""
        if not self.frontier.counts().queued or self.max_pages is None:
            return bool(self.frontier.counts().queued)
        assert isinstance(self.frontier, (MemoryFrontier, SqliteFrontier))  # no other one is that of one process
        budgets = map(self._budget, self.frontier.queued_hosts())
        return any(budget.left() > 0 or budget.repeats for budget in budgets)

    def refund(self, lease: Lease) -> bool:
        """Give the place of a url back that could not be fetched; return whether it was a place of its site's share."""
        return self.max_pages is not None and self._budget(lease.task.host).refund()

    def refund_duplicate(self, lease: Lease) -> bool:
        return self.max_pages is not None and self._budget(lease.task.host).refund_duplicate()

    def _budget(self, host: str) -> PageBudget:
        if host not in self._of_host:
            assert self.max_pages is not None
            site = _site(host)
            self._of_host[host] = self._of_host.setdefault(site, PageBudget(self.max_pages))
        return self._of_host[host]


def _site(host: str) -> str:
    return host.removeprefix("www.")
