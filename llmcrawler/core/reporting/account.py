"""The account of a crawl: figures read from its stats, and counts of its lines. Progress, summary, status and report
show it.
"""

# ruff: noqa: RUF009 - _of makes a field of a dataclass
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from llmcrawler.core.reporting.text import many, plain, shown_value
from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.urls import origin_of, site_name, url_pattern
from llmcrawler.items import Template

Stats = Mapping[str, Any]

_LASTING = ("downloader/request_count", "downloader/response_bytes", "downloader/response_status_count/", "llmcrawler/")
_PRIVATE = "llmcrawler/politeness/proxies/"  # about who crawls; and what is kept may be handed on
FAILED_PER_PAGE: Final = 10  # urls that may fail for each page of `max_pages`: a site could name dead ones for ever

_MAX_KEYS = 2_000  # groups, kinds of errors, page types
_EXAMPLES = 3
_FULLEST = 3  # records of a page type
_FULLEST_CHARS = 40  # of each of their values
_SHAPED = 20  # pages of a template whose urls are looked at
_MAX_FIELDS = 60
_MAX_CHARS = 2_000  # of the url and the message of an example
_SEVERAL = 5
_VALUE_CHARS = 300
_MAX_DEPTH = 5  # of an object within objects of a record

UNKNOWN: Final = "(none)"  # the page type, or the template, of a page that has none
DUPLICATE: Final = "(duplicate)"  # in its place, where a page repeats another one
FAILED: Final = "(failed)"  # in place of the page type, where there is none for an error
_NO_TYPES: Final = (UNKNOWN, DUPLICATE, FAILED)


def _of(stat: str, default: Any = 0) -> Any:
    """Make a field read from this stat, or a Counter of all stats below it where it ends with "/"."""
    if stat.endswith("/"):
        return field(default_factory=Counter, metadata={"stat": stat})
    return field(default=default, metadata={"stat": stat})


@dataclass(frozen=True, slots=True)
class BudgetFigures:
    """Limits of the LLM budget (0: none), and what all runs of a job spent. `cost_usd` None: the price is unknown."""

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
        return self.provider_cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a crawl so far. `errors` counts "stage/kind", `requests` include retries; `goal` names page types with
    commas, and `goal_records` counts over all runs of a job. `changes` are those of a refresh, `rights` those of
    core/storage/rights_marks.py; `sources` and `map_end` belong to a map.
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
    file_links: Counter[str] = _of("llmcrawler/file_links/")
    unpressed_pages: int = _of("llmcrawler/unpressed_pages")
    lines: int = _of("llmcrawler/lines")  # these two are of all runs of a job
    failed_lines: int = _of("llmcrawler/lines_failed")
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
    values: dict[str, Any] = {}
    for one in fields(figures):
        stat = one.metadata.get("stat", "")
        if stat.endswith("/"):
            values[one.name] = Counter(
                {key.removeprefix(stat): int(value) for key, value in stats.items() if key.startswith(stat)}
            )
        elif stat in stats:
            values[one.name] = stats[stat]
    return values


def lasting_stats(stats: Stats) -> dict[str, int | float]:
    return {
        name: value
        for name, value in stats.items()
        if name.startswith(_LASTING) and not name.startswith(_PRIVATE) and isinstance(value, int | float)
    }


def goal_words(figures: Figures) -> str:
    """Tell how far the crawl is with what was wanted first."""
    of = f" of {figures.max_records:,}" if figures.max_records else ""
    pages = sum(figures.page_types[name] for name in figures.goal.split(","))
    records = f"{figures.goal_records:,}{of} records" if of else many(figures.goal_records, "record")
    return f"{figures.goal}: {records}, {pages:,} of {many(figures.counted_pages, 'page')}"


def goal_progress(figures: Figures, by_type: Mapping[str, int]) -> list[str]:
    """Tell the same of a running crawl. `by_type` counts the pages waiting for their template, by page type."""
    names = figures.goal.split(",")
    waiting, pages = sum(by_type.get(name, 0) for name in names), sum(figures.page_types[name] for name in names)
    if waiting and not figures.goal_records:
        most = [f"0 of {many(figures.max_records, 'record')}"] if figures.max_records else []
        return [f"learning {figures.goal}: {many(waiting, 'page')} wait{'s' if waiting == 1 else ''}", *most]
    if not pages and not figures.goal_records:
        return [f"{figures.goal}: no page of it yet"]
    return [goal_words(figures), *([f"{waiting:,} more wait"] if waiting else [])]


