"""Online grouping of one site's pages by the template that made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import combinations
from typing import Any, Self

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
from llmcrawler.templates.splitting import Rule, discriminators, sort_by_label
from llmcrawler.templates.url_tokens import common_pattern, url_tokens
from llmcrawler.templates.values import Assignment, Changes, Clustering, Group, Sample, Snapshot
from llmcrawler.urls import relative_url

RESERVOIR_PAGES = 256
MAX_RULES = 32
MAX_GROUPS = 96  # two pages of each fit the reservoir
FIRST_CLUSTERING = 6
GROWTH = 1.5
EXAMPLES = 5
# Before anything is known of the site only near-twins are put together.
TWIN_SIMILARITY = 0.9


@dataclass(slots=True)
class _State:
    """What is counted for a group; its pages are in the reservoir. `pages` are those of all crawls, `pages_now` those
    of the present one.
    """

    pages: int = 0
    pages_now: int = 0
    sampled: int = 0
    examples: list[str] = field(default_factory=list)


class TemplateGrouper:
    """The templates of one site. Deterministic in the order of pages; memory is bounded by the reservoir.

    Call `assign` for every page; when `due`, run `recluster(snapshot())` anywhere and give the result to `adopt`.
    `to_json` and `from_json` carry what was learned into the next crawl, where a page that has not changed gets the
    template it had.
    """

    def __init__(self, prefix: str = "t") -> None:
        self._prefix = prefix
        self._issued = 0
        self._pages = 0
        self._due_at = FIRST_CLUSTERING
        self._reservoir: dict[str, Sample] = {}
        self._group_of: dict[str, str] = {}
        self._order: dict[str, bytes] = {}  # url -> hash: who leaves the reservoir first
        self._sampled: set[str] = set()
        self._states: dict[str, _State] = {}
        self._aliases: dict[str, str] = {}
        self._apart: set[tuple[str, str]] = set()
        self._rules: list[Rule] = []
        self._matcher = Matcher()
        self._known = KnownPages()
        self._here: set[str] = set()  # urls of the reservoir that the present crawl has seen

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
        if match is not None and (fits or len(self._states) >= MAX_GROUPS):
            template = self._by_rule(self.resolve(match.template), sample)
        else:
            template = self._open()
        returns = earlier is not None and fits and (self.resolve(earlier.template) or template) == template
        self._count(template, is_new=not returns)
        loose = fits and match is not None and self._matcher.is_loose(match, template)
        if match is not None and loose:
            self._matcher.set_floor(template, match.similarity)  # what was shown once is no news the next time
        is_sample = self._take_sample(sample, template, loose=loose)
        self._keep(sample, template)
        settled = self._matcher.clustered and fits and not loose
        rivals = tuple(sorted({*match.rivals, match.template} - {template})) if match else ()
        if earlier is not None and returns and earlier.settled:
            settled, rivals = True, ()
        self._known.note(sample, template, settled=settled)
        similarity = match.similarity if match else 0.0
        return Assignment(template, self._states[template].pages, is_sample, settled, similarity, rivals, returns)

    def count_earlier(self, url: str, template: str) -> str:
        """A page that an earlier run of this same crawl has put into the template is one of its pages now too, or of
        the one that it was moved to since: that is returned.
        """
        place = self._known.earlier(url)
        now = self.resolve(place.template if place and place.template else template)
        if now in self._states:
            self._states[now].pages_now += 1
        return now

    def _recognise(self, sample: Sample, place: Place) -> Assignment:
        """A page that is as it was in an earlier crawl tells nothing new."""
        template = self.resolve(place.template)
        self._count(template, is_new=False)
        if sample.url in self._reservoir:
            self._here.add(sample.url)
        self._known.note(sample, template, settled=place.settled)
        return Assignment(template, self._states[template].pages, False, place.settled, 1.0, (), True)

    def _count(self, template: str, *, is_new: bool) -> None:
        state = self._states[template]
        state.pages_now += 1
        if is_new:
            state.pages += 1
            self._pages += 1

    def _take_sample(self, sample: Sample, template: str, *, loose: bool) -> bool:
        state = self._states[template]
        is_sample = state.sampled < _samples_wanted(state.pages)
        if is_sample:
            state.sampled += 1
            self._sampled.add(sample.url)
        if len(state.examples) < EXAMPLES and sample.url not in state.examples:
            state.examples.append(sample.url)
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
        samples = tuple(self._reservoir[url] for url in sorted(self._reservoir))
        self._due_at = max(self._pages + 1, int(self._pages * GROWTH))
        return Snapshot(samples, tuple(self._group_of[s.url] for s in samples), self._apart_now())

    def adopt(self, clustering: Clustering) -> Changes:
        """Take over a clustering. Ids are kept by greatest overlap; pages that came meanwhile are matched anew."""
        groups_now = [self.resolve(group) for group in clustering.groups]
        named = _keep_ids(groups_now, clustering.clusters)
        ids = {cluster: named.get(cluster) or self._open() for cluster in sorted(set(clustering.clusters))}
        before = dict(self._group_of)
        self._matcher = Matcher(clustering)
        for sample, cluster in zip(clustering.samples, clustering.clusters, strict=True):
            self._matcher.add(sample, ids[cluster])
            if sample.url in self._group_of:
                self._group_of[sample.url] = ids[cluster]
        for cluster, floor in enumerate(clustering.floors):
            self._matcher.set_floor(ids[cluster], floor)
        known = {sample.url for sample in clustering.samples}
        for url in [url for url in self._reservoir if url not in known]:
            match = self._matcher.match(self._reservoir[url])
            if match is not None and match.similarity >= self._matcher.threshold:
                self._group_of[url] = match.template
            self._matcher.add(self._reservoir[url], self._group_of[url])
        return self._settle(before, dict(zip((s.url for s in clustering.samples), groups_now, strict=True)))

    def split_by(self, template: str, labelled: Mapping[str, str]) -> Changes:
        """Part a group whose samples turned out to have different labels (url -> label).

        Finds the features and url tokens that separate the labels, parts the group's pages by them and
        lets them decide for pages to come. The parts are kept apart in later clusterings.
        The label with most pages keeps the id. No change (an empty Changes) when nothing separates them.
        """
        template = self.resolve(template)
        members = [self._reservoir[url] for url, group in sorted(self._group_of.items()) if group == template]
        evidence = discriminators([(m, labelled[m.url]) for m in members if m.url in labelled])
        if not evidence:
            return Changes()
        shown = {member.url for member in members if member.url in labelled}
        self._states[template].sampled += len(shown - self._sampled)
        self._sampled |= shown
        sides = sort_by_label(members, evidence, labelled)
        before = dict(self._group_of)
        ids = {label: template if rank == 0 else self._open() for rank, label in enumerate(sides)}
        for label, urls in sides.items():
            self._group_of.update(dict.fromkeys(urls, ids[label]))
        self._apart.update(combinations(ids.values(), 2))
        self._rules = [*self._rules, Rule(evidence, ids)][-MAX_RULES:]
        self._matcher.regroup(self._group_of)
        return self._settle(before, before)

    def resolve(self, template: str) -> str:
        """The current id of a group, also of one that was merged into another."""
        while template in self._aliases:
            template = self._aliases[template]
        return template

    def go_on(self) -> None:
        """What was restored is of the present crawl."""
        for state in self._states.values():
            state.pages_now = state.pages

    @property
    def prefix(self) -> str:
        return self._prefix

    @property
    def group_count(self) -> int:
        return sum(1 for state in self._states.values() if state.pages_now)

    def groups(self) -> list[Group]:
        """The groups that have pages in the present crawl, in order of appearance."""
        return [self._group(template, state.pages_now) for template, state in self._in_order() if state.pages_now]

    def learned_groups(self) -> list[Group]:
        """The same over all crawls."""
        return [self._group(template, state.pages) for template, state in self._in_order() if state.pages]

    def to_json(self) -> dict[str, Any]:
        """All that `from_json` needs; urls without scheme and host. The same pages give the same value."""
        rows = self._matcher.rows()
        table = SampleTable({sample.url: sample for sample, _ in rows} | self._reservoir)
        return {
            "prefix": self._prefix,
            "issued": self._issued,
            "pages": self._pages,
            "due_at": self._due_at,
            "groups": {
                template: [state.pages, state.sampled, [relative_url(url) for url in state.examples]]
                for template, state in self._in_order()
            },
            "apart": sorted(list(pair) for pair in self._apart_now()),
            "rules": [
                {**rule, "groups": {label: self.resolve(group) for label, group in rule["groups"].items()}}
                for rule in rules_to_json(self._rules)
            ],
            "samples": table.to_json(),
            "reservoir": [
                [table.number(url), self.resolve(self._group_of[url]), int(url in self._sampled)]
                for url in sorted(self._reservoir)
            ],
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
        grouper = cls(value["prefix"])
        grouper._issued, grouper._pages, grouper._due_at = (int(value[name]) for name in ("issued", "pages", "due_at"))
        for template, (pages, sampled, examples) in value["groups"].items():
            grouper._states[template] = _State(int(pages), 0, int(sampled), [origin + path for path in examples])
        grouper._apart = {(one, other) for one, other in value["apart"]}
        grouper._rules = rules_from_json(value["rules"])
        samples = samples_from_json(value["samples"], origin)
        for number, template, is_sampled in value["reservoir"]:
            grouper._hold(samples[number], template)
            if is_sampled:
                grouper._sampled.add(samples[number].url)
        grouper._matcher = Matcher(clustering_from_json(value["clustering"]))
        for number, template in value["matched"]:
            grouper._matcher.add(samples[number], template)
        for template, floor in value["floors"].items():
            grouper._matcher.set_floor(template, float(floor))
        grouper._known = KnownPages.from_json(value["known"])
        grouper._check_ids({template for _, template in value["matched"]})
        return grouper

    def _check_ids(self, matched: set[str]) -> None:
        """Every id that a page can get must have its counts, and no new group may get the id of an old one."""
        rules = {template for rule in self._rules for template in rule.groups.values()}
        unknown = {*self._group_of.values(), *matched, *rules, *self._known.templates()} - self._states.keys()
        numbers = [int(template.removeprefix(self._prefix)) for template in self._states]
        if unknown or max(numbers, default=0) > self._issued:
            raise ValueError(f"not the state of a grouping: templates {sorted(unknown)[:3]}, {self._issued} issued")

    def _in_order(self) -> list[tuple[str, _State]]:
        return sorted(self._states.items(), key=lambda item: int(item[0][len(self._prefix) :]))

    def _group(self, template: str, page_count: int) -> Group:
        pattern = common_pattern(self._urls_of(template))
        return Group(template, page_count, pattern, tuple(self._states[template].examples))

    def _urls_of(self, template: str) -> list[str]:
        urls = {url for url, group in self._group_of.items() if group == template}
        return sorted(urls.union(self._states[template].examples))

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

    def _open(self) -> str:
        self._issued += 1
        template = f"{self._prefix}{self._issued}"
        self._states[template] = _State()
        return template

    def _keep(self, sample: Sample, template: str) -> None:
        """Hold the page if its url hashes low enough; of each group two pages stay, samples first."""
        self._hold(sample, template)
        self._here.add(sample.url)
        if len(self._reservoir) <= RESERVOIR_PAGES:
            return
        counts = Counter(self._group_of.values())
        spare = [url for url, group in self._group_of.items() if counts[group] > 2]
        gone = max(spare or self._reservoir, key=lambda url: (url not in self._sampled, self._order[url]))
        del self._reservoir[gone], self._group_of[gone], self._order[gone]
        self._sampled.discard(gone)
        self._here.discard(gone)

    def _hold(self, sample: Sample, template: str) -> None:
        self._reservoir[sample.url] = sample
        self._group_of[sample.url] = template
        self._order[sample.url] = blake2b(sample.url.encode("utf-8", "replace"), digest_size=8).digest()

    def _settle(self, before: Mapping[str, str], groups_then: Mapping[str, str]) -> Changes:
        """Bring the counts in line with where the reservoir's pages are now, and say what changed."""
        live = set(self._group_of.values())
        moved = {url: now for url, now in self._group_of.items() if before.get(url, now) != now}
        aliases: dict[str, str] = {}
        splits: dict[str, list[str]] = {}
        for old in [group for group in self._states if group not in live]:
            heirs = [
                self._group_of[url] for url, group in groups_then.items() if group == old and url in self._group_of
            ]
            if heirs:
                aliases[old] = max(sorted(set(heirs)), key=heirs.count)
                self._merge(old, aliases[old])
        for url, now in sorted(moved.items()):
            old = before[url]
            if old not in aliases and now not in splits.setdefault(old, []):
                splits[old].append(now)
            source = aliases.get(old, old)
            if source != now:
                self._move_count(url, source, now)
        for old, new_ids in splits.items():
            self._apart |= {(new, b if a == old else a) for a, b in self._apart if old in (a, b) for new in new_ids}
        self._known.follow(self._group_of if splits else moved, splits.keys(), self.resolve)
        return Changes(aliases, {old: tuple(new) for old, new in splits.items()}, moved)

    def _merge(self, old: str, new: str) -> None:
        gone, heir = self._states.pop(old), self._states[new]
        heir.pages += gone.pages
        heir.pages_now += gone.pages_now
        heir.sampled += gone.sampled
        heir.examples = [*heir.examples, *gone.examples][:EXAMPLES]
        self._aliases[old] = new

    def _move_count(self, url: str, old: str, now: str) -> None:
        source, target = self._states[old], self._states[now]
        source.pages, target.pages = source.pages - 1, target.pages + 1
        if url in self._here:
            source.pages_now, target.pages_now = source.pages_now - 1, target.pages_now + 1
        if url in self._sampled:
            source.sampled, target.sampled = source.sampled - 1, target.sampled + 1
        if url in source.examples:
            source.examples.remove(url)
        if len(target.examples) < EXAMPLES:
            target.examples.append(url)


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
