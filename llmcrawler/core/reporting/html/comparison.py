"""Compares two crawls of a site: pages new, gone or changed, their values, and how many pages have each field."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.reporting.html.sources import FeedItem, ReportSource, site_of
from llmcrawler.core.reporting.html.stored_pages import Key
from llmcrawler.core.reporting.text import percent, plain, shown_value

MAX_COMPARED = 50_000  # pages of each crawl, some 1 kB each in memory
_MAX_CHARS = 6_000_000  # of values that the list shows
_MAX_FIELDS = 60
_MAX_CHANGES = 20  # of one page
_MAX_ROWS = 300
_VALUE_CHARS = 300
_FALLEN = 0.02  # of the pages: less is a page or two
_KINDS = ("changed", "new", "gone", "failed")
_UNLISTED = ("unchanged", "failed in both")
_GONE = ("gone", "http_404", "http_410")
_EMPTY: tuple[Any, ...] = (None, "", [], {})

Change = tuple[str, Any, Any]  # field, before, after
Share = tuple[Key, str, float, float]  # template, field, share of pages before and after


@dataclass(frozen=True, slots=True)
class PageState:
    """A page in one crawl. `error` is "" if it has none."""

    title: str
    page_type: str
    template: Key
    content_hash: str
    record: Mapping[str, Any]
    error: str

    @classmethod
    def of(cls, item: FeedItem) -> PageState:
        url, error, record = str(item.get("url")), item.get("error"), item.get("record")
        kind = str(error.get("kind") or "error") if isinstance(error, dict) else "gone" * (item.get("change") == "gone")
        some = list(record.items())[:_MAX_FIELDS] if isinstance(record, dict) else []
        return cls(
            title=plain(item.get("title") or "")[:_VALUE_CHARS],
            page_type=plain(item.get("page_type") or "")[:100],
            template=(site_of(url), str(item.get("template") or "")),
            content_hash=str(item.get("content_hash") or ""),
            record={plain(name)[:80]: shown_value(value, _VALUE_CHARS) for name, value in some},
            error=plain(kind)[:100],
        )


States = Mapping[str, PageState]  # by url


@dataclass(slots=True)
class Comparison:
    """Two crawls side by side. `rows` are (kind, url, title, page type, changes) of pages that differ. `fields` are by
    the template a page had before, largest fall first.
    """

    pages: tuple[int, int] = (0, 0)
    kinds: Counter[str] = field(default_factory=Counter)
    rows: list[tuple[str, str, str, str, list[Change]]] = field(default_factory=list)
    not_listed: int = 0
    not_compared: int = 0
    fields: list[Share] = field(default_factory=list)


def compare(before: ReportSource, after: ReportSource, max_listed: int) -> Comparison:
    """Compare page by page; one that was not fetched or not read counts as missing."""
    then, left_then = _states(before.items)
    now, left_now = _states(after.items)
    found = Comparison((len(then) + left_then, len(now) + left_now), not_compared=left_then + left_now)
    _list_changes(found, then, now, max_listed)
    found.fields = _field_shares(then, now)
    return found


def _states(items: Iterable[FeedItem]) -> tuple[dict[str, PageState], int]:
    states: dict[str, PageState] = {}
    left = 0
    for item in items:
        url = str(item.get("url"))
        if len(states) < MAX_COMPARED or url in states:
            states[url] = PageState.of(item)
        else:
            left += 1
    return states, left


def _list_changes(found: Comparison, then: States, now: States, max_listed: int) -> None:
    """Count and list the pages that are not the same, those whose values have changed first: they say most."""
    left = _MAX_CHARS
    missing = [url for url, state in then.items() if url not in now and not state.error]
    for url in [*now, *missing]:
        earlier, later = then.get(url), now.get(url)
        kind, changes = _change(earlier, later)
        found.kinds[kind] += 1
        if kind in _UNLISTED:
            continue
        if len(found.rows) >= max_listed or left <= 0:
            found.not_listed += 1
            continue
        left -= len(url) + sum(len(str(value)) for one in changes for value in one)
        shown = earlier if kind == "gone" and earlier is not None else later
        assert shown is not None
        found.rows.append((kind, url[:2_000], shown.title, shown.page_type, changes[:_MAX_CHANGES]))
    found.rows.sort(key=lambda row: -sum(not name.startswith("(") for name, *_values in row[4]))


def _change(then: PageState | None, now: PageState | None) -> tuple[str, list[Change]]:
    was_there = then is not None and not then.error
    if now is None:
        return "gone", []
    if now.error:
        if not was_there:
            return "failed in both" if then is not None else "failed", []
        return "gone" if now.error in _GONE else "failed", []
    if then is None or not was_there:
        return "new", []
    changes = differences(then, now)
    return "changed" if changes else "unchanged", changes


def differences(then: PageState, now: PageState) -> list[Change]:
    """Return all that differs; of the main text only that it does, as it is long."""
    values = [(name, then.record.get(name), now.record.get(name)) for name in {**then.record, **now.record}]
    values.append(("(page type)", then.page_type or None, now.page_type or None))
    values.append(("(page title)", then.title or None, now.title or None))
    found = [one for one in values if one[1] != one[2]]
    if then.content_hash and now.content_hash and then.content_hash != now.content_hash:
        found.append(("(main text)", None, None))
    return found


def _field_shares(then: States, now: States) -> list[Share]:
    """Compare how many pages of a template have each field. A later page counts for the earlier template that most
    pages of its own template had.
    """
    moves: dict[Key, Counter[Key]] = defaultdict(Counter)
    for url, state in now.items():
        if url in then and state.template[1] and then[url].template[1]:
            moves[state.template][then[url].template] += 1
    earlier = {key: max(counts, key=lambda one: (counts[one], one)) for key, counts in moves.items()}
    pages: tuple[Counter[Key], Counter[Key]] = (Counter(), Counter())
    filled: tuple[Counter[tuple[Key, str]], Counter[tuple[Key, str]]] = (Counter(), Counter())
    for crawl, states in enumerate((then, now)):
        for state in states.values():
            key = earlier.get(state.template) if crawl else state.template
            if key is not None and key[1]:
                pages[crawl][key] += 1
                filled[crawl].update((key, name) for name, value in state.record.items() if value not in _EMPTY)
    shares = [
        (key, name, filled[0][key, name] / pages[0][key], filled[1][key, name] / pages[1][key])
        for key, name in filled[0] | filled[1]
        if pages[0][key] and pages[1][key]
    ]
    return sorted(shares, key=lambda row: (row[3] - row[2], row[0], row[1]))


def comparison_view(found: Comparison, before: ReportSource, after: ReportSource) -> dict[str, Any]:
    patterns = {
        (str(one.get("site")), str(one.get("template"))): plain(one.get("url_pattern") or "")
        for one in before.learned.templates
    }
    fields = [(patterns.get(template) or plain(template[1]), *rest) for template, *rest in found.fields]
    queued = after.status.urls.get("queued", 0) if after.status is not None else 0
    return {
        "before": before.name,
        "after": after.name,
        "found": found,
        "kinds": _KINDS,
        "fields": fields[:_MAX_ROWS],
        "fields_left": max(0, len(fields) - _MAX_ROWS),
        "fallen": _FALLEN,
        "findings": list(_findings(found, fields, queued)),
        "data": {"rows": found.rows},
    }


def _findings(found: Comparison, fields: Sequence[tuple[Any, ...]], queued: int) -> Iterable[str]:
    counts = ", ".join(f"{found.kinds[name]:,} {name}" for name in (*_KINDS, *_UNLISTED))
    yield f"{found.pages[0]:,} pages before, {found.pages[1]:,} after: {counts}."
    if fallen := [one for one in fields if one[3] <= one[2] - _FALLEN]:
        template, name, then, now = fallen[0]
        most = f"{name} of {template}, {percent(then)} → {percent(now)}"
        yield (
            f"1 field gives less than before: {most}."
            if len(fallen) == 1
            else f"{len(fallen):,} fields give less than before; most of all {most}."
        )
    elif fields:
        yield "No field is filled less often than before."
    if queued and found.kinds["gone"]:
        yield f"The later crawl has {queued:,} more urls in its queue: pages that it has not come to count as gone."
    if found.not_compared:
        yield f"Only the first pages of each are compared; {found.not_compared:,} are left out."
