"""Groups one site's pages by the template that made them, each as it comes, and parts groups by what the model says."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Any, Final, NamedTuple, Self

from llmcrawler.core.understanding.templates.clustering import (
    Clustering,
    GroupMatch,
    Matcher,
    SimilarityMetric,
    Snapshot,
    as_texts,
)
from llmcrawler.core.understanding.templates.page_sample import Names, PageSample, common_pattern
from llmcrawler.core.urls import relative_url

MAX_GROUPS: Final = 96  # two pages of each fit the reservoir
RESERVOIR_PAGES: Final = 256
FIRST_CLUSTERING, GROWTH = 6, 1.5  # pages
_TWIN_SIMILARITY: Final = 0.9  # before anything is known of the site only near-twins are put together
_EXAMPLES: Final = 5
_MAX_ALIASES: Final = 1000  # of one site, the newest; a recurring crawl adds a few each time
_MAX_KNOWN_PAGES: Final = 20_000  # some 16 bytes each in a file
_URL_BYTES: Final = 6  # two of 20,000 pages collide once in a million sites
_FEATURES_BYTES: Final = 3
_MAX_RULES: Final = 32
_MAX_DISCRIMINATORS: Final = 24
_MIN_DIFFERENCE: Final = 0.6
_MIN_RECALL: Final = 0.75  # what separates samples has to tell each label of so many of those that it was not found on

_Labelled = Sequence[tuple[PageSample, str]]
Shares = Mapping[str, Mapping[str, float]]  # feature -> label -> share of the label's pages that have it, in 0..1


@dataclass(frozen=True, slots=True)
class Assignment:
    """The group that a page was put into.

    `member` counts the pages of the group, this one included. `is_sample`: the page is one of those whose label should
    be asked, as a vote of the group (1, 4, 16, 64, ...). Where the group is not trusted for this page (nothing was
    clustered yet, it opens the group or is unlike the others), `settled` is False: ask about the page itself, and use
    the answer for `split_by`, not as a vote. `rivals` are groups that fit nearly as well: ask too where their verdict
    differs. `is_known`: an earlier crawl has put the page there, so it is no new member.
    """

    template: str
    member: int = 1
    is_sample: bool = False
    settled: bool = False
    similarity: float = 0.0
    rivals: tuple[str, ...] = ()
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by a regrouping: `aliases` old id -> the id it was merged into, `splits` old id -> ids that left it,
    `moved` url -> id of those pages of the reservoir whose group changed.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TemplateSummary:
    """A template as reports and feeds show it. `aliases` are the ids that were merged into this one."""

    template: str
    page_count: int
    url_pattern: str
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()


class TemplateGrouper:
    """Groups the pages of one site. Deterministic in the order of pages; memory is bounded by the reservoir.

    Call `assign` for every page; when `due`, run `recluster(snapshot())` anywhere and give the result to `adopt`.
    `to_json` and `from_json` carry what was learned into the next crawl, where a page that has not changed gets the
    template it had.
    """

    def __init__(self, prefix: str = "t") -> None:
        self._pages = 0
        self._due_at = FIRST_CLUSTERING
        self._reservoir = _Reservoir()
        self._groups = _Groups(prefix)
        self._splits = _Splits(self.resolve)
        self._matcher = Matcher()
        self._known = _KnownPages()

    @property
    def due(self) -> bool:
        """Tell whether enough pages have come since the last clustering to cluster again."""
        return self._pages >= self._due_at

    @property
    def prefix(self) -> str:
        return self._groups.prefix

    @property
    def group_count(self) -> int:
        return sum(1 for state in self._groups.counts.values() if state.pages_now)

    def resolve(self, template: str) -> str:
        return self._groups.resolve(template)

    def find(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> Assignment | None:
        """Return what `assign` would, without counting the page: it gets the same answer whatever pages came before it.
        None for one that is unlike all that are known.
        """
        return self._find(PageSample.of(url, features, title, words))[0]

    def match(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> str | None:
        """Return the group a page would have now, without counting it; None before the first page."""
        sample = PageSample.of(url, features, title, words)
        match = self._matcher.match(sample)
        return self._splits.part_for(self.resolve(match.template), sample) if match else None

    def assign(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> Assignment:
        """Put a page into the best group, or open one for it. Takes about 0.2 ms."""
        sample = PageSample.of(url, features, title, words)
        found, match = self._find(sample)
        is_repeated = found is not None and match is None  # as in an earlier crawl: it tells nothing new
        is_loose = found is not None and not is_repeated and self._matcher.is_loose(found.similarity, found.template)
        if found is None:
            if match is not None and len(self._groups.counts) >= MAX_GROUPS:
                template = self._splits.part_for(self.resolve(match.template), sample)
            else:
                template = self._groups.open()
            found = Assignment(template)
            if match is not None:
                found = replace(found, similarity=match.similarity, rivals=_rivals(match, template))
        state, is_sample = self._groups.counts[found.template], False
        state.pages_now += 1
        if not found.is_known:
            state.pages += 1
            self._pages += 1
        if is_repeated:
            if url in self._reservoir.pages:
                self._reservoir.here.add(url)
        else:
            # Members 1, 4, 16, ... are samples, as the first are often the oddest.
            is_sample = state.sampled < (max(1, state.pages).bit_length() + 1) // 2
            if is_sample:
                state.sampled += 1
                self._reservoir.sampled.add(url)
            state.add_example(url)
            if is_loose:
                self._matcher.floors[found.template] = found.similarity  # what was shown once is no news the next time
            if is_sample or is_loose or state.pages <= 2:
                self._matcher.add(sample, found.template)
            self._reservoir.keep(sample, found.template)
        self._known.note(sample, found.template, settled=found.settled)
        return replace(found, member=state.pages, is_sample=is_sample)

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
            if url in self._reservoir.group_of:
                self._reservoir.group_of[url] = now

    def snapshot(self) -> Snapshot:
        """Return the reservoir as it is now, for `recluster`; immutable and picklable."""
        samples = tuple(self._reservoir.pages[url] for url in sorted(self._reservoir.pages))
        self._due_at = max(self._pages + 1, int(self._pages * GROWTH))
        return Snapshot(samples, tuple(self._reservoir.group_of[s.url] for s in samples), self._splits.apart())

    def adopt(self, clustering: Clustering) -> Changes:
        """Take over a clustering. Ids are kept by greatest overlap; pages that came meanwhile are matched anew."""
        samples, group_of = clustering.snapshot.samples, self._reservoir.group_of
        groups_then = [self.resolve(group) for group in clustering.snapshot.groups]
        ids: dict[int, str] = {}
        overlap = Counter(zip(groups_then, clustering.clusters, strict=True))
        for (group, cluster), _ in sorted(overlap.items(), key=lambda item: (-item[1], len(item[0][0]), item[0])):
            if cluster not in ids and group not in ids.values():
                ids[cluster] = group
        for cluster in sorted(set(clustering.clusters) - ids.keys()):
            ids[cluster] = self._groups.open()
        before = dict(group_of)
        self._matcher = Matcher(clustering.metric)
        self._matcher.floors = {ids[cluster]: floor for cluster, floor in enumerate(clustering.floors)}
        for sample, cluster in zip(samples, clustering.clusters, strict=True):
            self._matcher.add(sample, ids[cluster])
            if sample.url in group_of:
                group_of[sample.url] = ids[cluster]
        known = {sample.url: group for sample, group in zip(samples, groups_then, strict=True)}
        for url, sample in self._reservoir.pages.items():
            if url not in known:
                match = self._matcher.match(sample)
                if match is not None and match.similarity >= self._matcher.threshold:
                    group_of[url] = match.template
                self._matcher.add(sample, group_of[url])
        return self._settle(before, known)

    def split_by(self, template: str, labelled: Mapping[str, str]) -> Changes:
        """Part a group whose samples turned out to have different labels (url -> label), by what separates them; this
        decides for pages to come, too. The label with most pages keeps the id. No Changes where nothing separates them.
        """
        template = self.resolve(template)
        members = [self._reservoir.pages[url] for url in self._reservoir.members(template)]
        found = _separate(members, labelled)
        if found is None:
            return Changes()
        shares, sides = found
        shown = {member.url for member in members if member.url in labelled}
        self._groups.counts[template].sampled += len(shown - self._reservoir.sampled)
        self._reservoir.sampled |= shown
        before = dict(self._reservoir.group_of)
        ids = {label: template if rank == 0 else self._groups.open() for rank, label in enumerate(sides)}
        for label, urls in sides.items():
            self._reservoir.group_of.update(dict.fromkeys(urls, ids[label]))
        self._splits.add(shares, ids)
        self._matcher.regroup(self._reservoir.group_of)
        return self._settle(before, before)

    def go_on(self) -> None:
        """Count all pages that were restored as pages of the present crawl."""
        for state in self._groups.counts.values():
            state.pages_now = state.pages

    def groups(self) -> list[TemplateSummary]:
        """Return the groups that have pages in the present crawl, in order of appearance."""
        return [self._summary(name, state.pages_now) for name, state in self._groups.in_order() if state.pages_now]

    def learned_groups(self) -> list[TemplateSummary]:
        return [self._summary(name, state.pages) for name, state in self._groups.in_order() if state.pages]

    def to_json(self) -> dict[str, Any]:
        """Give all that `from_json` needs; urls without scheme and host. The same pages give the same value."""
        rows, reservoir = self._matcher.rows(), self._reservoir
        samples = dict(sorted(({sample.url: sample for sample, _ in rows} | reservoir.pages).items()))
        number = {url: at for at, url in enumerate(samples)}
        # Common names have small numbers, which take fewer digits.
        counts = Counter(name for sample in samples.values() for name in sample.features)
        names = {name: at for at, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name)))}
        return {
            **self._groups.to_json(),
            "pages": self._pages,
            "due_at": self._due_at,
            **self._splits.to_json(),
            "samples": {
                "names": list(names),
                "rows": [  # url, title, number of a feature's name, the next one's, ...
                    [relative_url(url), sample.title, *sorted(names[name] for name in sample.features)]
                    for url, sample in samples.items()
                ],
            },
            "reservoir": [
                [number[url], self.resolve(reservoir.group_of[url]), int(url in reservoir.sampled)]
                for url in sorted(reservoir.pages)
            ],
            "clustering": self._matcher.metric and self._matcher.metric.to_json(),
            "matched": [[number[sample.url], self.resolve(template)] for sample, template in rows],
            "floors": dict(sorted(self._matcher.floors.items())),
            "known": self._known.to_json(self.resolve),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Restore what `to_json` gave, for the site at `origin` ("https://example.com"). Raises ValueError for anything
        else.
        """
        grouper = cls()
        try:
            grouper._restore(value, origin)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a grouping: {error!r}") from error
        return grouper

    def _restore(self, value: Mapping[str, Any], origin: str) -> None:
        self._groups = _Groups.from_json(value, origin)
        self._pages, self._due_at = int(value["pages"]), int(value["due_at"])
        self._splits = _Splits.from_json(value, self.resolve)
        names, samples = as_texts(value["samples"]["names"]), list[PageSample]()
        for path, title, *numbers in value["samples"]["rows"]:
            if not isinstance(title, str):
                raise TypeError(f"no title in a row of samples: {title!r}")
            samples.append(PageSample.of(origin + path, frozenset(names[number] for number in numbers), title))
        for number, template, is_sampled in value["reservoir"]:
            self._reservoir.add(samples[number], template)
            if is_sampled:
                self._reservoir.sampled.add(samples[number].url)
        metric = value["clustering"]
        self._matcher = Matcher(None if metric is None else SimilarityMetric.from_json(metric))
        for number, template in value["matched"]:
            self._matcher.add(samples[number], template)
        self._matcher.floors = {template: float(floor) for template, floor in value["floors"].items()}
        self._known = _KnownPages.from_json(value["known"])
        matched = {template for _, template in value["matched"]}
        given = {*self._reservoir.group_of.values(), *matched, *self._splits.templates(), *self._known.templates()}
        if unknown := given - self._groups.counts.keys():
            raise ValueError(f"not the state of a grouping: templates {sorted(unknown)[:3]} are counted nowhere")

    def _find(self, sample: PageSample) -> tuple[Assignment | None, GroupMatch | None]:
        """Return where a page belongs, None if nowhere, and the nearest group; that is not looked for where an earlier
        crawl knew the page as it is.
        """
        earlier = self._known.earlier(sample.url)
        is_unchanged = earlier is not None and earlier.features == _features_key(sample.features)
        if earlier is not None and is_unchanged and earlier.template:
            template = self.resolve(earlier.template)
            return Assignment(template, settled=earlier.settled, similarity=1.0, is_known=True), None
        match = self._matcher.match(sample)
        # For a page that is as it was, a part of the group that it was in is the best there is.
        if match is None or not (is_unchanged or match.similarity >= (self._matcher.threshold or _TWIN_SIMILARITY)):
            return None, match
        template = self._splits.part_for(self.resolve(match.template), sample)
        returns = earlier is not None and (self.resolve(earlier.template) or template) == template
        if earlier is not None and returns and earlier.settled:
            return Assignment(template, settled=True, similarity=match.similarity, is_known=True), match
        settled = self._matcher.metric is not None and not self._matcher.is_loose(match.similarity, template)
        rivals = _rivals(match, template)
        return Assignment(template, 1, False, settled, match.similarity, rivals, returns), match

    def _summary(self, template: str, page_count: int) -> TemplateSummary:
        examples = self._groups.counts[template].examples
        pattern = common_pattern(sorted({*self._reservoir.members(template), *examples}))
        return TemplateSummary(template, page_count, pattern, tuple(examples), self._groups.aliases_of(template))

    def _settle(self, before: Mapping[str, str], groups_then: Mapping[str, str]) -> Changes:
        """Bring the counts in line with the groups that the reservoir's pages have now, and return what changed."""
        group_of = self._reservoir.group_of
        moved = {url: now for url, now in group_of.items() if before.get(url, now) != now}
        aliases: dict[str, str] = {}
        splits: dict[str, list[str]] = {}
        live = set(group_of.values())
        for old in [group for group in self._groups.counts if group not in live]:
            for groups in (groups_then, before):  # one that was opened while the clustering ran has no pages then
                successors = [group_of[url] for url, group in groups.items() if group == old and url in group_of]
                if successors:
                    aliases[old] = max(sorted(set(successors)), key=successors.count)
                    self._groups.merge(old, aliases[old])
                    break
        for url, now in sorted(moved.items()):
            old = before[url]
            if old not in aliases and now not in splits.setdefault(old, []):
                splits[old].append(now)
            if (source := aliases.get(old, old)) != now:
                is_here, is_sampled = url in self._reservoir.here, url in self._reservoir.sampled
                self._groups.move(url, source, now, is_here=is_here, is_sampled=is_sampled)
        for old, new_ids in splits.items():
            self._splits.note_parts(old, new_ids)
        self._known.follow(group_of if splits else moved, splits.keys(), self.resolve)
        return Changes(aliases, {old: tuple(new) for old, new in splits.items()}, moved)


