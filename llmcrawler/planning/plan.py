"""What a crawl will come to: pages, time, calls of the model, tokens and money, each as a range."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from llmcrawler.llm.usage import Price
from llmcrawler.llm.waiting import BatchRules
from llmcrawler.planning.calls import Asked, play
from llmcrawler.planning.growth import Range, Stratum, site_size
from llmcrawler.planning.projection import SCENARIOS, Projection, Projector
from llmcrawler.planning.sample import SampledPage, SiteSample
from llmcrawler.planning.structure import with_items

_DRAWS = 5
_SEED = 1
# What models say of a page: its id, label and confidence. Of a page that is learned from: its fields and their blocks.
_CLASSIFY_ANSWER_TOKENS = 20
_INDUCE_ANSWER_TOKENS = 300
# A lesson is one call where the fields are few, else as many as show `max_samples` pages, after the first call two at a
# time (extraction.training_run).
_MORE_SAMPLES = 2
_LESSON_AGAIN = 1.5
# What a model thinks before an answer that needs no long thoughts, by reasoning_effort; a guess, so the range is wide.
THOUGHT_TOKENS: Final = {"minimal": 50, "low": 300, "medium": 1_500, "high": 5_000}
_THOUGHTS = {"low": 0.3, "likely": 1.0, "high": 3.0}
# Tokenisers differ by so much from four bytes a token.
_TOKENS_LOW, _TOKENS_HIGH = 0.85, 1.3
# What a page takes of a processor, in all stages: where there is no gap, that is the pace.
_PAGE_SECONDS = 0.008
# Hosts answer slower than they did to the sample, refuse, and want pages asked for twice.
_TIME_HIGH = 1.3


@dataclass(frozen=True, slots=True)
class Terms:
    """How the crawl will be done. `gap_seconds` from start to start and `concurrency` are of one host. Without
    `batches` there is no model. The tokens are those of a call without its pages; `thought_tokens`, of one answer.
    `weak_types` are what the rules of thumb call a page that they know no better name for.
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
    weak_types: Collection[str] = ()
    min_pages: int = 5
    samples: int = 3
    max_samples: int = 7
    pages_a_lesson_call: int = 7


@dataclass(frozen=True, slots=True)
class PlannedTemplate:
    """`example` is a page of it."""

    page_type: str
    pattern: str
    example: str
    pages: Range
    is_learned: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`site_pages`: those that there are; `pages`: what `max_pages` lets come. `cost_usd` None: no price known."""

    url: str
    max_pages: int
    sample: Mapping[str, int]
    site_pages: Range
    pages: Range
    errors: Range
    page_types: Mapping[str, Range]
    templates: tuple[PlannedTemplate, ...]
    seconds: Range
    model: str
    classify_calls: Range
    induce_calls: Range
    tokens: Range
    cost_usd: Range | None
    notes: tuple[str, ...] = field(default=())

    @property
    def calls(self) -> Range:
        return self.classify_calls.plus(self.induce_calls)

    def to_json(self) -> dict[str, Any]:
        """Ranges are {low, likely, high}."""
        cost = self.cost_usd
        return {
            "url": self.url,
            "max_pages": self.max_pages,
            "sample": dict(self.sample),
            "site_pages": self.site_pages.rounded(),
            "pages": self.pages.rounded(),
            "errors": self.errors.rounded(),
            "page_types": {name: count.rounded() for name, count in self.page_types.items()},
            "templates": [
                {
                    "page_type": one.page_type,
                    "pattern": one.pattern,
                    "example": one.example,
                    "pages": one.pages.rounded(),
                    "learned": one.is_learned,
                }
                for one in self.templates
            ],
            "seconds": {name: round(getattr(self.seconds, name), 1) for name in SCENARIOS},
            "llm": {
                "model": self.model,
                "calls": self.calls.rounded(),
                "calls_by_task": {"classify": self.classify_calls.rounded(), "induce": self.induce_calls.rounded()},
                "tokens": self.tokens.rounded(),
                "cost_usd": None if cost is None else {name: round(getattr(cost, name), 5) for name in SCENARIOS},
            },
            "notes": list(self.notes),
        }


def make_plan(url: str, sample: SiteSample, terms: Terms) -> Plan:
    sample = with_items(sample, terms.weak_types)
    strata = site_size(sample)
    projector = Projector(strata)
    projections = {name: projector.project(name, terms.max_pages) for name in SCENARIOS}
    cells = {name: projector.cells(one) for name, one in projections.items()}
    came = [page for page in sample.pages if page.error is None]
    templates = _templates(came, cells, terms)
    pace_seconds = _pace_seconds(came, terms)
    asked = {name: _asked(projector, projections[name], pace_seconds, terms) for name in SCENARIOS}
    lessons = _lessons(templates, terms)
    tokens, cost = _bill(asked, lessons, _block_tokens(came), terms)
    return Plan(
        url=url,
        max_pages=terms.max_pages,
        sample={
            "pages": len(came),
            "errors": len(sample.pages) - len(came),
            "known": len(sample.known),
            "listed": len(sample.listed),
            "is_whole": int(sample.is_whole),
        },
        site_pages=_range({name: sum(one.whole.values()) for name, one in projections.items()}),
        pages=_range({name: one.count for name, one in projections.items()}),
        errors=_range({name: sum(one.failed.values()) for name, one in projections.items()}),
        page_types=_page_types(cells),
        templates=templates,
        seconds=_seconds(projections, asked, lessons, pace_seconds, terms),
        model=terms.model,
        classify_calls=_range({name: float(one.calls) for name, one in asked.items()}),
        induce_calls=lessons,
        tokens=tokens,
        cost_usd=cost,
        notes=_notes(sample, strata, terms),
    )


def _range(values: Mapping[str, float]) -> Range:
    low, likely, high = (values[name] for name in SCENARIOS)
    return Range(min(low, likely), likely, max(likely, high))


def _pace_seconds(came: Sequence[SampledPage], terms: Terms) -> float:
    """Little's law: no faster than the gap, than the requests in flight allow at this latency, and than the machine."""
    latency = statistics.median(page.latency_seconds for page in came) if came else 0.0
    return max(terms.gap_seconds, latency / max(1, terms.concurrency), _PAGE_SECONDS)


