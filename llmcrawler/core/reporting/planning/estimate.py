"""Estimates a crawl: pages, time, calls of the model, tokens and money, each as a range."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from llmcrawler.core.llm.batching import BatchRules
from llmcrawler.core.llm.usage import Price, Tokens
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample

_ROUNDS = 60
# Of a series without an end in sight so many times what was seen may be left: half, and three in four, have no more.
_REST_LIKELY, _REST_HIGH = 1.0, 3.0
# A sample can show at most so many times the urls that were heard of, not counting the rest of a series.
_MOST_TIMES = 4
# A series is open when so many of its later pages led to a new one; one by one, so that few of them wait.
_OPEN_SHARE, _OPEN_PAGES, _WAITING_SHARE = 0.5, 3, 0.5

# The rules of sampling show ever fewer pages of a template, so what comes later hardly counts.
_MOST_ARRIVALS = 20_000
# An answer for a page has its id, label and confidence; for a page that is learned from, its fields and their blocks.
_CLASSIFY_ANSWER_TOKENS, _INDUCE_ANSWER_TOKENS = 20, 300
# Learning a template is one call where the fields are few, else as many as show `max_samples` pages, after the first
# call two at a time (extraction.training_run).
_MORE_SAMPLES = 2
_LEARNED_AGAIN = 1.5
# Thoughts before an answer that needs no long ones, by reasoning_effort; a guess, so the range is wide.
THOUGHT_TOKENS: Final = {"minimal": 50, "low": 300, "medium": 1_500, "high": 5_000}
_THOUGHTS = (0.3, 1.0, 3.0)
# Tokenisers differ by so much from four bytes a token.
_TOKENS = (0.85, 1.0, 1.3)
# Processor time of a page in all stages: where there is no gap between starts, that is the pace.
_PAGE_SECONDS = 0.008
# Hosts answer slower than they did to the sample, refuse, and want pages asked for twice.
_TIME = (1.0, 1.0, 1.3)


_Links = Mapping[tuple[str, str], "_Discovery"]  # by the stratum of the pages and that of the urls that they link to


class Range(NamedTuple):
    low: float
    likely: float
    high: float

    def rounded(self, digits: int = 0) -> dict[str, float]:
        """Return the range as JSON; counts (no digits) are rounded outward, so that it still holds them."""
        if digits:
            return {name: round(value, digits) for name, value in self._asdict().items()}
        return {"low": math.floor(self.low), "likely": math.floor(self.likely + 0.5), "high": math.ceil(self.high)}


@dataclass(frozen=True, slots=True)
class Stratum:
    """Urls of one shape: `known` were discovered, `pages` fetched, and `size` is how many there may be."""

    pattern: str
    known: int
    pages: tuple[SampledPage, ...]
    size: Range

    @property
    def failed_share(self) -> float:
        return sum(page.error is not None for page in self.pages) / len(self.pages) if self.pages else 0.0

    @property
    def fine(self) -> Range:
        """The size without pages that fail."""
        return Range(*(count * (1 - self.failed_share) for count in self.size))


def site_size(sample: SiteSample) -> list[Stratum]:
    """Return each kind of url with its size, largest first: an unseen-species problem, solved by kinds of urls.

    Urls of one shape are a stratum. Pages of a stratum are the sampling units, the urls that they link to are the
    species. From S, the urls of a stratum that any sampled page links to, and Q1, those of them that one page alone
    links to, which is of the same or another stratum with T sampled pages:

    - The rate of discovery is Q1 / T urls a page now (I. J. Good, "The population frequencies of species and the
      estimation of population parameters", Biometrika 40, 1953); twice that of the later half of the T pages, where
      that is less: deep in a tree are mostly leaves.
    - It falls by a power law: t more pages add S (1 + t / T)^b - S with b = Q1 / S (H. S. Heaps, "Information
      Retrieval: Computational and Theoretical Aspects", 1978). Where each page has a page of its own, as a product its
      form for reviews, b is 1, and one page more is one url more.

    How many pages a stratum has depends on the others, so all are solved together. The low figure is what was found;
    the high one adds the standard error of Q1. What a sitemap lists is known without.

    A series is not like that: page 7 leads to page 8, and nothing says how many come. Where pages of a stratum still
    lead to new ones of their own, what is left is taken to be as much as was seen, or three times that at most: by the
    Copernican principle (J. R. Gott, Nature 363, 1993) it is no more than x times as much with chance x / (1 + x).
    The same bounds what pages add that only an estimate says are there.
    """
    counts, pages = Counter(sample.known.values()), defaultdict[str, list[SampledPage]](list)
    for page in sample.pages:
        pages[page.pattern].append(page)
    known = {name: max(counts[name], len(pages[name])) for name in {*counts, *pages}}
    likely, high = dict[str, float](known), dict[str, float](known)
    if not sample.is_whole:
        series = _open_series(sample, known)
        found = _discoveries(sample, series)
        likely = _solve(known, found, series, _REST_LIKELY, error_count=0)
        high = _solve(known, found, series, _REST_HIGH, error_count=1)
    strata = []
    for name, low in known.items():
        size = Range(low, likely[name], max(high[name], low + _REST_HIGH * (likely[name] - low)))
        strata.append(Stratum(name, low, tuple(pages[name]), size))
    return sorted(strata, key=lambda one: (-one.size.likely, one.pattern))


class _Discovery(NamedTuple):
    """Counts of what pages of one stratum showed of another: T, Q1 and S as above."""

    sampled: int
    once: int
    seen: int

    def added(self, pages: float, error_count: int) -> float:
        """Return how many urls so many more pages would add, with so many standard errors of the count `once`."""
        added = self.seen * ((1 + pages / self.sampled) ** (self.once / self.seen) - 1)
        return float(added * (1 + error_count / math.sqrt(self.once)))


def _solve(
    known: Mapping[str, int], found: _Links, series: Mapping[str, int], rest: float, error_count: int
) -> dict[str, float]:
    """Return the sizes at which what is still unfetched of each stratum adds just what is missing of the others."""
    heard = {name: count + rest * series.get(name, 0) for name, count in known.items()}
    sizes, most = heard, {name: _MOST_TIMES * count for name, count in heard.items()}
    for round_number in range(_ROUNDS):
        grown = dict(heard)
        for (source, target), discovery in found.items():
            grown[target] += discovery.added(max(0.0, sizes[source] - discovery.sampled), error_count)
        sizes = {name: min(size, most[name]) for name, size in grown.items()}
        if round_number == 0:
            most = {name: (1 + rest) * size for name, size in sizes.items()}
    return sizes


def _open_series(sample: SiteSample, known: Mapping[str, int]) -> dict[str, int]:
    """Return the strata whose later pages still led to new ones of their own, with the number of pages fetched."""
    seen = set(sample.listed)
    leads: defaultdict[str, list[bool]] = defaultdict(list)
    for page in sample.pages:
        leads[page.pattern].append(any(sample.known[url] == page.pattern for url in page.links - seen))
        seen |= page.links
    return {
        name: count
        for name, pages in leads.items()
        if (count := len(pages)) >= _OPEN_PAGES
        and sum(pages[count // 2 :]) >= _OPEN_SHARE * (count - count // 2)
        and 0 < known[name] - count <= _WAITING_SHARE * count
    }


def _discoveries(sample: SiteSample, series: Mapping[str, int]) -> dict[tuple[str, str], _Discovery]:
    """Count what the pages of each stratum showed of each other, without what an open series adds to itself."""
    linked_from: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)
    sampled, came = Counter(page.pattern for page in sample.pages), Counter[str]()
    for page in sample.pages:
        came[page.pattern] += 1
        is_late = 2 * came[page.pattern] > sampled[page.pattern]
        for url in page.links - sample.listed:
            linked_from[url].append((page.pattern, is_late))
    seen = Counter(sample.known[url] for url in linked_from)
    once, late = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for url, pages in linked_from.items():
        if len(pages) == 1:
            ((source, is_late),) = pages
            once[source, sample.known[url]] += 1
            late[source, sample.known[url]] += is_late
    return {
        (source, target): _Discovery(sampled[source], min(once[source, target], 2 * count), seen[target])
        for (source, target), count in late.items()
        if count and not (source == target and source in series)
    }


class PageArrival(NamedTuple):
    """A page that the model may be asked about. `is_settled`: its template can speak for it; `tokens` of its
    description.
    """

    template: str
    tokens: int
    is_settled: bool = True


class ExpectedCalls(NamedTuple):
    """The number of calls, of the pages that they show together, and of the tokens of these."""

    calls: int
    pages: int
    tokens: int


def expected_calls(arrivals: Sequence[PageArrival | None], pace_seconds: float, rules: BatchRules) -> ExpectedCalls:
    """Return what the model is asked when a page comes every `pace_seconds` (None: one that needs no model): about the
    members 1, 4, 16, ... of a template (classification/template_samples.py), and about each page that its template
    cannot speak for. Pages for which others wait go after a moment; the others ride along, or go later. The model is
    taken to be right, and templates to be uniform; doubts would cost extra.
    """
    members = Counter[str]()
    calls: list[list[int]] = []  # the tokens of the pages in each
    due_at = -math.inf
    for number, arrival in enumerate(arrivals):
        if arrival is None:
            continue
        members[arrival.template] += 1
        member, now = members[arrival.template], number * pace_seconds
        if arrival.is_settled and (member.bit_count() > 1 or member.bit_length() % 2 == 0):
            continue
        is_full = calls and (
            len(calls[-1]) >= rules.max_questions or sum(calls[-1]) + arrival.tokens > (rules.max_tokens or math.inf)
        )
        if now > due_at or is_full:
            calls.append([])
            due_at = math.inf
        calls[-1].append(arrival.tokens)
        is_waited_for = member == 1 or not arrival.is_settled
        due_at = min(due_at, now + (rules.wait_seconds if is_waited_for else rules.patient_seconds))
    return ExpectedCalls(len(calls), sum(map(len, calls)), sum(map(sum, calls)))


@dataclass(frozen=True, slots=True)
class CrawlTerms:
    """Limits of the planned crawl. `gap_seconds` between starts and `concurrency` are of one host. Without `batches`
    there is no model. `call_seconds` are assumed. Tokens are those of a call without its pages, `thought_tokens` of
    one answer.
    """

    max_pages: int
    gap_seconds: float
    concurrency: int
    model: str = ""
    batches: BatchRules | None = None
    call_seconds: float = 1.5
    classify_tokens: int = 0
    induce_tokens: int = 0
    thought_tokens: int = 0
    price: Price | None = None
    record_types: Container[str] = ()
    min_pages: int = 2
    samples: int = 3
    max_samples: int = 7


def make_plan(url: str, sample: SiteSample, terms: CrawlTerms) -> dict[str, Any]:
    """Return the plan as it is kept in a JOBDIR; a range is {low, likely, high}. `site_pages` exist, `pages` are within
    `max_pages`; `cost_usd` is None where the price is unknown.
    """
    strata = site_size(sample)
    came = [page for page in sample.pages if page.error is None]
    by_template: defaultdict[str, list[SampledPage]] = defaultdict(list)
    for page in came:
        by_template[page.template].append(page)
    type_of = {name: statistics.mode(page.page_type for page in pages) for name, pages in by_template.items()}
    scenarios = [_Scenario(sample, strata, type_of, at, terms).figures for at in range(3)]
    ranges: defaultdict[Any, Range] = defaultdict(lambda: Range(0, 0, 0))
    for name in {name for one in scenarios for name in one}:
        low, likely, high = (one[name] for one in scenarios)
        ranges[name] = Range(min(low, likely), likely, max(likely, high))
    types = sorted({page.page_type for page in came}, key=lambda name: (-ranges["type", name].likely, name))
    templates = [
        {
            "page_type": type_of[name],
            "pattern": statistics.mode(page.pattern for page in pages),
            "example": pages[0].url,
            "pages": ranges["template", name].rounded(),
            "learned": type_of[name] in terms.record_types and ranges["template", name].likely >= terms.min_pages,
        }
        for name, pages in by_template.items()
    ]
    notes = []
    if not sample.is_whole and terms.batches is not None:
        notes.append("page types are told by structured data and rules of thumb; the model may decide some differently")
    if unseen := sum(one.known for one in strata if not one.pages):
        how = "no page of that pattern was fetched: a larger --sample would tell more"
        notes.append(f"of {unseen:,} known urls {how}")
    if terms.batches is not None:
        notes.append(f"a call of {terms.model} is taken to last {terms.call_seconds:.2g} s: no call was made")
    if terms.batches is not None and terms.price is None:
        notes.append("the price of the model is unknown: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT")
    return {
        "url": url,
        "max_pages": terms.max_pages,
        "sample": {
            "pages": len(came),
            "errors": len(sample.pages) - len(came),
            "known": len(sample.known),
            "listed": len(sample.listed),
            "is_whole": int(sample.is_whole),
        },
        **{name: ranges[name].rounded() for name in ("site_pages", "pages", "errors")},
        "page_types": {name: ranges["type", name].rounded() for name in types},
        "templates": sorted(templates, key=lambda one: (-one["pages"]["likely"], one["pattern"])),
        "seconds": ranges["seconds"].rounded(1),
        "llm": {
            "model": terms.model,
            "calls": ranges["calls"].rounded(),
            "calls_by_task": {task: ranges[task].rounded() for task in ("classify", "induce")},
            "tokens": ranges["tokens"].rounded(),
            "cost_usd": None if terms.price is None else ranges["cost_usd"].rounded(5),
        },
        "notes": notes,
    }


def make_plans(url: str, sample: SiteSample, models: Sequence[CrawlTerms]) -> dict[str, Any]:
    """Return the plan on the first terms; where there are several, `models` has the figures of each."""
    plans = [make_plan(url, sample, terms) for terms in models]
    if len(plans) == 1:
        return plans[0]
    kept = ("model", "calls", "tokens", "cost_usd")
    compared = [{**{name: plan["llm"][name] for name in kept}, "seconds": plan["seconds"]} for plan in plans]
    return {**plans[0], "models": compared}


class _Scenario:
    """The crawl with all strata of low, likely or high size (`at` 0, 1, 2). `figures` are by name, pages also by
    ("template", name) and ("type", name).
    """

    def __init__(
        self, sample: SiteSample, strata: Sequence[Stratum], type_of: Mapping[str, str], at: int, terms: CrawlTerms
    ) -> None:
        self._sample, self._type_of, self._at, self._terms = sample, type_of, at, terms
        self._fetched = [page for page in sample.pages if page.error is None]
        self._came = {one.pattern: [page for page in one.pages if page.error is None] for one in strata}
        # Strata of which no page was fetched are taken to be like those with few: large ones had their share.
        small = [page for pages in self._came.values() if len(pages) <= 2 for page in pages]
        self._others = small or self._fetched
        self.figures: defaultdict[Any, float] = defaultdict(float)
        self._project(strata)
        seconds = self._pace_seconds * (self.figures["pages"] + self.figures["errors"])
        if terms.batches is not None:
            self._ask(terms.batches)
            # The model holds the crawl up only where its calls take longer than all the pages.
            calls = self.figures["calls"]
            seconds = max(seconds, calls * terms.call_seconds / terms.batches.max_in_flight)
            seconds += min(calls, 2) * terms.call_seconds
        self.figures["seconds"] = seconds * _TIME[at]

    @property
    def _pace_seconds(self) -> float:
        """Seconds from page to page, by Little's law: at least the gap, the latency over the requests in flight, the
        CPU.
        """
        latency = statistics.median([page.latency_seconds for page in self._fetched] or [0.0])
        return max(self._terms.gap_seconds, latency / max(1, self._terms.concurrency), _PAGE_SECONDS)

    def _project(self, strata: Sequence[Stratum]) -> None:
        """Count the pages that `max_pages` lets come. Strata take turns, so that the small ones are whole."""
        self._pages: dict[str, float] = {}
        at, max_pages = self._at, self._terms.max_pages
        left = float(max_pages)
        for number, one in enumerate(sorted(strata, key=lambda one: (one.fine[at], one.pattern))):
            count = min(one.fine[at], left / (len(strata) - number))
            share, like = one.failed_share, self._like(one.pattern)
            left -= count
            self._pages[one.pattern] = count
            self.figures["site_pages"] += one.fine[at]
            self.figures["pages"] += count
            self.figures["errors"] += count * share / (1 - share) if share < 1 else min(one.size[at], max_pages)
            for page in like:
                self.figures["template", page.template] += count / len(like)
                self.figures["type", page.page_type] += count / len(like)

    def _like(self, pattern: str) -> list[SampledPage]:
        return self._came[pattern] or self._others

    def _ask(self, batches: BatchRules) -> None:
        """Count the calls, their tokens and their price."""
        terms, figures, at = self._terms, self.figures, self._at
        asked = expected_calls(self._arrivals(), self._pace_seconds, batches)
        more = terms.max_samples - terms.samples
        whole = 1 + math.ceil(more / _MORE_SAMPLES)
        kinds = [name for name, page_type in self._type_of.items() if page_type in terms.record_types]
        learned = sum(figures["template", name] >= terms.min_pages for name in kinds)
        induce = learned * (1, (1 + whole) / 2, whole * _LEARNED_AGAIN)[at]
        figures |= {"classify": asked.calls, "induce": induce, "calls": asked.calls + induce}
        shown = induce * terms.max_samples / whole
        block_tokens = statistics.fmean([page.block_tokens for page in self._fetched if page.block_tokens] or [0])
        prompt: float = asked.calls * terms.classify_tokens + asked.tokens
        prompt += induce * terms.induce_tokens + shown * block_tokens
        answer = asked.pages * _CLASSIFY_ANSWER_TOKENS + shown * _INDUCE_ANSWER_TOKENS
        answer += figures["calls"] * terms.thought_tokens * _THOUGHTS[at]
        figures["tokens"] = (prompt + answer) * _TOKENS[at]
        if terms.price is not None:
            figures["cost_usd"] = terms.price.cost_usd(Tokens(round(prompt * _TOKENS[at]), round(answer * _TOKENS[at])))

    def _arrivals(self) -> list[PageArrival | None]:
        """Return the sample as it came, then pages like it, a stratum's first ones before the many of another.

        New kinds of page become rarer in proportion to the pages that came (Good, 1953): the chance of one is their
        number in the later half of the sample, times its length, over a page's place.
        """
        late = self._fetched[len(self._fetched) // 2 :]
        unsettled = len(self._fetched) * sum(not page.is_settled for page in late) / max(1, len(late))
        ranked = [
            (number.bit_length(), number, name, like[number % len(like)])
            for name, count in self._pages.items()
            if (like := self._like(name))
            for number in range(len(self._came[name]), min(round(count), _MOST_ARRIVALS))
        ]
        ranked.sort(key=lambda one: one[:3])
        arrivals: list[PageArrival | None] = []
        new_kinds = 0.0
        for place, page in enumerate([*self._sample.pages, *(one[3] for one in ranked[:_MOST_ARRIVALS])], start=1):
            is_settled = page.is_settled
            if place > len(self._sample.pages):
                before, new_kinds = new_kinds, new_kinds + unsettled / place
                is_settled = int(before) == int(new_kinds)
            is_asked = page.error is None and not page.is_sure
            arrivals.append(PageArrival(page.template, page.shown_tokens, is_settled) if is_asked else None)
        return arrivals
