"""Counts how many urls a crawl may still lease under `max_pages`."""

from __future__ import annotations

from llmcrawler.crawl.job_resume import ResumeState
from llmcrawler.frontier import Counts, Lease
from llmcrawler.reporting.figures import FAILED_PER_PAGE


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
        """Count a lease. An entry of a list that cannot be fetched takes no place."""
        if self.repeats and (lease.is_stored or lease.is_known):
            self.repeats -= 1
        elif not lease.task.fault:
            self.spent += 1

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
