"""Counts what a report says of a crawl's pages, as their items come: bounded, but for one row a listed page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.reporting.html.learned_sites import FeedItem
from llmcrawler.core.reporting.html.page_rows import PageRows
from llmcrawler.core.reporting.html.record_rows import RecordRows, shown_value
from llmcrawler.core.reporting.html.rights_digest import RightsDigest
from llmcrawler.core.reporting.text import plain
from llmcrawler.core.urls import origin_of, site_name, url_pattern

UNKNOWN = "(none)"  # the page type, or the template, of a page that has none
DUPLICATE = "(duplicate)"  # in its place, where a page repeats another one
FAILED = "(failed)"  # in place of the page type, where there is none for an error

_EXAMPLES = 3
_SHAPED = 20
_MAX_KEYS = 2_000  # groups, kinds of errors, parts of paths
_MAX_FIELDS = 60
_MAX_CHANGED = 200
_PATH_LEVELS = 3
_TEXT_CHARS = 300

Folders = tuple[str, ...]  # that a page lies in, from the top down


@dataclass(slots=True)
class TemplatePages:
    """The pages of one template. `asked` counts those that the model judged, `filled` records by the fields that have a
    value, `shapes` the patterns of some urls.
    """

    site: str
    template: str
    types: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    asked: int = 0
    records: int = 0
    filled: Counter[str] = field(default_factory=Counter)
    values: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    shapes: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> int:
        return self.types.total()

    @property
    def page_type(self) -> str:
        return max(self.types, key=lambda name: (self.types[name], name)) if self.types else UNKNOWN

    @property
    def shape(self) -> str:
        """Return the pattern of most of its urls."""
        return max(self.shapes, key=lambda one: (self.shapes[one], one), default="")

    def name(self, pattern: str, *, with_site: bool) -> str:
        """Return a name for people: `pattern` where the template's is known, else the shape of most of its urls."""
        name = "no template" if self.template == UNKNOWN else pattern or f"{self.template} {self.shape}"
        return f"{name} · {self.site}" if with_site else name


@dataclass(slots=True)
class ErrorKind:
    pages: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)  # url, message


