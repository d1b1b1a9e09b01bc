"""Counts how many urls of each site a crawl may still lease under `max_pages_per_site`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmcrawler.engine.page_budget import PageBudget
from llmcrawler.frontier import Counts, Frontier, Lease, MemoryFrontier, SqliteFrontier


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
            if budget.left() > 0 or _is_free(lease, budget):
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


def _is_free(lease: Lease, budget: PageBudget) -> bool:
    """Tell whether the lease takes no new place of its site."""
    return bool(lease.task.fault) or bool(budget.repeats and (lease.is_stored or lease.is_known))