@dataclass(slots=True)
class TemplatePages:
    """The pages of one template. `asked` were classified by the model; `filled` counts records by field, `shapes` url
    patterns of the first pages; `values` has a field's first value, `varied` the fields that have had others;
    `confidences` is a sum and a count.
    """

    site: str
    template: str
    types: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    asked: int = 0
    records: int = 0
    confidences: tuple[float, int] = (0.0, 0)
    filled: Counter[str] = field(default_factory=Counter)
    values: dict[str, str] = field(default_factory=dict)
    varied: set[str] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)
    shapes: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> int:
        return self.types.total()

    @property
    def constants(self) -> list[str]:
        """The fields that have the same value on all of several pages."""
        return [name for name, count in self.filled.items() if count >= _SEVERAL and name not in self.varied]

    @property
    def page_type(self) -> str:
        return max(self.types, key=lambda name: (self.types[name], name)) if self.types else UNKNOWN

    @property
    def agreement(self) -> float | None:
        """Share of the pages with a type that have the most frequent one."""
        typed = [pages for name, pages in self.types.items() if name not in _NO_TYPES]
        return max(typed) / sum(typed) if typed else None

    @property
    def confidence(self) -> float | None:
        total, number = self.confidences
        return total / number if number else None

    @property
    def shape(self) -> str:
        return max(self.shapes, key=lambda one: (self.shapes[one], one), default="")

    def name(self, pattern: str, *, with_site: bool) -> str:
        """Return a name for people: `pattern` where the template's is known, else the shape of most of its urls."""
        name = "no template" if self.template == UNKNOWN else pattern or f"{self.template} {self.shape}"
        return f"{name} · {self.site}" if with_site else name


@dataclass(slots=True)
class ErrorKind:
    pages: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)  # url, message


class CountedLine(NamedTuple):
    """The names under which a line was counted. `error` is "stage/kind", empty without one."""

    url: str
    origin: str
    site: str
    page_type: str
    template: str
    error: str


class CrawlAccount:
    """Counts page lines and map urls as they come. It is bounded: what finds no room as a new key counts as "…".

    `types` counts pages without an error, `ways` by (page type, decided by), `records` those with a record by page
    type, `filled` by (page type, field). `fullest` are the records of each page type that have most
    values, their values shortened. `templates` are the latest items.
    """

    def __init__(self) -> None:
        self.pages = 0
        self.failed = 0
        self.types: Counter[str] = Counter()
        self.ways: Counter[tuple[str, str]] = Counter()
        self.records: Counter[str] = Counter()
        self.filled: Counter[tuple[str, str]] = Counter()
        self.fullest: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.sites: Counter[str] = Counter()
        self.errors: dict[tuple[str, str], ErrorKind] = {}
        self.groups: dict[tuple[str, str], TemplatePages] = {}
        self.templates: dict[str, Template] = {}

    @property
    def pages_by_type(self) -> Counter[str]:
        """The pages that have a type, with an error or not."""
        pages: Counter[str] = Counter()
        for (page_type, _way), number in self.ways.items():
            if page_type not in _NO_TYPES:
                pages[page_type] += number
        return pages

    def add_template(self, template: Template) -> None:
        if template.template in self.templates or len(self.templates) < _MAX_KEYS:
            self.templates[template.template] = template

    def count(self, line: Mapping[str, Any]) -> CountedLine:
        """Count a line, which may have come from anyone's file."""
        url, error = str(line.get("url")), line.get("error")
        origin, site = _split(url)
        without = DUPLICATE if line.get("duplicate_of") else UNKNOWN if error is None else FAILED
        given, way = short(line.get("page_type")), short(line.get("decided_by"))
        page_type = given or without
        self.pages += 1
        self.failed += error is not None
        self.types[_key(self.types, page_type, UNKNOWN)] += error is None
        self.sites[_key(self.sites, site, "…")] += 1
        if given or way:
            self.ways[_key(self.ways, (page_type, way), ("…", ""))] += 1
        if isinstance(line.get("record"), dict) and _key(self.records, page_type, "") == page_type:
            self.records[page_type] += 1
            for name, is_filled in _fields(line["record"]):
                if _key(self.filled, (page_type, name), None) is not None:
                    self.filled[page_type, name] += is_filled
            _keep_if_full(line["record"], self.fullest[page_type])
        group = self._add_to_group(line, url, site, page_type)
        kind = ""
        if isinstance(error, dict):
            key = _key(self.errors, (short(error.get("stage")), short(error.get("kind"))), ("…", "…"))
            kind, of_kind = "/".join(key), self.errors.setdefault(key, ErrorKind())
            of_kind.pages += 1
            if len(of_kind.examples) < _EXAMPLES:
                # Cut here: a message may be as long as a page.
                of_kind.examples.append((url[:_MAX_CHARS], plain(str(error.get("message") or "")[:_MAX_CHARS])))
        return CountedLine(url, origin, site, page_type, group.template, kind)

    def _add_to_group(self, line: Mapping[str, Any], url: str, site: str, page_type: str) -> TemplatePages:
        key = _key(self.groups, (site, short(line.get("template")) or UNKNOWN), ("", "…"))
        group = self.groups.setdefault(key, TemplatePages(*key))
        group.types[page_type] += 1
        group.errors += line.get("error") is not None
        group.asked += line.get("decided_by") == "llm"
        confidence, (total, number) = line.get("confidence"), group.confidences
        if isinstance(confidence, int | float) and line.get("page_type"):
            group.confidences = total + confidence, number + 1
        if len(group.examples) < _EXAMPLES:
            group.examples.append(url)
        if group.pages <= _SHAPED:
            group.shapes[plain(url_pattern(url))[:_VALUE_CHARS]] += 1
        record = line.get("record")
        if isinstance(record, dict):
            group.records += 1
            for name, value in list(record.items())[:_MAX_FIELDS]:
                if value not in (None, "", []):
                    group.filled[name] += 1
                    if name not in group.varied:
                        text = str(shown_value(value, _VALUE_CHARS))
                        if group.values.setdefault(name, text) != text:
                            group.varied.add(name)
        return group


