"""Reads the figures of a crawl from the flat stats that its components keep."""

# ruff: noqa: RUF009 - _of makes a field of a dataclass
from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from llmcrawler.core.reporting.text import count, dollars, duration, many
from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.storage.job_status import JobStatus
from llmcrawler.items import Page, PageError, Template, Url

Stats = Mapping[str, Any]

_LASTING = (
    "downloader/request_count",
    "downloader/response_bytes",
    "downloader/response_status_count/",
    "llmcrawler/",
)
_PRIVATE = ("llmcrawler/politeness/proxies/",)

FAILED_PER_PAGE: Final = 10  # urls that may fail for each page of `max_pages`: a site could name dead ones for ever


def _of(stat: str, default: Any = 0) -> Any:
    """Make a field that is read from this stat; or from all below it, by the rest of their names, where it ends with
    "/".
    """
    if stat.endswith("/"):
        return field(default_factory=Counter, metadata={"stat": stat})
    return field(default=default, metadata={"stat": stat})


@dataclass(frozen=True, slots=True)
class BudgetFigures:
    """Limits and spending of the LLM's budget. Limits of 0 are none. Spending counts over all runs of a job; `cost_usd`
    None: the price is not known.
    """

    max_tokens: int = _of("llmcrawler/llm/budget_max_tokens")
    max_cost_usd: float = _of("llmcrawler/llm/budget_max_cost_usd")
    tokens: int = _of("llmcrawler/llm/budget_tokens")
    cost_usd: float | None = _of("llmcrawler/llm/budget_cost_usd", None)
    is_reached: bool = _of("llmcrawler/llm/budget_reached", default=False)