def _rivals(match: GroupMatch, template: str) -> tuple[str, ...]:
    return tuple(sorted({*match.rivals, match.template} - {template}))


class _Reservoir:
    """Keeps the pages whose urls hash lowest, to be clustered again; of each group two pages stay, samples first."""

    def __init__(self) -> None:
        self.pages: dict[str, PageSample] = {}
        self.group_of: dict[str, str] = {}
        self.sampled: set[str] = set()
        self.here: set[str] = set()  # urls that the present crawl has seen
        self._order: list[tuple[bytes, str]] = []  # hashes of the urls, sorted; the highest leaves first

    def add(self, sample: PageSample, template: str) -> None:
        if sample.url not in self.pages:
            digest = blake2b(sample.url.encode("utf-8", "replace"), digest_size=8).digest()
            insort(self._order, (digest, sample.url))
        self.pages[sample.url] = sample
        self.group_of[sample.url] = template

    def keep(self, sample: PageSample, template: str) -> None:
        """Add a page of the present crawl; when there are too many, another page goes, or this one."""
        self.add(sample, template)
        self.here.add(sample.url)
        if len(self.pages) <= RESERVOIR_PAGES:
            return
        counts, order = Counter(self.group_of.values()), self._order
        large = {group for group, count in counts.items() if count > 2} or counts.keys()
        spare = (at for at in range(len(order) - 1, -1, -1) if self.group_of[order[at][1]] in large)
        first = next(spare)
        if order[first][1] in self.sampled:
            first = next((at for at in spare if order[at][1] not in self.sampled), first)
        gone = order.pop(first)[1]
        del self.pages[gone], self.group_of[gone]
        self.sampled.discard(gone)
        self.here.discard(gone)

    def members(self, template: str) -> list[str]:
        return sorted(url for url, group in self.group_of.items() if group == template)


