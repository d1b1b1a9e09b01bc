"""Entries of lists that cannot be fetched: counted, and told once."""

from __future__ import annotations

from llmcrawler.crawl.task_lists import ListedTask
from llmcrawler.errors import ConfigError


class ListFaults:
    """Counts the entries of a list that cannot be fetched; `keeps` them as well."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._count = 0
        self._first = ""
        self.tasks: list[ListedTask] = []

    def takes(self, task: ListedTask) -> bool:
        """Count a task if it cannot be fetched."""
        if task.fault:
            self._count += 1
            self._first = self._first or task.fault
            if self._keeps:
                self.tasks.append(task)
        return bool(task.fault)

    def values(self, argument: str, fetched: int) -> dict[str, str]:
        """Return what is said of them at the start. Raises ConfigError where there is nothing else in the list."""
        if not fetched:
            raise ConfigError(f"{argument}: {self._first or 'there is nothing in it to fetch'}")
        if not self._count:
            return {}
        told = f"{argument}: {self._count:,} of {self._count + fetched:,} entries cannot be fetched, and each gets a"
        return {"list_fault": f"{told} line with its error, as {self._first}"}
