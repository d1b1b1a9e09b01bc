"""Estimates a crawl: pages, time, calls of the model, tokens and money, each as a range."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from llmcrawler.core.llm.batching import BatchRules
from llmcrawler.core.llm.usage import Price, Tokens
from llmcrawler.core.reporting.planning.model_calls import PageArrival, play
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample
from llmcrawler.core.reporting.planning.size_estimate import Range, Stratum, site_size

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
_THOUGHTS = Range(0.3, 1.0, 3.0)
# Tokenisers differ by so much from four bytes a token.
_TOKENS = Range(0.85, 1.0, 1.3)
# Processor time of a page in all stages: where there is no gap between starts, that is the pace.
_PAGE_SECONDS = 0.008
# Hosts answer slower than they did to the sample, refuse, and want pages asked for twice.
_TIME = Range(1.0, 1.0, 1.3)


@dataclass(frozen=True, slots=True)
class CrawlTerms:
    """The terms on which the crawl is done. `gap_seconds` from start to start and `concurrency` are of one host.
    Without `batches` there is no model; `classifies`: it is asked for page types too. The tokens are those of a call
    without its pages; `thought_tokens`, of one answer. `weak_types` are what the rules of thumb call a page that they
    know no better name for.
    """

    max_pages: int
    gap_seconds: float
    concurrency: int
    model: str = ""
    batches: BatchRules | None = None
    classifies: bool = True
    call_seconds: float = 1.5
    classify_tokens: int = 0
    induce_tokens: int = 0
    thought_tokens: int = 0
    price: Price | None = None
    record_types: Container[str] = ()
    weak_types: Collection[str] = ()
    min_pages: int = 5
    samples: int = 3
    max_samples: int = 7
    pages_a_training_call: int = 7


def make_plan(url: str, sample: SiteSample, terms: CrawlTerms) -> dict[str, Any]:
    """Return the plan as the JSON that is kept in a JOBDIR; a range is {low, likely, high}. `site_pages` are those that
    there are, `pages` what `max_pages` lets come, `cost_usd` None where no price is known.
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
        "notes": list(_notes(sample, strata, terms)),
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


def _notes(sample: SiteSample, strata: Iterable[Stratum], terms: CrawlTerms) -> Iterator[str]:
    if not sample.is_whole:
        yield "page types are told by structured data and rules of thumb; the model may call some otherwise"
    unseen = sum(one.known for one in strata if not one.pages)
    if unseen:
        yield f"of {unseen:,} known urls no page of that shape was fetched: a larger --sample says more of them"
    if terms.batches is not None and terms.price is None:
        yield "the price of the model is not known: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT"


def retyped_items(sample: SiteSample, weak_types: Collection[str]) -> SiteSample:
    """Return the sample with items that the rules took for something weak (a list, or nothing in particular) as what
    they are likeliest. Rules of thumb see one page and take many a product for a list, for it shows its neighbours.
    Seen over a site the two come apart: a list leads to several pages of another template, to others on each page.
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
    """The crawl if each kind of url has its low, likely or high size (`at` 0, 1, 2): `figures` by name,
    pages also by ("template", name) and ("type", name).
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
        """Seconds from page to page, by Little's law: no faster than the gap, than the requests in flight allow at this
        latency, and than the machine.
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
        once = math.ceil(terms.samples / terms.pages_a_training_call)
        whole = once + math.ceil(more / min(_MORE_SAMPLES, terms.pages_a_training_call))
        kinds = [name for name, page_type in self._type_of.items() if page_type in terms.record_types]
        learned = sum(figures["template", name] >= terms.min_pages for name in kinds)
        induce = learned * (once, (once + whole) / 2, whole * _LEARNED_AGAIN)[at]
        figures |= {"classify": asked.calls, "induce": induce, "calls": asked.calls + induce}
        is_one_by_one = terms.pages_a_training_call == 1
        shown = induce * (1 if is_one_by_one else terms.max_samples / (1 + math.ceil(more / _MORE_SAMPLES)))
        block_tokens = statistics.fmean([page.block_tokens for page in self._fetched if page.block_tokens] or [0])
        prompt: float = asked.calls * terms.classify_tokens + asked.tokens
        prompt += induce * terms.induce_tokens + shown * block_tokens
        answer = asked.pages * _CLASSIFY_ANSWER_TOKENS + shown * _INDUCE_ANSWER_TOKENS
        answer += figures["calls"] * terms.thought_tokens * _THOUGHTS[at]
        figures["tokens"] = (prompt + answer) * _TOKENS[at]
        if terms.price is not None:
            figures["cost_usd"] = terms.price.cost_usd(Tokens(round(prompt * _TOKENS[at]), round(answer * _TOKENS[at])))

    def _arrivals(self, rng: Random) -> list[PageArrival | None]:
        """Return the sample as it came, then pages in an order in which the frontier may hand them out: by priority,
        those of one priority in any order.

        New kinds of page become rarer in proportion to the pages that came (Good, 1953): their number in the later half
        of the sample, times its length, over a page's place, is the chance that it is one.
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
            is_asked = self._terms.classifies and page.error is None and not page.is_sure
            arrivals.append(PageArrival(page.template, page.shown_tokens, is_settled) if is_asked else None)
        return arrivals
