"""Online grouping of one site's pages by the template that made them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Self

from llmcrawler.templates.groups import Groups
from llmcrawler.templates.known import KnownPages, Place, features_key
from llmcrawler.templates.matching import Matcher
from llmcrawler.templates.packing import (
    SampleTable,
    clustering_from_json,
    clustering_to_json,
    rules_from_json,
    rules_to_json,
    samples_from_json,
)
from llmcrawler.templates.reservoir import Reservoir
from llmcrawler.templates.splitting import Rule, discriminators, sort_by_label
from llmcrawler.templates.url_tokens import common_pattern, url_tokens
from llmcrawler.templates.values import Assignment, Changes, Clustering, Group, Sample, Snapshot

MAX_RULES = 32
MAX_GROUPS = 96  # two pages of each fit the reservoir
FIRST_CLUSTERING = 6
GROWTH = 1.5
# Before anything is known of the site only near-twins are put together.
TWIN_SIMILARITY = 0.9


class TemplateGrouper:
    """The templates of one site. Deterministic in the order of pages; memory is bounded by the reservoir.

    Call `assign` for every page; when `due`, run `recluster(snapshot())` anywhere and give the result to `adopt`.
    `to_json` and `from_json` carry what was learned into the next crawl, where a page that has not changed gets the
    template it had.
    """

    def __init__(self, prefix: str = "t") -> None:
        self._pages = 0
        self._due_at = FIRST_CLUSTERING
        self._reservoir = Reservoir()
        self._groups = Groups(prefix)
        self._apart: set[tuple[str, str]] = set()
        self._rules: list[Rule] = []
        self._matcher = Matcher()
        self._known = KnownPages()

    @property
    def due(self) -> bool:
        """Whether enough pages have come since the last clustering to make another worth it."""
        return self._pages >= self._due_at

    def assign(self, url: str, features: frozenset[str]) -> Assignment:
        """Put a page into the best group, or open one for it. About 0.2 ms."""
        sample = Sample(url, features, url_tokens(url))
        earlier = self._known.earlier(url)
        is_unchanged = earlier is not None and earlier.features == features_key(features)
        if earlier is not None and is_unchanged and earlier.template:
            return self._recognise(sample, earlier)
        match = self._matcher.match(sample)
        fits = match is not None and match.similarity >= (self._matcher.threshold or TWIN_SIMILARITY)
        fits = fits or (match is not None and is_unchanged)  # a part of the group that it was in is the best there is
        if match is not None and (fits or len(self._groups.counts) >= MAX_GROUPS):
            template = self._by_rule(self.resolve(match.template), sample)
        else:
            template = self._groups.open()
        returns = earlier is not None and fits and (self.resolve(earlier.template) or template) == template
        self._count(template, is_new=not returns)
        loose = fits and match is not None and self._matcher.is_loose(match, template)
        if match is not None and loose:
            self._matcher.set_floor(template, match.similarity)  # what was shown once is no news the next time
        is_sample = self._take_sample(sample, template, loose=loose)
        self._reservoir.keep(sample, template)
        settled = self._matcher.clustered and fits and not loose
        rivals = tuple(sorted({*match.rivals, match.template} - {template})) if match else ()
        if earlier is not None and returns and earlier.settled:
            settled, rivals = True, ()
        self._known.note(sample, template, settled=settled)
        similarity = match.similarity if match else 0.0
        return Assignment(
            template, self._groups.counts[template].pages, is_sample, settled, similarity, rivals, returns
        )

    def count_earlier(self, url: str, template: str) -> str:
        """A page that an earlier run of this same crawl has put into the template is one of its pages now too, or of
        the one that it was moved to since: that is returned.
        """
        place = self._known.earlier(url)
        now = self.resolve(place.template if place and place.template else template)
        if now in self._groups.counts:
            self._groups.counts[now].pages_now += 1
        return now

    def _recognise(self, sample: Sample, place: Place) -> Assignment:
        """A page that is as it was in an earlier crawl tells nothing new."""
        template = self.resolve(place.template)
        self._count(template, is_new=False)
        if sample.url in self._reservoir.pages:
            self._reservoir.here.add(sample.url)
        self._known.note(sample, template, settled=place.settled)
        return Assignment(template, self._groups.counts[template].pages, False, place.settled, 1.0, (), True)

    def _count(self, template: str, *, is_new: bool) -> None:
        state = self._groups.counts[template]
        state.pages_now += 1
        if is_new:
            state.pages += 1
            self._pages += 1

    def _take_sample(self, sample: Sample, template: str, *, loose: bool) -> bool:
        state = self._groups.counts[template]
        is_sample = state.sampled < _samples_wanted(state.pages)
        if is_sample:
            state.sampled += 1
            self._reservoir.sampled.add(sample.url)
        state.add_example(sample.url)
        if is_sample or loose or state.pages <= 2:
            self._matcher.add(sample, template)
        return is_sample

    def match(self, url: str, features: frozenset[str]) -> str | None:
        """The group a page would have now, without counting it; None before the first page."""
        sample = Sample(url, features, url_tokens(url))
        match = self._matcher.match(sample)
        return self._by_rule(self.resolve(match.template), sample) if match else None

    def snapshot(self) -> Snapshot:
        """The reservoir now, for `recluster`; immutable and picklable."""
        samples = tuple(self._reservoir.pages[url] for url in sorted(self._reservoir.pages))
        self._due_at = max(self._pages + 1, int(self._pages * GROWTH))
        return Snapshot(samples, tuple(self._reservoir.group_of[s.url] for s in samples), self._apart_now())

    def adopt(self, clustering: Clustering) -> Changes:
        """Take over a clustering. Ids are kept by greatest overlap; pages that came meanwhile are matched anew."""
        groups_now = [self.resolve(group) for group in clustering.groups]
        named = _keep_ids(groups_now, clustering.clusters)
        ids = {cluster: named.get(cluster) or self._groups.open() for cluster in sorted(set(clustering.clusters))}
        before = dict(self._reservoir.group_of)
        self._matcher = Matcher(clustering)
        for sample, cluster in zip(clustering.samples, clustering.clusters, strict=True):
            self._matcher.add(sample, ids[cluster])
            if sample.url in self._reservoir.group_of:
                self._reservoir.group_of[sample.url] = ids[cluster]
        for cluster, floor in enumerate(clustering.floors):
            self._matcher.set_floor(ids[cluster], floor)
        known = {sample.url for sample in clustering.samples}
        for url in [url for url in self._reservoir.pages if url not in known]:
            match = self._matcher.match(self._reservoir.pages[url])
            if match is not None and match.similarity >= self._matcher.threshold:
                self._reservoir.group_of[url] = match.template
            self._matcher.add(self._reservoir.pages[url], self._reservoir.group_of[url])
        return self._settle(before, dict(zip((s.url for s in clustering.samples), groups_now, strict=True)))

    def split_by(self, template: str, labelled: Mapping[str, str]) -> Changes:
        """Part a group whose samples turned out to have different labels (url -> label).

        Finds the features and url tokens that separate the labels, parts the group's pages by them and
        lets them decide for pages to come. The parts are kept apart in later clusterings.
        The label with most pages keeps the id. No change (an empty Changes) when nothing separates them.
        """
        template = self.resolve(template)
        members = [self._reservoir.pages[url] for url in self._reservoir.members(template)]
        evidence = discriminators([(m, labelled[m.url]) for m in members if m.url in labelled])
        if not evidence:
            return Changes()
        shown = {member.url for member in members if member.url in labelled}
        self._groups.counts[template].sampled += len(shown - self._reservoir.sampled)
        self._reservoir.sampled |= shown
        sides = sort_by_label(members, evidence, labelled)
        before = dict(self._reservoir.group_of)
        ids = {label: template if rank == 0 else self._groups.open() for rank, label in enumerate(sides)}
        for label, urls in sides.items():
            self._reservoir.group_of.update(dict.fromkeys(urls, ids[label]))
        self._apart.update(combinations(ids.values(), 2))
        self._rules = [*self._rules, Rule(evidence, ids)][-MAX_RULES:]
        self._matcher.regroup(self._reservoir.group_of)
        return self._settle(before, before)

    def resolve(self, template: str) -> str:
        """The current id of a group, also of one that was merged into another."""
        return self._groups.resolve(template)

    def go_on(self) -> None:
        """What was restored is of the present crawl."""
        for state in self._groups.counts.values():
            state.pages_now = state.pages

    @property
    def prefix(self) -> str:
        return self._groups.prefix

    @property
    def group_count(self) -> int:
        return sum(1 for state in self._groups.counts.values() if state.pages_now)

    def groups(self) -> list[Group]:
        """The groups that have pages in the present crawl, in order of appearance."""
        return [
            self._group(template, state.pages_now) for template, state in self._groups.in_order() if state.pages_now
        ]

    def learned_groups(self) -> list[Group]:
        """The same over all crawls."""
        return [self._group(template, state.pages) for template, state in self._groups.in_order() if state.pages]

    def to_json(self) -> dict[str, Any]:
        """All that `from_json` needs; urls without scheme and host. The same pages give the same value."""
        rows = self._matcher.rows()
        table = SampleTable({sample.url: sample for sample, _ in rows} | self._reservoir.pages)
        return {
            **self._groups.to_json(),
            "pages": self._pages,
            "due_at": self._due_at,
            "apart": sorted(list(pair) for pair in self._apart_now()),
            "rules": [
                {**rule, "groups": {label: self.resolve(group) for label, group in rule["groups"].items()}}
                for rule in rules_to_json(self._rules)
            ],
            "samples": table.to_json(),
            "reservoir": self._reservoir.to_json(table.number, self.resolve),
            "clustering": clustering_to_json(self._matcher.clustering),
            "matched": [[table.number(sample.url), self.resolve(template)] for sample, template in rows],
            "floors": dict(sorted(self._matcher.floors.items())),
            "known": self._known.to_json(self.resolve),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """A grouper that goes on where another ended, on the site at `origin` ("https://example.com").

        Raises ValueError for anything else than `to_json` gives.
        """
        try:
            return cls._restored(value, origin)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a grouping: {error!r}") from error

    @classmethod
    def _restored(cls, value: Mapping[str, Any], origin: str) -> Self:
        grouper = cls()
        grouper._groups = Groups.from_json(value, origin)
        grouper._pages, grouper._due_at = int(value["pages"]), int(value["due_at"])
        grouper._apart = {(one, other) for one, other in value["apart"]}
        grouper._rules = rules_from_json(value["rules"])
        samples = samples_from_json(value["samples"], origin)
        grouper._reservoir = Reservoir.from_json(value["reservoir"], samples)
        grouper._matcher = Matcher(clustering_from_json(value["clustering"]))
        for number, template in value["matched"]:
            grouper._matcher.add(samples[number], template)
        for template, floor in value["floors"].items():
            grouper._matcher.set_floor(template, float(floor))
        grouper._known = KnownPages.from_json(value["known"])
        grouper._check_ids({template for _, template in value["matched"]})
        return grouper

    def _check_ids(self, matched: set[str]) -> None:
        """Every id that a page can get must have its counts."""
        rules = {template for rule in self._rules for template in rule.groups.values()}
        given = {*self._reservoir.group_of.values(), *matched, *rules, *self._known.templates()}
        unknown = given - self._groups.counts.keys()
        if unknown:
            raise ValueError(f"not the state of a grouping: templates {sorted(unknown)[:3]} are counted nowhere")

    def _group(self, template: str, page_count: int) -> Group:
        examples = self._groups.counts[template].examples
        urls = {*self._reservoir.members(template), *examples}
        aliases = self._groups.aliases_of(template)
        return Group(template, page_count, common_pattern(sorted(urls)), tuple(examples), aliases)

    def _by_rule(self, template: str, sample: Sample) -> str:
        """Among groups that a split has parted, what parted them decides, not the whole page."""
        for rule in self._rules:
            ids = {label: self.resolve(group) for label, group in rule.groups.items()}
            if template in ids.values() and (label := rule.evidence.label_of(sample)) is not None:
                template = ids[label]
        return template

    def _apart_now(self) -> frozenset[tuple[str, str]]:
        pairs = {(self.resolve(one), self.resolve(other)) for one, other in self._apart}
        self._apart = {(one, other) for one, other in pairs if one != other}
        return frozenset(self._apart)

    def _settle(self, before: Mapping[str, str], groups_then: Mapping[str, str]) -> Changes:
        """Bring the counts in line with where the reservoir's pages are now, and say what changed."""
        live = set(self._reservoir.group_of.values())
        moved = {url: now for url, now in self._reservoir.group_of.items() if before.get(url, now) != now}
        aliases: dict[str, str] = {}
        splits: dict[str, list[str]] = {}
        for old in [group for group in self._groups.counts if group not in live]:
            # One that was opened while the clustering ran has no pages in it.
            heirs = self._heirs(old, groups_then) or self._heirs(old, before)
            if heirs:
                aliases[old] = max(sorted(set(heirs)), key=heirs.count)
                self._groups.merge(old, aliases[old])
        for url, now in sorted(moved.items()):
            old = before[url]
            if old not in aliases and now not in splits.setdefault(old, []):
                splits[old].append(now)
            source = aliases.get(old, old)
            if source != now:
                is_here, is_sampled = url in self._reservoir.here, url in self._reservoir.sampled
                self._groups.move(url, source, now, is_here=is_here, is_sampled=is_sampled)
        for old, new_ids in splits.items():
            self._apart |= {(new, b if a == old else a) for a, b in self._apart if old in (a, b) for new in new_ids}
        self._known.follow(self._reservoir.group_of if splits else moved, splits.keys(), self.resolve)
        return Changes(aliases, {old: tuple(new) for old, new in splits.items()}, moved)

    def _heirs(self, old: str, groups_then: Mapping[str, str]) -> list[str]:
        """Where the pages that the group had then are now."""
        group_of = self._reservoir.group_of
        return [group_of[url] for url, group in groups_then.items() if group == old and url in group_of]


def _samples_wanted(pages: int) -> int:
    """Members 1, 4, 16, 64, ... are shown: the first three of a group are often its oddest."""
    wanted = 1
    while pages >= 4**wanted:
        wanted += 1
    return wanted


def _keep_ids(groups: list[str], clusters: tuple[int, ...]) -> dict[int, str]:
    """Cluster -> the old id it shares most pages with; an id goes to one cluster only."""
    overlap: dict[tuple[str, int], int] = {}
    for group, cluster in zip(groups, clusters, strict=True):
        overlap[group, cluster] = overlap.get((group, cluster), 0) + 1
    kept: dict[int, str] = {}
    taken: set[str] = set()
    for (group, cluster), _ in sorted(overlap.items(), key=lambda item: (-item[1], len(item[0][0]), item[0])):
        if cluster not in kept and group not in taken:
            kept[cluster] = group
            taken.add(group)
    return kept
