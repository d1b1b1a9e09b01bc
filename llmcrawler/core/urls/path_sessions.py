"""Tells ids of visits in paths from ids of things: /s/8f3a...e1/about is one page under ever new addresses.

Behind the id of a thing stands nothing, or what belongs to that thing alone, or a handful of its tabs. Behind the id of
a visit stands the whole site: the same tails recur under one id after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from llmcrawler.core.urls.pattern import is_code, url_pattern

_RECURS = 4  # ids that a tail is met under
_MANY_SHAPES = 8  # more than a thing has tabs
_MAX_PLACES = 1000
_MAX_IDS = 3  # of one path that are looked at
_LEAST_CODE = 16  # characters
# Signs that a path may hold an id: a long run without joints, few joints, a UUID, or a word for it. Most
# paths are through with this.
_MAY_HOLD_ID = re.compile(
    r"/(?:[0-9A-Za-z]{16}|(?=[0-9A-Za-z_-]{16,}+(?:/|$))[0-9A-Za-z]++(?:[_-][0-9A-Za-z]++){1,2}(?:/|$)"
    r"|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-)|[(=:~]|sess|/sid",
    re.IGNORECASE,
)
# "(S(abc123))", "PHPSESSID=abc123", "sid-abc123": they say what they are.
_SAYS_SO = re.compile(
    r"\(?[A-Z]\(.{3,99}\)|(?:\w{0,8}?sess(?:ion)?_?(?:id)?|sid)[=:~_.-](?=[^\d]{0,40}\d)[\w.-]{6,99}", re.IGNORECASE
)
_BEFORE_ID = re.compile(r"s|sid|sess|\w{0,8}sess(?:ion)?_?id|visit(?:or)?|ticket|token", re.IGNORECASE)


@dataclass(slots=True)
class _Place:
    """A place where ids stand. `tails` came under several of them, and have these `shapes`: all chapters of books have
    one.
    """

    urls: int = 0  # with something behind the id
    ids: int = 0
    tails: int = 0
    shapes: set[str] = field(default_factory=set)

    def is_of_visits(self, head: str, *, is_named: bool) -> bool:
        """Tell whether the ids are of visits. The less the address says so, the more of the site has to recur; an id
        for every link is one of a visit.
        """
        if is_named:
            return self.tails >= 2
        if self.ids >= 30 and self.urls < 1.2 * self.ids:
            return len(self.shapes) >= 2
        return len(self.shapes) >= (_MANY_SHAPES if head else 4)


class PathSessions:
    """Admits a page of a visit under `limit` ids. `count` tells how often some words were counted, this time included;
    it forgets what was not met for longest.
    """

    def __init__(self, count: Callable[..., int], limit: int) -> None:
        self._count = count
        self._limit = limit
        self._places: dict[tuple[str, str], _Place] = {}

    def reason_to_refuse(self, host: str, path: str, query: str) -> str | None:
        """Return the reason to refuse a url that has not been asked for before; None to admit it."""
        if _MAY_HOLD_ID.search(path) is None:
            return None
        for head, code, tail, is_named in _ids_in(path):
            behind = f"{tail.strip('/')}?{query}" if query else tail.strip("/")
            place = self._place(host, head)
            times = self._count("behind an id", host, head, behind)
            if behind:
                place.urls += 1
                place.ids += self._count("id", host, head, code) == 1
                if times == _RECURS:
                    place.tails += 1
                    if len(place.shapes) < _MANY_SHAPES:
                        place.shapes.add(url_pattern(f"{host}/{behind}"))
            is_visit = times > self._limit and place.is_of_visits(head, is_named=is_named)
            if is_visit or (times > 10 * self._limit and behind and is_named):
                return "trap: session in the path"
        return None

    def _place(self, host: str, head: str) -> _Place:
        key = (host, head)
        place = self._places.pop(key, None) or _Place()
        self._places[key] = place
        if len(self._places) > _MAX_PLACES:
            del self._places[next(iter(self._places))]
        return place


def _ids_in(path: str) -> Iterator[tuple[str, str, str, bool]]:
    """Return the ids of a path: (what stands before, the id, what stands behind, whether it says it is a visit's)."""
    found = at = 0
    segments = path.split("/")
    for place, segment in enumerate(segments):
        end = at + len(segment)
        says_so = _SAYS_SO.fullmatch(segment) is not None
        if says_so or (len(segment) >= _LEAST_CODE and is_code(segment)):
            before = segments[place - 1] if place else ""
            yield path[:at].rstrip("/"), segment, path[end:], says_so or _BEFORE_ID.fullmatch(before) is not None
            found += 1
            if found == _MAX_IDS:
                return
        at = end + 1