@dataclass(frozen=True, slots=True)
class LLMFigures:
    """Calls of the model in this run. `cost_usd` is None where its price is not known."""

    calls: int = _of("llmcrawler/llm/calls")
    calls_by_task: Counter[str] = _of("llmcrawler/llm/calls/")
    pages_shown: int = _of("llmcrawler/llm/pages_shown")
    prompt_tokens: int = _of("llmcrawler/llm/prompt_tokens")
    completion_tokens: int = _of("llmcrawler/llm/completion_tokens")
    provider_cached_tokens: int = _of("llmcrawler/llm/provider_cached_tokens")
    cost_usd: float | None = _of("llmcrawler/llm/cost_usd", None)
    cached_answers: int = _of("llmcrawler/llm/cached_answers")
    faults: Counter[str] = _of("llmcrawler/llm/faults/")
    provider: str = _of("llmcrawler/llm/provider", "")
    failure: str = _of("llmcrawler/llm/failure", "")
    budget: BudgetFigures | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def provider_cached_share(self) -> float:
        """Return the share of the prompts' tokens that the provider had in its prompt cache, in 0..1."""
        return self.provider_cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a crawl so far. `errors` counts "stage/kind"; `queued` and `leased` are urls; `requests` are those
    that went out, repeats too; `noindex_pages` have no text because they say so.

    `goal` are the page types that are wanted first, with commas; `goal_records` counts over all runs of a job.
    `changes` counts the pages of a refresh by what became of them. `rights` counts pages by their marks
    (core/storage/rights_marks.py). `sources` counts the urls of a map, which are no pages; `map_end` says why it looked
    through no more pages.
    """

    llm: LLMFigures
    pages: int = _of("llmcrawler/pages")
    max_pages: int | None = _of("llmcrawler/max_pages", None)
    duplicates: int = _of("llmcrawler/duplicates")
    queued: int = _of("llmcrawler/frontier/queued")
    leased: int = _of("llmcrawler/frontier/leased")
    requests: int = _of("downloader/request_count")
    templates: int = _of("llmcrawler/templates")
    statuses: Counter[str] = _of("downloader/response_status_count/")
    page_types: Counter[str] = _of("llmcrawler/page_types/")
    page_records: Counter[str] = _of("llmcrawler/page_records/")
    goal: str = _of("llmcrawler/goal", "")
    goal_records: int = _of("llmcrawler/goal_records")
    max_records: int | None = _of("llmcrawler/max_records", None)
    changes: Counter[str] = _of("llmcrawler/changes/")
    decided_by: Counter[str] = _of("llmcrawler/decided_by/")
    rights: Counter[str] = _of("llmcrawler/rights/")
    errors: Counter[str] = _of("llmcrawler/errors/")
    noindex_pages: int = _of("llmcrawler/noindex_pages")
    sources: Counter[str] = _of("llmcrawler/urls/")
    map_end: str = _of("llmcrawler/map_end", "")

    @property
    def counted_pages(self) -> int:
        """The pages that count towards max_pages: a url that could not be fetched does not, nor does a duplicate."""
        return self.pages - self.failed_urls - self.duplicates

    @property
    def guessed_types(self) -> dict[str, int]:
        """The page types that no model told, by who guessed them: the trained classifier, and rules of thumb."""
        guessed = {"the trained classifier": self.decided_by["classifier"], "rules": self.decided_by["rule"]}
        return {who: count for who, count in guessed.items() if count}

    @property
    def failed_urls(self) -> int:
        return sum(count for kind, count in self.errors.items() if kind.startswith("fetch/"))


def read_figures(stats: Stats) -> Figures:
    """Return the figures; what is not in the stats (yet) counts as none."""
    budget = BudgetFigures(**_values(BudgetFigures, stats)) if "llmcrawler/llm/budget_tokens" in stats else None
    return Figures(llm=LLMFigures(**_values(LLMFigures, stats), budget=budget), **_values(Figures, stats))


def _values(figures: Any, stats: Stats) -> dict[str, Any]:
    read = {one.name: one.metadata["stat"] for one in fields(figures) if "stat" in one.metadata}
    values: dict[str, Any] = {name: stats[stat] for name, stat in read.items() if stat in stats}
    for name, prefix in read.items():
        if prefix.endswith("/"):
            below = {key.removeprefix(prefix): int(value) for key, value in stats.items() if key.startswith(prefix)}
            values[name] = Counter(below)
    return values


def lasting_stats(stats: Stats) -> dict[str, int | float]:
    """Return the stats that are worth keeping after a run. Proxies are about who crawls, and what is kept may be handed
    on.
    """
    return {
        name: value
        for name, value in stats.items()
        if name.startswith(_LASTING) and not name.startswith(_PRIVATE) and isinstance(value, int | float)
    }


def goal_words(figures: Figures) -> str:
    """Say how far the crawl is with what was wanted first."""
    of = f" of {figures.max_records:,}" if figures.max_records else ""
    pages = sum(figures.page_types[name] for name in figures.goal.split(","))
    records = f"{figures.goal_records:,}{of} records" if of else many(figures.goal_records, "record")
    return f"{figures.goal}: {records}, {pages:,} of {many(figures.counted_pages, 'page')}"


def goal_progress(figures: Figures, by_type: Mapping[str, int]) -> list[str]:
    """Say the same while the crawl runs: until there is a first record, what the pages of the goal wait for. `by_type`
    counts the pages that wait for their template.
    """
    names = figures.goal.split(",")
    waiting, pages = sum(by_type.get(name, 0) for name in names), sum(figures.page_types[name] for name in names)
    if waiting and not figures.goal_records:
        most = [f"0 of {many(figures.max_records, 'record')}"] if figures.max_records else []
        return [f"learning {figures.goal}: {many(waiting, 'page')} wait{'s' if waiting == 1 else ''}", *most]
    if not pages and not figures.goal_records:
        return [f"{figures.goal}: no page of it yet"]
    return [goal_words(figures), *([f"{waiting:,} more wait"] if waiting else [])]


_MAX_KEYS = 1000
_LATENCIES = 50
_MAX_CHARS = 2000  # of the url and the message of an example
_MAX_DEPTH = 5  # of an object within objects of a record


@dataclass(slots=True)
class TemplateTally:
    page_types: Counter[str] = field(default_factory=Counter)
    confidence_sum: float = 0.0
    confidence_count: int = 0

    @property
    def agreement(self) -> float | None:
        """Share of the pages with a type that have the most frequent one."""
        total = self.page_types.total()
        return max(self.page_types.values()) / total if total else None

    @property
    def confidence(self) -> float | None:
        return self.confidence_sum / self.confidence_count if self.confidence_count else None


class Tally:
    """Counts pages as they come. `types` counts (page type, decided by), `records` by page type, `filled` the records
    that have a field, by (page type, field); `examples` holds one page for each "stage/kind" of error.
    """

    def __init__(self) -> None:
        self.types: Counter[tuple[str, str]] = Counter()
        self.records: Counter[str] = Counter()
        self.filled: Counter[tuple[str, str]] = Counter()
        self.examples: dict[str, tuple[str, str]] = {}
        self.templates: dict[str, Template] = {}
        self.by_template: dict[str, TemplateTally] = {}
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)

    @property
    def pages_by_type(self) -> Counter[str]:
        pages: Counter[str] = Counter()
        for (page_type, _way), number in self.types.items():
            pages[page_type] += number
        return pages

    @property
    def latency_seconds(self) -> float | None:
        """Mean latency of the last pages; None before the first."""
        return sum(self._latencies) / len(self._latencies) if self._latencies else None

    def add_url(self, url: Url) -> None:
        """Count a url of a map; one that was not fetched has no latency and no error."""
        if url.latency_seconds:
            self._latencies.append(url.latency_seconds)
        if url.error is not None:
            self._add_example(url.url, url.error)

    def add_page(self, page: Page) -> None:
        if page.page_type is not None and _has_room(self.types, key := (page.page_type, page.decided_by or "")):
            self.types[key] += 1
        if page.record is not None and page.page_type is not None and _has_room(self.records, page.page_type):
            self._add_record(page.page_type, page.record)
        if page.latency_seconds:
            self._latencies.append(page.latency_seconds)
        if page.error is not None:
            self._add_example(page.url, page.error)
        if page.template is not None and _has_room(self.by_template, page.template):
            self._add_to_template(page, self.by_template.setdefault(page.template, TemplateTally()))

    def add_template(self, template: Template) -> None:
        """Keep a template, instead of what it was before: it comes again when it changes."""
        if _has_room(self.templates, template.template):
            self.templates[template.template] = template

    def _add_record(self, page_type: str, record: Mapping[str, Any]) -> None:
        self.records[page_type] += 1
        for name, is_filled in _fields(record):
            if _has_room(self.filled, key := (page_type, name)):
                self.filled[key] += is_filled

    def _add_example(self, url: str, error: PageError) -> None:
        if _has_room(self.examples, kind := f"{error.stage}/{error.kind}"):
            # Cut here: a message may be as long as a page.
            self.examples.setdefault(kind, (url[:_MAX_CHARS], error.message[:_MAX_CHARS]))

    def _add_to_template(self, page: Page, tally: TemplateTally) -> None:
        if page.page_type is None:
            return
        tally.page_types[page.page_type] += 1
        if page.confidence is not None:
            tally.confidence_sum += page.confidence
            tally.confidence_count += 1


def _fields(record: Mapping[str, Any], depth: int = _MAX_DEPTH) -> Iterator[tuple[str, bool]]:
    """Yield the name of each field, with dots where it is within an object, and whether it has a value."""
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth:
            yield from ((f"{name}.{inner}", is_filled) for inner, is_filled in _fields(value, depth - 1))
        else:
            yield name, value not in (None, "", [], {})


def _has_room(kept: Collection[Any], key: object) -> bool:
    return len(kept) < _MAX_KEYS or key in kept


def rights_lines(figures: Figures) -> list[str]:
    """Return the line of the summary; none where nothing was said."""
    said = rights_words(RightsCounts.of(figures.rights))
    return [f"Use of the pages: {said}"] if said else []


def rights_words(rights: RightsCounts) -> str:
    """Return the counts as one line; "" where nothing was said."""
    groups = {
        "": rights.uses,
        "said by ": rights.signals,
        "for the declared purpose ": rights.verdicts,
        "signals ": {"in conflict": rights.conflicts} if rights.conflicts else {},
    }
    return "; ".join(f"{words}{_counts(group)}" for words, group in groups.items() if group)


def rights_rows(rights: RightsCounts) -> Iterator[tuple[str, str]]:
    """Yield what is said, and of how many pages."""
    said = {f"{name} for the declared purpose": pages for name, pages in rights.verdicts.items()} | {**rights.uses}
    said |= {f"said by {name}": pages for name, pages in rights.signals.items()}
    said |= {"signals in conflict": rights.conflicts, "noindex": rights.noindex}
    yield from ((name, f"{pages:,}") for name, pages in said.items() if pages)


def _counts(group: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {pages:,}" for name, pages in group.items())


Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Actual:
    """Figures of a crawl so far, over all its runs but for `seconds`. `cost_usd` None: the price is not known."""

    pages: int
    errors: int
    seconds: float | None = None
    llm_calls: int = 0
    llm_tokens: int = 0
    cost_usd: float | None = None


def job_plan_rows(
    status: JobStatus, llm_calls: int | None = None, llm_tokens: int | None = None
) -> list[tuple[str, str, str]]:
    """Return the rows of plan_rows for a job, none where nothing was planned. The calls and tokens are of all runs,
    where one knows them: the status has those since the last refresh began.
    """
    if status.plan is None:
        return []
    actual = Actual(
        pages=status.urls["done"],
        errors=status.urls["dead"],
        seconds=status.rate.seconds if status.runs == 1 else None,
        llm_calls=int(status.spent.get("calls", 0)) if llm_calls is None else llm_calls,
        llm_tokens=int(status.spent.get("tokens", 0)) if llm_tokens is None else llm_tokens,
        cost_usd=status.spent.get("cost_usd"),
    )
    return plan_rows(status.plan, actual)


def plan_rows(plan: Mapping[str, Any], actual: Actual) -> list[tuple[str, str, str]]:
    """Return (figure, planned, actual), as words."""
    llm = plan["llm"]
    has_llm = bool(llm["model"]) or actual.llm_calls > 0
    rows: list[tuple[str, Amounts | None, float | None, Callable[[float], str]]] = [
        ("pages", plan["pages"], actual.pages, count),
        ("errors", plan["errors"], actual.errors, count),
        ("time", plan["seconds"], actual.seconds, duration),
        ("LLM calls", llm["calls"], actual.llm_calls if has_llm else None, count),
        ("LLM tokens", llm["tokens"], actual.llm_tokens if has_llm else None, count),
        ("cost", llm["cost_usd"], actual.cost_usd, dollars),
    ]
    return [
        (name, planned(amounts, word), word(come))
        for name, amounts, come, word in rows
        if amounts is not None and come is not None
    ]


def words_of_amounts(amounts: Amounts, word: Callable[[float], str]) -> list[str]:
    """Return the low, the likely and the high amount."""
    return [word(amounts[name]) for name in ("low", "likely", "high")]


def planned(amounts: Amounts, word: Callable[[float], str]) -> str:
    """Return the likely amount, and how far it may be off."""
    low, likely, high = words_of_amounts(amounts, word)
    return likely if low == high else f"{likely} ({low} to {high})"
