"""Compares two crawls of a site: pages that are new, gone or changed, values before and after, and what each field and
selector gives now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.reporting.html.sources import FeedItem, ReportSource, is_readable, site_of
from llmcrawler.core.reporting.html.stored_pages import SelectorCounts, SelectorKey, selector_results
from llmcrawler.core.reporting.text import percent, plain, shown_value
from llmcrawler.core.understanding.extraction import Variant, parse_tree
from llmcrawler.errors import TooCostly

MAX_COMPARED = 50_000  # pages of each crawl, some 1 kB each in memory
_MAX_CHARS = 6_000_000  # of values that the list shows
_MAX_LOOKED_AT = 1_000  # pages whose stored HTML is read twice, 5 ms each
_MAX_OF_TEMPLATE = 200
_MAX_FIELDS_2 = 60
_MAX_CHANGES = 20  # of one page
_VALUE_CHARS = 300
_GONE = ("http_404", "http_410")
_EMPTY: tuple[Any, ...] = (None, "", [], {})

TemplateKey = tuple[str, str]  # site, template


@dataclass(frozen=True, slots=True)
class PageState:
    """What one crawl says of a page. `error` is "" where it has none."""

    title: str
    page_type: str
    template: TemplateKey
    content_hash: str
    record: Mapping[str, Any] | None
    error: str
    final_url: str
    lang: str

    @classmethod
    def of(cls, item: FeedItem) -> PageState:
        error, record = item.get("error"), item.get("record")
        kind = str(error.get("kind") or "error") if isinstance(error, dict) else "gone" * (item.get("change") == "gone")
        some = dict(list(record.items())[:_MAX_FIELDS_2]) if isinstance(record, dict) else None
        url = str(item.get("url"))
        return cls(
            title=plain(item.get("title") or "")[:_VALUE_CHARS],
            page_type=plain(item.get("page_type") or "")[:100],
            template=(site_of(url), str(item.get("template") or "")),
            content_hash=str(item.get("content_hash") or ""),
            record=some and {plain(name)[:80]: shown_value(value, _VALUE_CHARS) for name, value in some.items()},
            error=plain(kind)[:100],
            final_url=str(item.get("final_url") or url),
            lang=str(item.get("lang") or ""),
        )


@dataclass(slots=True)
class FieldRates:
    """Pages of a template, and those of them that have each field, in both crawls."""

    pages: list[int] = field(default_factory=lambda: [0, 0])
    filled: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))

    def add(self, crawl: int, state: PageState) -> None:
        self.pages[crawl] += 1
        for name, value in (state.record or {}).items():
            self.filled[crawl][name] += value not in _EMPTY


@dataclass(slots=True)
class Comparison:
    """Two crawls side by side. `rows` are (kind, url, title, page type, [(field, before, after)]) of pages that are not
    the same; `rates` and `selectors` are by the template that a page had before. `selectors` has what the selectors
    that were learned before gave on the same pages, then and now.
    """

    pages: tuple[int, int] = (0, 0)
    kinds: Counter[str] = field(default_factory=Counter)
    rows: list[tuple[str, str, str, str, list[tuple[str, Any, Any]]]] = field(default_factory=list)
    not_listed: int = 0
    not_compared: int = 0
    rates: dict[TemplateKey, FieldRates] = field(default_factory=dict)
    selectors: dict[TemplateKey, tuple[SelectorCounts, SelectorCounts]] = field(default_factory=dict)


def compare(before: ReportSource, after: ReportSource, max_listed: int) -> Comparison:
    """Go through both crawls. A page that was not fetched, or not read, is as good as not there."""
    found = Comparison()
    then, left_then = _states(before)
    now, left_now = _states(after)
    found.pages, found.not_compared = (len(then) + left_then, len(now) + left_now), left_then + left_now
    _Rows(found, max_listed).add_all(then, now)
    _add_rates(found, then, now)
    _add_selectors(found, before, after, then, now)
    return found


def _states(source: ReportSource) -> tuple[dict[str, PageState], int]:
    states: dict[str, PageState] = {}
    left = 0
    for item in source.items:
        url = str(item.get("url"))
        if len(states) < MAX_COMPARED or url in states:
            states[url] = PageState.of(item)
        else:
            left += 1
    return states, left


class _Rows:
    """The list of pages that are not the same."""

    def __init__(self, found: Comparison, max_listed: int) -> None:
        self._found = found
        self._max_listed = max_listed
        self._left = _MAX_CHARS

    def add_all(self, then: Mapping[str, PageState], now: Mapping[str, PageState]) -> None:
        for url, state in now.items():
            earlier = then.get(url)
            kind = _kind(earlier, state)
            shown = earlier if kind == "gone" and earlier is not None else state
            self._add(kind, url, shown, differences(earlier, state) if kind == "changed" and earlier else [])
        for url, state in then.items():
            if url not in now and not state.error:
                self._add("gone", url, state, [])
        # Pages whose values have changed say most.
        self._found.rows.sort(key=lambda row: -sum(not name.startswith("(") for name, *_values in row[4]))

    def _add(self, kind: str, url: str, state: PageState, changes: list[tuple[str, Any, Any]]) -> None:
        self._found.kinds[kind] += 1
        if kind in ("unchanged", "failed in both"):
            return
        if len(self._found.rows) >= self._max_listed or self._left <= 0:
            self._found.not_listed += 1
            return
        self._left -= len(url) + sum(len(str(value)) for one in changes for value in one)
        self._found.rows.append((kind, url[:2_000], state.title, state.page_type, changes[:_MAX_CHANGES]))


def _kind(then: PageState | None, now: PageState) -> str:
    was_there = then is not None and not then.error
    if now.error:
        if not was_there:
            return "failed in both" if then is not None else "failed"
        return "gone" if now.error in ("gone", *_GONE) else "failed"
    if then is None or not was_there:
        return "new"
    return "changed" if differences(then, now) else "unchanged"


def differences(then: PageState, now: PageState) -> list[tuple[str, Any, Any]]:
    """Return (field, before, after) for all that differs; of the main text only that it does, as it is long."""
    found: list[tuple[str, Any, Any]] = []
    for name in {**(then.record or {}), **(now.record or {})}:
        earlier, later = (then.record or {}).get(name), (now.record or {}).get(name)
        if earlier != later:
            found.append((name, earlier, later))
    if then.page_type != now.page_type:
        found.append(("(page type)", then.page_type or None, now.page_type or None))
    if then.title != now.title:
        found.append(("(page title)", then.title or None, now.title or None))
    if then.content_hash and now.content_hash and then.content_hash != now.content_hash:
        found.append(("(main text)", None, None))
    return found


def _add_rates(found: Comparison, then: Mapping[str, PageState], now: Mapping[str, PageState]) -> None:
    """Count fields by template. A page of the later crawl counts for the earlier template that most pages of its own
    template had.
    """
    moves: dict[TemplateKey, Counter[TemplateKey]] = defaultdict(Counter)
    for url, state in now.items():
        if url in then and state.template[1] and then[url].template[1]:
            moves[state.template][then[url].template] += 1
    earlier = {key: max(counts, key=lambda one: (counts[one], one)) for key, counts in moves.items()}
    for crawl, states in enumerate((then, now)):
        for state in states.values():
            key = earlier.get(state.template) if crawl else state.template
            if key is not None and key[1]:
                found.rates.setdefault(key, FieldRates()).add(crawl, state)


def _add_selectors(
    found: Comparison,
    before: ReportSource,
    after: ReportSource,
    then: Mapping[str, PageState],
    now: Mapping[str, PageState],
) -> None:
    """Run the selectors of the earlier crawl on pages that both have stored."""
    looked: Counter[TemplateKey] = Counter()
    for url, state in then.items():
        if looked.total() >= _MAX_LOOKED_AT:
            return
        if state.record is None or url not in now or now[url].error or looked[state.template] >= _MAX_OF_TEMPLATE:
            continue
        variants = before.learned.variants(url, state.template[1], state.page_type)
        pages = [source.html_of(url) for source in (before, after)] if variants else []
        if any(html is None or not is_readable(html) for html in pages) or not pages:
            continue
        looked[state.template] += 1
        counts = found.selectors.setdefault(state.template, (SelectorCounts(), SelectorCounts()))
        for one, html in zip(counts, pages, strict=True):
            _count(one, html or "", variants, state)


def _count(counts: SelectorCounts, html: str, variants: list[Variant], state: PageState) -> None:
    with suppress(TooCostly):
        counts.add(state.record, selector_results(parse_tree(html), variants, state.final_url, state.lang))


def selector_rows(found: Comparison) -> list[tuple[TemplateKey, SelectorKey, float, float]]:
    """Return (template, selector, share of pages before, share after), those that fell most first."""
    rows = [
        (template, key, then.given[key] / then.pages, now.given[key] / now.pages)
        for template, (then, now) in found.selectors.items()
        for key in then.given | now.given
        if then.pages and now.pages
    ]
    return sorted(rows, key=lambda row: (row[3] - row[2], row[0], row[1]))


def field_rows(found: Comparison) -> list[tuple[TemplateKey, str, float, float]]:
    """Return (template, field, share of pages before, share after), those that fell most first."""
    rows = [
        (template, name, rates.filled[0][name] / rates.pages[0], rates.filled[1][name] / rates.pages[1])
        for template, rates in found.rates.items()
        for name in rates.filled[0] | rates.filled[1]
        if all(rates.pages)
    ]
    return sorted(rows, key=lambda row: (row[3] - row[2], row[0], row[1]))


KINDS = ("changed", "new", "gone", "failed")
FALLEN = 0.02  # of the pages: less is a page or two
_MAX_ROWS = 300


def comparison_view(found: Comparison, before: ReportSource, after: ReportSource) -> dict[str, Any]:
    """Return what the template `comparison.html` is filled with."""
    patterns = {(str(one.get("site")), str(one.get("template"))): plain(one.get("url_pattern") or "")
                for one in before.learned.templates}  # fmt: skip

    def named(template: TemplateKey) -> str:
        return patterns.get(template) or plain(template[1])

    selectors = [(named(template), key, then, now) for template, key, then, now in selector_rows(found)]
    fields = [(named(template), name, then, now) for template, name, then, now in field_rows(found)]
    queued = after.status.urls.get("queued", 0) if after.status is not None else 0
    return {
        "before": before.name,
        "after": after.name,
        "found": found,
        "kinds": KINDS,
        "selectors": selectors[:_MAX_ROWS],
        "selectors_left": max(0, len(selectors) - _MAX_ROWS),
        "fields": fields[:_MAX_ROWS],
        "fields_left": max(0, len(fields) - _MAX_ROWS),
        "looked_at": sum(then.pages for then, _now in found.selectors.values()),
        "fallen": FALLEN,
        "findings": _findings(found, selectors, fields, queued),
        "data": {"rows": found.rows},
    }


def _findings(
    found: Comparison, selectors: Sequence[tuple[Any, ...]], fields: Sequence[tuple[Any, ...]], queued: int
) -> list[str]:
    then, now = found.pages
    fallen = [row for row in fields if row[3] <= row[2] - FALLEN]
    broken = [row for row in selectors if row[3] <= row[2] - FALLEN]
    candidates = [
        f"{then:,} pages before, {now:,} after: "
        + ", ".join(f"{found.kinds[name]:,} {name}" for name in (*KINDS, "unchanged", "failed in both"))
        + ".",
        _fell("field", fallen, lambda row: f"{row[1]} of {row[0]}"),
        _fell("selector", broken, lambda row: f"{row[1][2]} ({row[1][0]})"),
        "" if fallen or broken or not fields else "No field is filled less often than before.",
        f"The later crawl has {queued:,} more urls in its queue: pages that it has not come to count as gone."
        if queued and found.kinds["gone"]
        else "",
        f"Only the first pages of each are compared; {found.not_compared:,} are left out."
        if found.not_compared
        else "",
    ]
    return [one for one in candidates if one]


def _fell(what: str, rows: Sequence[tuple[Any, ...]], name: Any) -> str:
    if not rows:
        return ""
    shares = f"{percent(rows[0][2])} → {percent(rows[0][3])}"
    if len(rows) == 1:
        return f"1 {what} gives less than before: {name(rows[0])}, {shares}."
    return f"{len(rows):,} {what}s give less than before; most of all {name(rows[0])}: {shares}."
