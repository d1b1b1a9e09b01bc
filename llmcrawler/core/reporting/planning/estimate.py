"""Estimates a crawl: pages, time, calls of the model, tokens and money, each as a range."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple, cast

from llmcrawler.core.llm.batching import BatchQueue, BatchRules, WaitingQuestion
from llmcrawler.core.llm.usage import Price, Tokens
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample
from llmcrawler.core.understanding.classification.template_samples import SampleStep, TemplateSamples

_ROUNDS = 60
# Of a series without an end in sight so many times what was seen may be left: half, and three in four, have no more.
_REST_LIKELY, _REST_HIGH = 1.0, 3.0
# A sample can show at most so many times the urls that were heard of, not counting the rest of a series.
_MOST_TIMES = 4
# A series is open when so many of its later pages led to a new one; one by one, so that few of them wait.
_OPEN_SHARE, _OPEN_PAGES, _WAITING_SHARE = 0.5, 3, 0.5

_DRAWS = 5
_SEED = 1
# The rules of sampling show ever fewer pages of a template, so what comes later hardly counts.
_MOST_ARRIVALS = 20_000
# A page with so many links to one other template is a list; a target of such a share of a template's pages is a menu.
_LISTED, _MENU_SHARE = 3.0, 0.5
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


def play(
    arrivals: Sequence[PageArrival | None], pace_seconds: float, call_seconds: float, rules: BatchRules
) -> ExpectedCalls:
    """Return what the model is asked when a page comes every `pace_seconds` (None: one that needs no model) and an
    answer takes `call_seconds`.

    When a batch goes out depends on which pages wait, so there is no formula: the pages go through the sampling rules
    (classification/template_samples.py) and the batch queue (llm/batching.py) of a real crawl, by a simulated clock.
    """
    crawl = _PlayedCrawl(call_seconds, rules)
    for number, arrival in enumerate(arrivals):
        crawl.pass_time(number * pace_seconds)
        if arrival is not None:
            crawl.pages[str(number)] = arrival
            crawl.go_on(str(number), is_new=True)
    crawl.pass_time(math.inf)
    shown = [crawl.pages[name] for batch in crawl.batches for name in batch]
    return ExpectedCalls(len(crawl.batches), len(shown), sum(page.tokens for page in shown))


class _PlayedCrawl:
    """A crawl in counted time. `pages` are those that have come, by name; `batches` of them went to the model."""

    def __init__(self, call_seconds: float, rules: BatchRules) -> None:
        self.pages: dict[str, PageArrival] = {}
        self.batches: list[list[str]] = []
        self._call_seconds = call_seconds
        self._rules = rules
        self._samples: defaultdict[str, TemplateSamples] = defaultdict(TemplateSamples)
        self._queue: BatchQueue[str, None] = BatchQueue(rules)
        self._answers: deque[tuple[float, list[str]]] = deque()  # the batches that are out, and when they are answered
        self._now = 0.0

    def go_on(self, name: str, *, is_new: bool = False) -> None:
        """Let a page take its template's type, wait for others, or wait for a batch."""
        page = self.pages[name]
        samples = self._samples[page.template]
        step = samples.step(name, samples.page_count + is_new)
        if step in (SampleStep.ASK, SampleStep.ASK_PATIENTLY) or not page.is_settled:
            patient = step is SampleStep.ASK_PATIENTLY and page.is_settled
            samples.note_asked(name, patient=patient)
            no_future = cast("Any", None)  # nobody awaits an answer that is only played
            most = self._rules.max_questions
            self._queue.add(WaitingQuestion(name, page.tokens, patient, self._now, most, no_future))
            self._send_due()
        elif step is SampleStep.WAIT:
            samples.waiting[name] = None
        else:
            samples.note_taken(name)

    def pass_time(self, until: float) -> None:
        """Let answers come and batches go; while pages wait, in the steps in which the crawl looks after them."""
        while True:
            while self._answers and self._answers[0][0] <= self._now:
                self._take_answers(self._answers.popleft()[1])
            self._send_due(is_at_end=until == math.inf)
            next_answer = self._answers[0][0] if self._answers else math.inf
            next_poll = self._now + self._rules.poll_seconds if self._queue else math.inf
            if self._now >= until or until == next_answer == next_poll:
                return
            self._now = min(until, next_answer, next_poll)

    def _send_due(self, *, is_at_end: bool = False) -> None:
        """Send the batches that are due; at the end, when no page comes any more, all."""
        while self._queue and len(self._answers) < self._rules.max_in_flight:
            if not is_at_end and self._queue.due(self._now) is None:
                return
            self.batches.append([entry.question for entry in self._queue.take(self._queue.oldest())])
            self._answers.append((self._now + self._call_seconds, self.batches[-1]))

    def _take_answers(self, batch: list[str]) -> None:
        """Answer a batch, taking the model to be right and templates to be uniform; doubts would cost extra."""
        asked = {self.pages[name].template: self._samples[self.pages[name].template] for name in batch}
        for name in batch:
            asked[self.pages[name].template].note_answer(name, "the type")
        for samples in asked.values():
            for name in list(samples.waiting):
                self.go_on(name)


