"""Groups one site's pages by the template that made them, each as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from llmcrawler.core.understanding.templates.grouping_types import (
    Assignment,
    Changes,
    Clustering,
    Names,
    PageSample,
    SimilarityMetric,
    Snapshot,
    TemplateSummary,
)
from llmcrawler.core.understanding.templates.known_pages import KnownPages, PagePlacement
from llmcrawler.core.understanding.templates.matching import Matcher
from llmcrawler.core.understanding.templates.page_lookup import PageLookup, earlier_placement, is_close
from llmcrawler.core.understanding.templates.reservoir import Reservoir, SampleTable, samples_from_json
from llmcrawler.core.understanding.templates.splitting import (
    Splits,
    discriminators,
    holds_for_others,
    of_common_labels,
    sort_by_label,
)
from llmcrawler.core.understanding.templates.template_counts import TemplateCounts, keep_ids
from llmcrawler.core.understanding.templates.url_tokens import common_pattern

MAX_GROUPS = 96  # two pages of each fit the reservoir
FIRST_CLUSTERING, GROWTH = 6, 1.5  # pages


class TemplateGrouper:
    """Groups the pages of one site. Deterministic in the order of pages; memory is bounded by the reservoir.

    Call `assign` for every page; when `due`, run `recluster(snapshot())` anywhere and give the result to `adopt`.
    `to_json` and `from_json` carry what was learned into the next crawl, where a page that has not changed gets the
    template it had.
    """

    def __init__(self, prefix: str = "t") -> None:
        self._pages = 0
        self._due_at = FIRST_CLUSTERING
        self._reservoir = Reservoir()
        self._groups = TemplateCounts(prefix)
        self._splits = Splits(self.resolve)
        self._matcher = Matcher()
        self._known = KnownPages()

    @property
    def due(self) -> bool:
        """Tell whether enough pages have come since the last clustering to make another worth it."""
        return self._pages >= self._due_at

    def assign(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> Assignment:
        """Put a page into the best group, or open one for it. Takes about 0.2 ms."""
        sample = PageSample.of(url, features, title, words)
        earlier, is_unchanged = earlier_placement(self._known, sample)
        if earlier is not None and is_unchanged and earlier.template:
            return self._recognise(sample, earlier)
        match = self._matcher.match(sample)
        fits = match is not None and is_close(self._matcher, match, is_unchanged=is_unchanged)
        if match is not None and (fits or len(self._groups.counts) >= MAX_GROUPS):
            template = self._splits.part_for(self.resolve(match.template), sample)
        else:
            template = self._groups.open()
        returns = earlier is not None and fits and (self.resolve(earlier.template) or template) == template
        self._count(template, is_new=not returns)
        loose = fits and match is not None and self._matcher.is_loose(match, template)
        if match is not None and loose:
            self._matcher.floors[template] = match.similarity  # what was shown once is no news the next time
        is_sample = self._take_sample(sample, template, loose=loose)
        self._reservoir.keep(sample, template)
        settled = self._matcher.metric is not None and fits and not loose
        rivals = tuple(sorted({*match.rivals, match.template} - {template})) if match else ()
        if earlier is not None and returns and earlier.settled:
            settled, rivals = True, ()
        self._known.note(sample, template, settled=settled)
        member, similarity = self._groups.counts[template].pages, match.similarity if match else 0.0
        return Assignment(template, member, is_sample, settled, similarity, rivals, returns)

    def count_earlier(self, url: str, template: str) -> str:
        """Count a page that an earlier run of this crawl has put into the template; return the template it has now."""
        earlier = self._known.earlier(url)
        now = self.resolve(earlier.template if earlier and earlier.template else template)
        if now in self._groups.counts:
            self._groups.counts[now].pages_now += 1
        return now

    def move(self, url: str, template: str) -> None:
        """Count a page of this crawl for another template, which its record has shown to be its own."""
        old, now = self.resolve(self._known.move(url, template) or template), self.resolve(template)
        if old != now and {old, now} <= self._groups.counts.keys():
            self._groups.move(url, old, now, is_here=True, is_sampled=url in self._reservoir.sampled)
            self._reservoir.move(url, now)

    def template_now(self, url: str, template: str) -> str | None:
        """Return what became of the `template` of a page of an earlier crawl; None where only its features tell."""
        earlier = self._known.earlier(url)
        name = template if earlier is None else earlier.template
        return self.resolve(name) if name else None

    def _recognise(self, sample: PageSample, earlier: PagePlacement) -> Assignment:
        """Count a page that is as it was in an earlier crawl: it tells nothing new."""
        template = self.resolve(earlier.template)
        self._count(template, is_new=False)
        if sample.url in self._reservoir.pages:
            self._reservoir.here.add(sample.url)
        self._known.note(sample, template, settled=earlier.settled)
        return Assignment(template, self._groups.counts[template].pages, False, earlier.settled, 1.0, (), True)

    def _count(self, template: str, *, is_new: bool) -> None:
        state = self._groups.counts[template]
        state.pages_now += 1
        if is_new:
            state.pages += 1
            self._pages += 1

    def _take_sample(self, sample: PageSample, template: str, *, loose: bool) -> bool:
        state = self._groups.counts[template]
        if is_sample := state.wants_sample:
            state.sampled += 1
            self._reservoir.sampled.add(sample.url)
        state.add_example(sample.url)
        if is_sample or loose or state.pages <= 2:
            self._matcher.add(sample, template)
        return is_sample

    def match(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> str | None:
        """Return the group a page would have now, without counting it; None before the first page."""
        sample = PageSample.of(url, features, title, words)
        match = self._matcher.match(sample)
        return self._splits.part_for(self.resolve(match.template), sample) if match else None

    def lookup(self) -> PageLookup:
        """Return what tells the templates of pages as they are now; good until the next `assign`."""
        return PageLookup(self._matcher, self._known, self._splits, self.resolve)

    def snapshot(self) -> Snapshot:
        """Return the reservoir as it is now, for `recluster`; immutable and picklable."""
        samples = tuple(self._reservoir.pages[url] for url in sorted(self._reservoir.pages))
        self._due_at = max(self._pages + 1, int(self._pages * GROWTH))
        return Snapshot(samples, tuple(self._reservoir.group_of[s.url] for s in samples), self._splits.apart())

    def adopt(self, clustering: Clustering) -> Changes:
        """Take over a clustering. Ids are kept by greatest overlap; pages that came meanwhile are matched anew."""
        samples, group_of = clustering.snapshot.samples, self._reservoir.group_of
        groups_now = [self.resolve(group) for group in clustering.snapshot.groups]
        named = keep_ids(groups_now, clustering.clusters)
        ids = {cluster: named.get(cluster) or self._groups.open() for cluster in sorted(set(clustering.clusters))}
        before = dict(group_of)
        self._matcher = Matcher(clustering.metric)
        self._matcher.floors = {ids[cluster]: floor for cluster, floor in enumerate(clustering.floors)}
        for sample, cluster in zip(samples, clustering.clusters, strict=True):
            self._matcher.add(sample, ids[cluster])
            if sample.url in group_of:
                group_of[sample.url] = ids[cluster]
        known = {sample.url: group for sample, group in zip(samples, groups_now, strict=True)}
        for url, sample in self._reservoir.pages.items():
            if url not in known:
                match = self._matcher.match(sample)
                if match is not None and match.similarity >= self._matcher.threshold:
                    group_of[url] = match.template
                self._matcher.add(sample, group_of[url])
        return self._settle(before, known)

    def split_by(self, template: str, labelled: Mapping[str, str]) -> Changes:
        """Part a group whose samples turned out to have different labels (url -> label).

        Finds the features, url tokens and words that separate the labels, parts the group's pages by them and
        lets them decide for pages to come. The parts are kept apart in later clusterings.
        The label with most pages keeps the id. No change (an empty Changes) when nothing separates them.
        """
        template = self.resolve(template)
        members = [self._reservoir.pages[url] for url in self._reservoir.members(template)]
        known = of_common_labels([(m, labelled[m.url]) for m in members if m.url in labelled])
        if not (shares := discriminators(known)) or not holds_for_others(known):
            return Changes()
        shown = {member.url for member in members if member.url in labelled}
        self._groups.counts[template].sampled += len(shown - self._reservoir.sampled)
        self._reservoir.sampled |= shown
        sides = sort_by_label(members, shares, {member.url: label for member, label in known})
        before = dict(self._reservoir.group_of)
        ids = {label: template if rank == 0 else self._groups.open() for rank, label in enumerate(sides)}
        for label, urls in sides.items():
            self._reservoir.group_of.update(dict.fromkeys(urls, ids[label]))
        self._splits.add(shares, ids)
        self._matcher.regroup(self._reservoir.group_of)
        return self._settle(before, before)

    def resolve(self, template: str) -> str:
        """Return the current id of a group, also of one that was merged into another."""
        return self._groups.resolve(template)

    def go_on(self) -> None:
        """Count all pages that were restored as pages of the present crawl."""
        for state in self._groups.counts.values():
            state.pages_now = state.pages

    @property
    def prefix(self) -> str:
        return self._groups.prefix

    @property
    def group_count(self) -> int:
        return sum(1 for state in self._groups.counts.values() if state.pages_now)

    def groups(self) -> list[TemplateSummary]:
        """Return the groups that have pages in the present crawl, in order of appearance."""
        return [self._summary(name, state.pages_now) for name, state in self._groups.in_order() if state.pages_now]

    def learned_groups(self) -> list[TemplateSummary]:
        """Return the groups of all crawls, in order of appearance."""
        return [self._summary(name, state.pages) for name, state in self._groups.in_order() if state.pages]

    def to_json(self) -> dict[str, Any]:
        """Give all that `from_json` needs; urls without scheme and host. The same pages give the same value."""
        rows = self._matcher.rows()
        table = SampleTable({sample.url: sample for sample, _ in rows} | self._reservoir.pages)
        return {
            **self._groups.to_json(),
            "pages": self._pages,
            "due_at": self._due_at,
            **self._splits.to_json(),
            "samples": table.to_json(),
            "reservoir": self._reservoir.to_json(table.number, self.resolve),
            "clustering": self._matcher.metric and self._matcher.metric.to_json(),
            "matched": [[table.number(sample.url), self.resolve(template)] for sample, template in rows],
            "floors": dict(sorted(self._matcher.floors.items())),
            "known": self._known.to_json(self.resolve),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Restore a grouper that goes on where another ended, on the site at `origin` ("https://example.com").

        Raises ValueError for anything else than `to_json` gives.
        """
        try:
            return cls._restored(value, origin)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a grouping: {error!r}") from error

    @classmethod
    def _restored(cls, value: Mapping[str, Any], origin: str) -> Self:
        grouper = cls()
        grouper._groups = TemplateCounts.from_json(value, origin)
        grouper._pages, grouper._due_at = int(value["pages"]), int(value["due_at"])
        grouper._splits = Splits.from_json(value, grouper.resolve)
        samples = samples_from_json(value["samples"], origin)
        grouper._reservoir = Reservoir.from_json(value["reservoir"], samples)
        metric = value["clustering"]
        grouper._matcher = Matcher(None if metric is None else SimilarityMetric.from_json(metric))
        for number, template in value["matched"]:
            grouper._matcher.add(samples[number], template)
        grouper._matcher.floors = {template: float(floor) for template, floor in value["floors"].items()}
        grouper._known = KnownPages.from_json(value["known"])
        grouper._check_ids({template for _, template in value["matched"]})
        return grouper

    def _check_ids(self, matched: set[str]) -> None:
        """Raise ValueError where a page could get an id that has no counts."""
        given = {*self._reservoir.group_of.values(), *matched, *self._splits.templates(), *self._known.templates()}
        if unknown := given - self._groups.counts.keys():
            raise ValueError(f"not the state of a grouping: templates {sorted(unknown)[:3]} are counted nowhere")

    def _summary(self, template: str, page_count: int) -> TemplateSummary:
        examples = self._groups.counts[template].examples
        pattern = common_pattern(sorted({*self._reservoir.members(template), *examples}))
        return TemplateSummary(template, page_count, pattern, tuple(examples), self._groups.aliases_of(template))

    def _settle(self, before: Mapping[str, str], groups_then: Mapping[str, str]) -> Changes:
        """Bring the counts in line with the groups that the reservoir's pages have now, and return what changed."""
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
            if (source := aliases.get(old, old)) != now:
                is_here, is_sampled = url in self._reservoir.here, url in self._reservoir.sampled
                self._groups.move(url, source, now, is_here=is_here, is_sampled=is_sampled)
        for old, new_ids in splits.items():
            self._splits.note_parts(old, new_ids)
        self._known.follow(self._reservoir.group_of if splits else moved, splits.keys(), self.resolve)
        return Changes(aliases, {old: tuple(new) for old, new in splits.items()}, moved)

    def _heirs(self, old: str, groups_then: Mapping[str, str]) -> list[str]:
        """Return the present groups of the pages that the group had then."""
        group_of = self._reservoir.group_of
        return [group_of[url] for url, group in groups_then.items() if group == old and url in group_of]