class Digest:
    """Counts of pages, failed ones among them; `types` counts the others.

    `timed` has (Unix time, latency in seconds, is an error) of each, if `with_times`: a feed has no other timeline.
    """

    def __init__(self, max_listed: int, *, with_times: bool = False) -> None:
        self.rows = PageRows(max_listed)
        self.records = RecordRows()
        self.rights = RightsDigest()
        self.pages = 0
        self.mapped = 0  # items of a map among them: urls, most of which nobody has fetched
        self.failed = 0
        self.groups: dict[tuple[str, str], TemplatePages] = {}
        self.types: Counter[str] = Counter()
        self.depths: Counter[tuple[int, str]] = Counter()
        self.ways: Counter[tuple[str, str]] = Counter()  # page type, decided by
        self.paths: Counter[tuple[str, Folders, str]] = Counter()  # site, folders, page type
        self.sites: Counter[str] = Counter()
        self.errors: dict[tuple[str, str], ErrorKind] = {}
        self.changes: Counter[str] = Counter()
        self.changed: dict[str, list[tuple[str, str]]] = {}  # url, title
        self.timed: list[tuple[float, float | None, bool]] = []
        self._with_times = with_times

    @property
    def is_map(self) -> bool:
        return 0 < self.mapped == self.pages

    @property
    def noun(self) -> str:
        """Name what the items are."""
        return "urls" if self.is_map else "pages"

    @property
    def good(self) -> int:
        """Count those that did not fail."""
        return self.pages - self.failed

    @property
    def in_words(self) -> str:
        words = f"{self.good:,} {self.noun[:-1] if self.good == 1 else self.noun}"
        return words + (f" and {self.failed:,} failed url{'' if self.failed == 1 else 's'}" if self.failed else "")

    def add_all(self, items: Iterable[FeedItem]) -> None:
        for item in items:
            self.add(item)

    def add(self, item: FeedItem) -> int | None:
        """Count a page; return its row in the list, None where the list is full."""
        url, error = str(item.get("url")), item.get("error")
        origin, site, path = _split(url)
        without = DUPLICATE if item.get("duplicate_of") else UNKNOWN if error is None else FAILED
        page_type = _text(item.get("page_type")) or without
        depth = item.get("depth")
        self.pages += 1
        self.mapped += item.get("kind") == "url"
        self.failed += error is not None
        self.types[self._room(self.types, page_type, UNKNOWN)] += error is None
        self.sites[self._room(self.sites, site, "…")] += 1
        self.depths[depth if isinstance(depth, int) else 0, page_type] += 1
        if item.get("decided_by"):
            self.ways[page_type, _text(item["decided_by"])] += 1
        self._add_path(site, _folders(path), page_type)
        group = self._add_to_group(item, url, site, page_type)
        kind = self._add_error(url, error) if isinstance(error, dict) else ""
        self._add_change(item, url)
        self.rights.add(item, url, origin)
        if self._with_times:
            self._add_time(item)
        row = self.rows.add(item, (origin, site, page_type, group, kind))
        if isinstance(item.get("record"), dict):
            self.records.add(row, page_type, item["record"], str(item.get("title") or ""))
        return row

    def _add_path(self, site: str, folders: Folders, page_type: str) -> None:
        """Count a page for its folders; where there is no room for all of a large site, those further down count as
        what they are in.
        """
        for level in range(len(folders), -1, -1):
            key = (site, folders[:level], page_type)
            if key in self.paths or len(self.paths) < _MAX_KEYS * (_PATH_LEVELS + 1 - level):
                self.paths[key] += 1
                return
        self.paths["…", (), page_type] += 1

    def _add_to_group(self, item: FeedItem, url: str, site: str, page_type: str) -> str:
        key = self._room(self.groups, (site, _text(item.get("template")) or UNKNOWN), ("", "…"))
        group = self.groups.setdefault(key, TemplatePages(*key))
        group.types[page_type] += 1
        group.errors += item.get("error") is not None
        group.asked += item.get("decided_by") == "llm"
        if len(group.examples) < _EXAMPLES:
            group.examples.append(url)
        if group.pages <= _SHAPED:
            group.shapes[plain(url_pattern(url))[:_TEXT_CHARS]] += 1
        record = item.get("record")
        if isinstance(record, dict):
            group.records += 1
            for name, value in list(record.items())[:_MAX_FIELDS]:
                if value not in (None, "", []):
                    group.filled[name] += 1
                    group.values.setdefault(name, str(shown_value(value, _TEXT_CHARS)))
        return group.template

    def _add_error(self, url: str, error: dict[str, Any]) -> str:
        key = (_text(error.get("stage")), _text(error.get("kind")))
        key = self._room(self.errors, key, ("…", "…"))
        kind = self.errors.setdefault(key, ErrorKind())
        kind.pages += 1
        if len(kind.examples) < _EXAMPLES:
            kind.examples.append((url, plain(error.get("message") or "")[:_TEXT_CHARS]))
        return "/".join(key)

    def _add_change(self, item: FeedItem, url: str) -> None:
        if not item.get("change"):
            return
        change = _text(item["change"])
        self.changes[change] += 1
        some = self.changed.setdefault(change, [])
        if change != "unchanged" and len(some) < _MAX_CHANGED:
            some.append((url, plain(item.get("title") or "")[:_TEXT_CHARS]))

    def _add_time(self, item: FeedItem) -> None:
        try:
            moment = datetime.fromisoformat(str(item.get("fetched_at"))).timestamp()
        except (ValueError, OverflowError):
            return
        latency = item.get("latency_seconds")
        self.timed.append(
            (moment, latency if isinstance(latency, int | float) else None, item.get("error") is not None)
        )

    def _room(self, kept: Any, key: Any, rest: Any) -> Any:
        """Return the key, or `rest` for all that is beyond the bound."""
        return key if key in kept or len(kept) < _MAX_KEYS else rest


def _split(url: str) -> tuple[str, str, str]:
    """Return origin, site and path; a feed may have been written by anyone, so they may be empty."""
    try:
        return origin_of(url), site_name(url), urlsplit(url).path
    except ValueError:
        return "", "", ""


def _folders(path: str) -> Folders:
    folders = [part for part in path.split("/")[:-1] if part]
    return tuple(plain(part)[:60] for part in folders[:_PATH_LEVELS])


def _text(value: Any) -> str:
    return plain(value if value is not None else "")[:100]