@dataclass(slots=True)
class _GroupCounts:
    """Counts of a group: `pages` of all crawls, `pages_now` of the present one, `sampled` that were samples."""

    pages: int = 0
    pages_now: int = 0
    sampled: int = 0
    examples: list[str] = field(default_factory=list)

    def add_example(self, url: str) -> None:
        if len(self.examples) < _EXAMPLES and url not in self.examples:
            self.examples.append(url)


class _Groups:
    """Issues each id once, and counts the pages of each group. An id that was merged into another is its alias."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.counts: dict[str, _GroupCounts] = {}
        self._issued = 0
        self._aliases: dict[str, str] = {}

    def open(self) -> str:
        self._issued += 1
        template = f"{self.prefix}{self._issued}"
        self.counts[template] = _GroupCounts()
        return template

    def resolve(self, template: str) -> str:
        while template in self._aliases:
            template = self._aliases[template]
        return template

    def merge(self, old: str, new: str) -> None:
        gone, successor = self.counts.pop(old), self.counts[new]
        successor.pages += gone.pages
        successor.pages_now += gone.pages_now
        successor.sampled += gone.sampled
        successor.examples = [*successor.examples, *gone.examples][:_EXAMPLES]
        self._aliases[old] = new

    def move(self, url: str, old: str, now: str, *, is_here: bool, is_sampled: bool) -> None:
        """Move one page from group to group. `is_here`: the present crawl has seen it."""
        source, target = self.counts[old], self.counts[now]
        for counts, change in ((source, -1), (target, 1)):
            counts.pages += change
            counts.pages_now += change * is_here
            counts.sampled += change * is_sampled
        if url in source.examples:
            source.examples.remove(url)
        target.add_example(url)

    def aliases_of(self, template: str) -> tuple[str, ...]:
        """Return the ids that were merged into this one, in the order of their issue: lines of a feed may name them."""
        return tuple(sorted((one for one in self._aliases if self.resolve(one) == template), key=self._number))

    def in_order(self) -> list[tuple[str, _GroupCounts]]:
        return sorted(self.counts.items(), key=lambda item: self._number(item[0]))

    def to_json(self) -> dict[str, Any]:
        counts = {
            template: [one.pages, one.sampled, [relative_url(url) for url in one.examples]]
            for template, one in self.in_order()
        }
        newest = sorted(self._aliases, key=self._number)[-_MAX_ALIASES:]
        aliases = {alias: self.resolve(alias) for alias in newest}
        return {"prefix": self.prefix, "issued": self._issued, "groups": counts, "aliases": aliases}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Restore the counts of an earlier crawl. Raises ValueError where a new group might get the id of another."""
        groups = cls(value["prefix"])
        groups._issued = int(value["issued"])
        for template, (pages, sampled, examples) in value["groups"].items():
            urls = [origin + path for path in examples]
            common_pattern(urls)  # a ValueError where one is no url
            groups.counts[template] = _GroupCounts(int(pages), 0, int(sampled), urls)
        groups._aliases = {alias: now for alias, now in value["aliases"].items() if now in groups.counts}
        if groups._aliases.keys() & groups.counts.keys():
            raise ValueError("not the state of a grouping: a template is an alias, too")
        if any(groups._number(template) > groups._issued for template in (*groups.counts, *groups._aliases)):
            raise ValueError(f"not the state of a grouping: only {groups._issued} ids issued")
        return groups

    def _number(self, template: str) -> int:
        return int(template.removeprefix(self.prefix))