@dataclass(frozen=True, slots=True)
class CrawlTerms:
    """Limits of the planned crawl. `gap_seconds` between starts and `concurrency` are of one host. Without `batches`
    there is no model. `call_seconds` are assumed unless they were `measured`.
    Tokens are those of a call without its pages, `thought_tokens` of one answer. `weak_types` are the fallbacks of the
    rules of thumb.
    """

    max_pages: int
    gap_seconds: float
    concurrency: int
    model: str = ""
    batches: BatchRules | None = None
    call_seconds: float = 1.5
    measured: bool = False
    classify_tokens: int = 0
    induce_tokens: int = 0
    thought_tokens: int = 0
    price: Price | None = None
    record_types: Container[str] = ()
    weak_types: Collection[str] = ()
    min_pages: int = 2
    samples: int = 3
    max_samples: int = 7


def make_plan(url: str, sample: SiteSample, terms: CrawlTerms) -> dict[str, Any]:
    """Return the plan as it is kept in a JOBDIR; a range is {low, likely, high}. `site_pages` exist, `pages` are within
    `max_pages`; `cost_usd` is None where the price is unknown.
    """
    sample = retyped_items(sample, terms.weak_types)
    strata = site_size(sample)
    came = [page for page in sample.pages if page.error is None]
    by_template = _by_template(came)
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
        how = "as in the last crawl of this job" if terms.measured else "an assumption; no call was made"
        notes.append(f"a call of {terms.model} is taken to last {terms.call_seconds:.2g} s ({how})")
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


def _by_template(came: Iterable[SampledPage]) -> dict[str, list[SampledPage]]:
    pages: defaultdict[str, list[SampledPage]] = defaultdict(list)
    for page in came:
        pages[page.template].append(page)
    return pages


def retyped_items(sample: SiteSample, weak_types: Collection[str]) -> SiteSample:
    """Return the sample with items that rules of thumb took for a weak type (a list, or nothing) as their likeliest
    type. The rules see one page, and a product shows its neighbours as a list does; over a site, a list leads to
    several pages of another template, to others on each page.
    """
    pages_of = _by_template(page for page in sample.pages if page.error is None)
    templates_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, pages in pages_of.items():
        for page in pages:
            templates_of[page.pattern][name] += 1
    leads: Counter[tuple[str, str]] = Counter()
    for source, pages in pages_of.items():
        for url, count in Counter(url for page in pages for url in page.links).items():
            targets = templates_of.get(sample.known.get(url, ""))
            if targets and (count == 1 or count < _MENU_SHARE * len(pages)):
                leads[source, targets.most_common(1)[0][0]] += count
    lists = [pair for pair, links in leads.items() if links >= _LISTED * len(pages_of[pair[0]]) and pair[0] != pair[1]]
    items = {target for _source, target in lists} - {source for source, _target in lists}

    def judged(page: SampledPage) -> SampledPage:
        is_item = page.template in items and not page.is_sure and page.page_type in weak_types and page.item_type
        return replace(page, page_type=page.item_type) if is_item else page

    return replace(sample, pages=[judged(page) for page in sample.pages])


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
        rng = Random(_SEED)  # noqa: S311 (the same sample gives the same plan)
        draws = [play(self._arrivals(rng), self._pace_seconds, terms.call_seconds, batches) for _ in range(_DRAWS)]
        asked = sorted(draws)[_DRAWS // 2]
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

    def _arrivals(self, rng: Random) -> list[PageArrival | None]:
        """Return the sample as it came, then pages in an order the frontier may choose: by priority, at random within
        one.

        New kinds of page become rarer in proportion to the pages that came (Good, 1953): the chance of one is their
        number in the later half of the sample, times its length, over a page's place.
        """
        late = self._fetched[len(self._fetched) // 2 :]
        unsettled = len(self._fetched) * sum(not page.is_settled for page in late) / max(1, len(late))
        ranked = [
            (number.bit_length(), rng.random(), rng.choice(self._like(name)))
            for name, count in self._pages.items()
            for number in range(len(self._came[name]), min(round(count), _MOST_ARRIVALS))
        ]
        ranked.sort(key=lambda one: one[:2])
        pages = [*self._sample.pages, *(page for _priority, _chance, page in ranked[:_MOST_ARRIVALS])]
        arrivals: list[PageArrival | None] = []
        for place, page in enumerate(pages, start=1):
            is_settled = page.is_settled if place <= len(self._sample.pages) else rng.random() >= unsettled / place
            is_asked = page.error is None and not page.is_sure
            arrivals.append(PageArrival(page.template, page.shown_tokens, is_settled) if is_asked else None)
        return arrivals