def _keep_if_full(record: Mapping[str, Any], kept: list[dict[str, Any]]) -> None:
    filled = [(name, value) for name, value in list(record.items())[:_MAX_FIELDS] if value not in (None, "", [], {})]
    if len(kept) < _FULLEST or len(filled) > len(kept[-1]):
        kept.append({name: shown_value(value, _FULLEST_CHARS) for name, value in filled})
        kept.sort(key=len, reverse=True)  # of as many values the first that came
        del kept[_FULLEST:]


def _key(kept: Collection[Any], key: Any, rest: Any) -> Any:
    """Return the key, or `rest` for all that is beyond the bound."""
    return key if key in kept or len(kept) < _MAX_KEYS else rest


def _fields(record: Mapping[str, Any], depth: int = _MAX_DEPTH) -> Iterator[tuple[str, bool]]:
    """Yield the name of each field, with dots where it is within an object, and whether it has a value."""
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth:
            yield from ((f"{name}.{inner}", is_filled) for inner, is_filled in _fields(value, depth - 1))
        else:
            yield name, value not in (None, "", [], {})


def _split(url: str) -> tuple[str, str]:
    """Return origin and site; a feed may have been written by anyone, so they may be empty."""
    try:
        return origin_of(url), site_name(url)
    except ValueError:
        return "", ""


def short(value: Any) -> str:
    """Return a name that a line has, fit to be shown and counted by."""
    return plain("" if value is None else value)[:100]


def rights_words(rights: RightsCounts) -> str:
    """Return the counts as one line; "" where nothing was said."""
    groups = {
        "": rights.uses,
        "said by ": rights.signals,
        "for the declared purpose ": rights.verdicts,
        "signals ": {"in conflict": rights.conflicts} if rights.conflicts else {},
    }
    said = {words: ", ".join(f"{name} {pages:,}" for name, pages in group.items()) for words, group in groups.items()}
    return "; ".join(f"{words}{counts}" for words, counts in said.items() if counts)


def rights_rows(rights: RightsCounts) -> list[tuple[str, str]]:
    said = {f"{name} for the declared purpose": pages for name, pages in rights.verdicts.items()} | {**rights.uses}
    said |= {f"said by {name}": pages for name, pages in rights.signals.items()}
    said |= {"signals in conflict": rights.conflicts, "noindex": rights.noindex}
    return [(name, f"{pages:,}") for name, pages in said.items() if pages]