class _Placement(NamedTuple):
    """The group of a page, empty when it was parted and the page's side is not known; `features` is a hash of these."""

    template: str
    features: str
    settled: bool


class _KnownPages:
    """Recognises pages of earlier crawls by hashes of their urls; of too many a random part stays, the same in any
    order.
    """

    def __init__(self) -> None:
        self._earlier: dict[str, _Placement] = {}
        self._now: dict[str, _Placement] = {}

    def earlier(self, url: str) -> _Placement | None:
        return self._earlier.get(_url_key(url)) if self._earlier else None

    def note(self, sample: PageSample, template: str, *, settled: bool) -> None:
        self._now[_url_key(sample.url)] = _Placement(template, _features_key(sample.features), settled)
        if len(self._now) > 2 * _MAX_KNOWN_PAGES:
            self._now = dict(sorted(self._now.items())[:_MAX_KNOWN_PAGES])

    def move(self, url: str, template: str) -> str | None:
        """Move a page of the present crawl to a template; return the one that it was in, None for one not known."""
        known = self._now.get(key := _url_key(url))
        if known is None:
            return None
        self._now[key] = known._replace(template=template)
        return known.template

    def follow(self, moved: Mapping[str, str], parted: Collection[str], resolve: Callable[[str], str]) -> None:
        """Follow a regrouping: `moved` maps urls to new templates; other pages of `parted` groups lose theirs."""
        keys = {_url_key(url): template for url, template in moved.items()}
        for placements in (self._earlier, self._now):
            for key, known in placements.items():
                if key in keys:
                    placements[key] = known._replace(template=keys[key])
                elif parted and resolve(known.template) in parted:
                    placements[key] = known._replace(template="")

    def templates(self) -> set[str]:
        return {known.template for known in self._earlier.values() if known.template}

    def to_json(self, resolve: Callable[[str], str]) -> dict[str, Any]:
        pages = sorted({**self._earlier, **self._now}.items())[:_MAX_KNOWN_PAGES]
        templates = [known.template and resolve(known.template) for _, known in pages]
        names = sorted(set(templates))
        number = {template: at for at, template in enumerate(names)}
        rows = [
            [key + known.features, number[template], int(known.settled)]
            for (key, known), template in zip(pages, templates, strict=True)
        ]
        return {"templates": names, "pages": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        known, names = cls(), as_texts(value["templates"])
        for text, at, settled in value["pages"]:
            known._earlier[text[: 2 * _URL_BYTES]] = _Placement(names[at], text[2 * _URL_BYTES :], bool(settled))
        return known


def _url_key(url: str) -> str:
    return blake2b(relative_url(url).encode("utf-8", "replace"), digest_size=_URL_BYTES).hexdigest()


@lru_cache(maxsize=256)  # most pages of a site share their features with another one
def _features_key(features: frozenset[str]) -> str:
    text = "\n".join(sorted(features))
    return blake2b(text.encode("utf-8", "replace"), digest_size=_FEATURES_BYTES).hexdigest()


class _Splits:
    """Remembers all splits of a site's groups. `resolve` gives the current id of a group."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve
        self._apart: set[tuple[str, str]] = set()
        self._rules: list[tuple[Shares, Mapping[str, str]]] = []  # what separates labels, and label -> group

    def add(self, shares: Shares, groups: Mapping[str, str]) -> None:
        self._apart.update(combinations(groups.values(), 2))
        self._rules = [*self._rules, (shares, groups)][-_MAX_RULES:]

    def note_parts(self, old: str, parts: Iterable[str]) -> None:
        """Keep ids that left the group `old` apart from what `old` is kept apart from."""
        self._apart |= {(new, b if a == old else a) for a, b in self._apart if old in (a, b) for new in parts}

    def apart(self) -> frozenset[tuple[str, str]]:
        """Return the pairs of current ids that must not be merged."""
        pairs = {(self._resolve(one), self._resolve(other)) for one, other in self._apart}
        self._apart = {(one, other) for one, other in pairs if one != other}
        return frozenset(self._apart)

    def part_for(self, template: str, sample: PageSample) -> str:
        """Choose among groups that a split has parted: what separated them decides, not the whole page."""
        for shares, groups in self._rules:
            ids = {label: self._resolve(group) for label, group in groups.items()}
            if template in ids.values() and (label := _label_of(sample, shares)) is not None:
                template = ids[label]
        return template

    def templates(self) -> set[str]:
        return {template for _, groups in self._rules for template in groups.values()}

    def to_json(self) -> dict[str, Any]:
        rules = [
            {"shares": shares, "groups": {label: self._resolve(group) for label, group in groups.items()}}
            for shares, groups in self._rules
        ]
        return {"apart": sorted(list(pair) for pair in self.apart()), "rules": rules}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], resolve: Callable[[str], str]) -> Self:
        splits = cls(resolve)
        splits._apart = {(one, other) for one, other in map(as_texts, value["apart"])}
        for rule in value["rules"]:
            shares = {
                name: {label: float(share) for label, share in by_label.items()}
                for name, by_label in rule["shares"].items()
            }
            splits._rules.append((shares, dict(rule["groups"])))
        return splits


def _separate(members: Sequence[PageSample], labels: Mapping[str, str]) -> tuple[Shares, dict[str, list[str]]] | None:
    """Find what separates pages of different labels (url -> label), and the urls of all members by label, biggest
    first. None where nothing does, or only what would not have told samples that it was not found on.
    """
    known = [(one, labels[one.url]) for one in members if one.url in labels]
    counts = Counter(label for _, label in known)
    if len(common := {label for label, count in counts.items() if count > 1}) > 1:
        # A label that one sample alone has, where two others have more, is an odd page, or a slip of the model.
        known = [one for one in known if one[1] in common]
        counts = Counter(label for _, label in known)
    shares = _discriminators(known)
    if not shares:
        return None
    if min(counts.values()) > 1:  # there are enough to leave each out in turn
        right = Counter[str]()
        for place, (sample, label) in enumerate(known):
            others = _discriminators([*known[:place], *known[place + 1 :]])
            right[label] += bool(others) and _label_of(sample, others) == label
        if any(right[label] < _MIN_RECALL * count for label, count in counts.items()):
            return None
    label_of = {member.url: label for member, label in known}
    sides: dict[str, list[str]] = {label: [] for label in sorted(counts)}
    undecided: list[str] = []
    for member in members:
        found = label_of.get(member.url) or _label_of(member, shares)
        (undecided if found is None else sides[found]).append(member.url)
    ranked = sorted(sides, key=lambda label: -len(sides[label]))
    sides[ranked[0]].extend(undecided)
    return shares, {label: sides[label] for label in ranked}


def _label_of(sample: PageSample, shares: Shares) -> str | None:
    """Return the label whose pages the sample resembles in what separates them; None on a tie."""
    present = sample.names
    scores: dict[str, float] = {}
    for name, by_label in shares.items():
        for label, share in by_label.items():
            scores[label] = scores.get(label, 0.0) + (share if name in present else 1 - share)
    best, second = sorted(scores.items(), key=lambda item: -item[1])[:2]
    return None if best[1] - second[1] < 1e-9 else best[0]


def _discriminators(labelled: _Labelled) -> Shares:
    """Find the names whose frequency differs most between labels, smoothed by half a page: one page of a label against
    one of another is weak evidence.
    """
    pages = Counter(label for _, label in labelled)
    if len(pages) < 2:
        return {}
    counts: dict[str, Counter[str]] = {}
    for sample, label in labelled:
        for name in sample.names:
            counts.setdefault(name, Counter())[label] += 1
    ranked: list[tuple[float, str, dict[str, float]]] = []
    for name, by_label in counts.items():
        raw = [by_label[label] / number for label, number in pages.items()]
        if max(raw) - min(raw) >= _MIN_DIFFERENCE:
            smooth = {label: (by_label[label] + 0.5) / (number + 1) for label, number in pages.items()}
            ranked.append((min(smooth.values()) - max(smooth.values()), name, smooth))
    ranked.sort(key=lambda one: one[:2])
    return {name: smooth for _, name, smooth in ranked[:_MAX_DISCRIMINATORS]}
