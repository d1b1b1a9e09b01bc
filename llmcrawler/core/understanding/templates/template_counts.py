"""Issues the ids of a site's groups, and counts the pages of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from llmcrawler.core.urls import relative_url

EXAMPLES = 5
MAX_ALIASES = 1000  # of one site, the newest; a recurring crawl adds a few each time


@dataclass(slots=True)
class GroupCounts:
    """Counts of a group: `pages` of all crawls, `pages_now` of the present one, `sampled` that were samples."""

    pages: int = 0
    pages_now: int = 0
    sampled: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def wants_sample(self) -> bool:
        """Tell whether the newest page is a sample: members 1, 4, 16, ... are, as the first are often the oddest."""
        return self.sampled < (max(1, self.pages).bit_length() + 1) // 2

    def add_example(self, url: str) -> None:
        if len(self.examples) < EXAMPLES and url not in self.examples:
            self.examples.append(url)


class TemplateCounts:
    """Issues each id once. Of two groups that are merged one id goes on, and the other becomes its alias."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.issued = 0
        self.counts: dict[str, GroupCounts] = {}
        self._aliases: dict[str, str] = {}

    def open(self) -> str:
        self.issued += 1
        template = f"{self.prefix}{self.issued}"
        self.counts[template] = GroupCounts()
        return template

    def resolve(self, template: str) -> str:
        while template in self._aliases:
            template = self._aliases[template]
        return template

    def merge(self, old: str, new: str) -> None:
        gone, heir = self.counts.pop(old), self.counts[new]
        heir.pages += gone.pages
        heir.pages_now += gone.pages_now
        heir.sampled += gone.sampled
        heir.examples = [*heir.examples, *gone.examples][:EXAMPLES]
        self._aliases[old] = new

    def aliases_of(self, template: str) -> tuple[str, ...]:
        """Return the ids that were merged into this one, in the order of their issue: lines of a feed may name them."""
        return tuple(sorted((one for one in self._aliases if self.resolve(one) == template), key=self._number))

    def move(self, url: str, old: str, now: str, *, is_here: bool, is_sampled: bool) -> None:
        """Move one page from group to group. `is_here`: the present crawl has seen it."""
        source, target = self.counts[old], self.counts[now]
        source.pages, target.pages = source.pages - 1, target.pages + 1
        if is_here:
            source.pages_now, target.pages_now = source.pages_now - 1, target.pages_now + 1
        if is_sampled:
            source.sampled, target.sampled = source.sampled - 1, target.sampled + 1
        if url in source.examples:
            source.examples.remove(url)
        target.add_example(url)

    def to_json(self) -> dict[str, Any]:
        """Give the counts as JSON; urls are without scheme and host."""
        counts = {
            template: [one.pages, one.sampled, [relative_url(url) for url in one.examples]]
            for template, one in self.in_order()
        }
        newest = sorted(self._aliases, key=self._number)[-MAX_ALIASES:]
        aliases = {alias: self.resolve(alias) for alias in newest}
        return {"prefix": self.prefix, "issued": self.issued, "groups": counts, "aliases": aliases}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Restore the counts of an earlier crawl. Raises ValueError where a new group might get the id of another."""
        groups = cls(value["prefix"])
        groups.issued = int(value["issued"])
        for template, (pages, sampled, examples) in value["groups"].items():
            groups.counts[template] = GroupCounts(int(pages), 0, int(sampled), [origin + path for path in examples])
        groups._aliases = {alias: heir for alias, heir in value["aliases"].items() if heir in groups.counts}
        if groups._aliases.keys() & groups.counts.keys():
            raise ValueError("not the state of a grouping: a template is an alias, too")
        given = {*groups.counts, *groups._aliases}
        if max((groups._number(template) for template in given), default=0) > groups.issued:
            raise ValueError(f"not the state of a grouping: only {groups.issued} ids issued")
        return groups

    def in_order(self) -> list[tuple[str, GroupCounts]]:
        """Return the groups in the order of their appearance."""
        return sorted(self.counts.items(), key=lambda item: self._number(item[0]))

    def _number(self, template: str) -> int:
        return int(template.removeprefix(self.prefix))


def keep_ids(groups: list[str], clusters: tuple[int, ...]) -> dict[int, str]:
    """Return cluster -> the old id it shares most pages with; an id goes to one cluster only."""
    overlap = Counter(zip(groups, clusters, strict=True))
    kept: dict[int, str] = {}
    taken: set[str] = set()
    for (group, cluster), _ in sorted(overlap.items(), key=lambda item: (-item[1], len(item[0][0]), item[0])):
        if cluster not in kept and group not in taken:
            kept[cluster] = group
            taken.add(group)
    return kept