def _templates(
    came: Sequence[SampledPage], cells: Mapping[str, Counter[tuple[str, str, bool]]], terms: Terms
) -> tuple[PlannedTemplate, ...]:
    templates = []
    for name in dict.fromkeys(page.template for page in came):
        pages = [page for page in came if page.template == name]
        page_type = Counter(page.page_type for page in pages).most_common(1)[0][0]
        counts = _range({scenario: sum(n for key, n in of.items() if key[0] == name) for scenario, of in cells.items()})
        is_learned = page_type in terms.record_types and counts.likely >= terms.min_pages
        pattern = Counter(page.pattern for page in pages).most_common(1)[0][0]
        templates.append(PlannedTemplate(page_type, pattern, pages[0].url, counts, is_learned))
    return tuple(sorted(templates, key=lambda one: (-one.pages.likely, one.pattern)))


def _page_types(cells: Mapping[str, Counter[tuple[str, str, bool]]]) -> dict[str, Range]:
    names = {key[1] for of in cells.values() for key in of}
    counts = {
        name: _range({scenario: sum(n for key, n in of.items() if key[1] == name) for scenario, of in cells.items()})
        for name in names
    }
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1].likely, pair[0])))


def _asked(projector: Projector, projection: Projection, pace_seconds: float, terms: Terms) -> Asked:
    """The middle one of some draws."""
    if terms.batches is None:
        return Asked(0, 0, 0)
    rng = Random(_SEED)  # noqa: S311 (the same sample gives the same plan)
    draws = [
        play(projector.arrivals(projection, rng), pace_seconds, terms.call_seconds, terms.batches)
        for _ in range(_DRAWS)
    ]
    return sorted(draws, key=lambda one: (one.calls, one.pages))[_DRAWS // 2]


def _lessons(templates: Sequence[PlannedTemplate], terms: Terms) -> Range:
    if terms.batches is None:
        return Range(0, 0, 0)
    learned = sum(one.is_learned for one in templates)
    maybe = sum(one.page_type in terms.record_types and one.pages.high >= terms.min_pages for one in templates)
    once = -(-terms.samples // terms.pages_a_lesson_call)
    whole = once + -(-(terms.max_samples - terms.samples) // min(_MORE_SAMPLES, terms.pages_a_lesson_call))
    return Range(learned * once, learned * (once + whole) / 2, maybe * whole * _LESSON_AGAIN)


def _block_tokens(came: Sequence[SampledPage]) -> float:
    shown = [page.block_tokens for page in came if page.block_tokens]
    return statistics.fmean(shown) if shown else 0.0


def _bill(asked: Mapping[str, Asked], lessons: Range, block_tokens: float, terms: Terms) -> tuple[Range, Range | None]:
    tokens, cost = {}, {}
    for name, doubt in zip(SCENARIOS, (_TOKENS_LOW, 1.0, _TOKENS_HIGH), strict=True):
        calls = getattr(lessons, name)
        shown = calls * terms.max_samples / max(1, 1 + -(-(terms.max_samples - terms.samples) // _MORE_SAMPLES))
        shown = calls if terms.pages_a_lesson_call == 1 else shown
        prompt = asked[name].calls * terms.classify_tokens + asked[name].tokens
        prompt += calls * terms.induce_tokens + shown * block_tokens
        answer = asked[name].pages * _CLASSIFY_ANSWER_TOKENS + shown * _INDUCE_ANSWER_TOKENS
        answer += (asked[name].calls + calls) * terms.thought_tokens * _THOUGHTS[name]
        tokens[name] = (prompt + answer) * doubt
        if terms.price is not None:
            cost[name] = terms.price.cost_usd(round(prompt * doubt), round(answer * doubt), 0)
    return _range(tokens), _range(cost) if cost else None


def _seconds(
    projections: Mapping[str, Projection],
    asked: Mapping[str, Asked],
    lessons: Range,
    pace_seconds: float,
    terms: Terms,
) -> Range:
    """The model holds the crawl up only where its calls take longer than all the pages."""
    seconds = {}
    for name, one in projections.items():
        crawl = (one.count + sum(one.failed.values())) * pace_seconds
        calls = asked[name].calls + getattr(lessons, name)
        at_once = 1 if terms.batches is None else terms.batches.max_in_flight
        seconds[name] = max(crawl, calls * terms.call_seconds / at_once) + min(calls, 2) * terms.call_seconds
    return _range({**seconds, "high": seconds["high"] * _TIME_HIGH})


def _notes(sample: SiteSample, strata: Sequence[Stratum], terms: Terms) -> tuple[str, ...]:
    notes = []
    if not sample.is_whole:
        notes.append("page types are told by structured data and rules of thumb; the model may call some otherwise")
    unseen = sum(one.known for one in strata if not one.pages)
    if unseen:
        notes.append(f"of {unseen:,} known urls no page of that shape was fetched: a larger --sample says more of them")
    if terms.batches is not None and terms.price is None:
        notes.append("the price of the model is not known: set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT")
    return tuple(notes)
