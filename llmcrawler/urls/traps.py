"""Spaces of urls without end: calendars, facets, sort orders, endless pagination, paths that grow.

They are told by their form alone and capped, never forbidden: each has pages that are worth a look.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import date
from urllib.parse import parse_qsl, urlsplit

_SORT_KEYS = re.compile(
    r"(?:sort|order|dir|view|layout|display|mode|per_?page|page_?size|limit|sort_?by|order_?by)\Z", re.IGNORECASE
)
_PAGE_KEYS = re.compile(r"(?:p|pg|page|paged|pagenum|page_?no|start|offset|from|skip|cursor)\Z", re.IGNORECASE)
_DATE_KEYS = re.compile(r"(?:date|day|month|year|week|y|m|d|ym|cal(?:endar)?|tribe-bar-date)\Z", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)((?:1[5-9]|2\d)\d\d)(?!\d)")
# A month at least: a year alone may as well be a number, and has an end.
_DATE_PATH = re.compile(
    r"/(?:1[5-9]|2\d)\d\d[-/](?:0?[1-9]|1[0-2]|w\d\d?)(?:[-/](?:0?[1-9]|[12]\d|3[01]))?/?\Z", re.IGNORECASE
)
_PAGE_PATH = re.compile(r"/(?:page|p|seite|pagina)[-/]?\d+/?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TrapCaps:
    """How many urls of one such space are admitted."""

    sort_orders: int = 3  # of one path
    facets: int = 100  # three and more parameters on one path
    parameter_values: int = 5_000  # one or two parameters on one path: `?id=`, `?p=`
    dates: int = 120  # pages of one calendar: ten years of months
    years_ahead: int = 2  # of a calendar
    years_back: int = 30
    pages: int = 2_000  # of one listing
    path_segments: int = 16
    segment_repeats: int = 3  # of one segment in one path
    spaces: int = 20_000  # that are counted; those not met for the longest time are forgotten first


class TrapGuard:
    """Counts the urls of each space that could be a trap. Deterministic; `today` dates calendars."""

    def __init__(self, today: date, caps: TrapCaps | None = None) -> None:
        self._caps = caps or TrapCaps()
        self._today = today
        self._counts: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def reason_to_refuse(self, url: str) -> str | None:
        """None counts the url as admitted, so ask once for each url."""
        parts = urlsplit(url)
        segments = [segment for segment in parts.path.split("/") if segment]
        if self._grows(segments):
            return "trap: path grows"
        place = parts.netloc + parts.path
        if not parts.query:
            return self._path_trap(parts.netloc, parts.path)
        keys = dict(parse_qsl(parts.query, keep_blank_values=True))
        return self._query_trap(place, keys)

    def _path_trap(self, host: str, path: str) -> str | None:
        dated = _DATE_PATH.search(path)
        if dated:
            return self._date_trap(host + path[: dated.start()], dated[0])
        paged = _PAGE_PATH.search(path)
        if paged and not self._admit("pages", host + path[: paged.start()], self._caps.pages):
            return "trap: pagination"
        return None

    def _query_trap(self, place: str, keys: dict[str, str]) -> str | None:
        rest = [key for key in keys if not _PAGE_KEYS.match(key)]
        dates = [keys[key] for key in rest if _DATE_KEYS.match(key)]
        if dates:
            return self._date_trap(place, " ".join(dates))
        if any(_SORT_KEYS.match(key) for key in rest) and not self._admit("sort", place, self._caps.sort_orders):
            return "trap: sort order"
        if len(rest) >= 3 and not self._admit("facets", place, self._caps.facets):
            return "trap: facets"
        if not rest and not self._admit("pages", place, self._caps.pages):
            return "trap: pagination"
        if not self._admit("values", place, self._caps.parameter_values):
            return "trap: parameter values"
        return None

    def _date_trap(self, place: str, text: str) -> str | None:
        years = [int(year) for year in _YEAR.findall(text)]
        latest, earliest = self._today.year + self._caps.years_ahead, self._today.year - self._caps.years_back
        if any(not earliest <= year <= latest for year in years) or not self._admit("dates", place, self._caps.dates):
            return "trap: calendar"
        return None

    def _grows(self, segments: list[str]) -> bool:
        if len(segments) > self._caps.path_segments:
            return True
        return len(segments) > self._caps.segment_repeats and any(
            segments.count(segment) > self._caps.segment_repeats for segment in set(segments)
        )

    def _admit(self, space: str, place: str, cap: int) -> bool:
        key = (space, place)
        admitted = self._counts.pop(key, 0)
        self._counts[key] = min(admitted + 1, cap)
        if len(self._counts) > self._caps.spaces:
            self._counts.popitem(last=False)
        return admitted < cap
