"""Ends what a site can make without end: calendars, facets, sort orders, sessions, pages, paths that grow.

The rules look at urls alone and at what was admitted before. What tells a trap from a large site is that a site's pages
have names of their own: of n product urls some part has about n values, while n urls of a facet search
combine a few values over and over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date

from llmcrawler.core.urls.url_patterns import PAGE_PATH, is_code, url_pattern

_RECURS = 4  # ids that a page is met under
# "(S(abc123))", "PHPSESSID=abc123", "sid-abc123" say that they are ids of visits, and so does what stands before some.
_VISIT = re.compile(
    r"/(?:\(?[A-Z]\([^/]{3,99}\)|(?:\w{0,8}?sess(?:ion)?_?(?:id)?|sid)[=:~_.-](?=[^\d/]{0,40}\d)[\w.-]{6,99}"
    r"|(?:s|sid|sess|\w{0,8}sess(?:ion)?_?id|visit(?:or)?|ticket|token)/([\w-]{16,99}))(?=/|\Z)",
    re.IGNORECASE,
)
_REPEATED = re.compile(r"((?:/[^/]+){1,4}?)\1\1(?=/|$)")
_PAGE_KEY = re.compile(
    r"(?:.*_)?(?:page|paged|pg|p|pagenum|page_?no|start|offset|from|skip|seite|pagina|cursor)", re.IGNORECASE
)
_SORT_KEY = re.compile(
    r"(?:.*_)?(?:sort|sort_?by|sort_?order|sorting|order|order_?by|order_?dir|dir|direction|asc|desc"
    r"|limit|per_?page|page_?size|display|view|mode|layout)",
    re.IGNORECASE,
)
_COUNT_KEY = re.compile(r"(?:.*_)?(?:limit|per_?page|page_?size)", re.IGNORECASE)
_VIEWS = frozenset({"grid", "list", "table", "compact", "gallery", "thumbs", "print", "mobile", "day", "week", "month"})
_SESSION_KEY = re.compile(
    r"(?:.*_)?(?:s|sid|sess\w*|visit\w*|ticket|nonce|rnd|rand|random|cache\w*|_|cb|ts?|stamp|timestamp"
    r"|csrf\w*|xsrf\w*)",
    re.IGNORECASE,
)

# Where a login, or another form, is to lead back to: the page that has the link.
_RETURN_KEY = re.compile(
    r"(?:.*_)?(?:next|goto|dest(?:ination)?|continue|came_?from|refer+er|(?:back|return|redir(?:ect)?)_?(?:to|ur[il])?)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:https?(?::|%3a))?(?:/|%2f)", re.IGNORECASE)

# How many urls of one kind are admitted. These leave a shop of 10,000 products and 20 years of a blog whole.
_CALENDAR = 300
_DAYS_AHEAD = 400
_FACETS = 150
_PATH_FACETS = 400
_SORT_ORDERS = 24
_SESSIONS = 3
_PAGES = 2000
_SEGMENTS = 20
_DEEP_URLS = 500
_REMEMBERED = 50_000  # counts; of lists with combinations a fiftieth of it, of their values four times as many

_MAX_PARAMETERS = 100  # that are looked at one by one
_LONGEST_KEY = 64  # that can say what a parameter is for; some of these patterns try each place of a longer one
_CODE = re.compile(r"(?=\D*\d)[0-9A-Za-z_-]{16,}")
# Only with a joint between year and month: 203011 is a product's number more often than a month.
_DATE_END = re.compile(r"/((?:19|20)\d\d)[/-](0?[1-9]|1[0-2])(?:[/-]\d\d?)?/?$")
_DATE_VALUE = re.compile(r"((?:19|20)\d\d)-?(0[1-9]|1[0-2])(?:-?\d\d.*)?")
_YEAR_KEY = re.compile(r"(?:.*_)?(?:y|yr|year|jahr|annee|ano|anno)", re.IGNORECASE)
_MONTH_KEY = re.compile(r"(?:.*_)?(?:m|mo|mon|month|monat|mois|mes|mese|week|w|kw)", re.IGNORECASE)
_PLAIN_DATE_KEY = re.compile(r".*(?:date|datum).*", re.IGNORECASE)
_DATE_KEY = re.compile(
    r".*(?:date|day|month|week|year|when|tag|datum|cal).*|d|t|from|to|start|end|since|until", re.IGNORECASE
)


@dataclass(slots=True)
class _Combinations:
    """Urls of one path, and the values each of their parts took. `values` of a part that names pages is None."""

    admitted: int = 0
    is_exhausted: bool = False
    size: int = 0  # values that are remembered
    values: dict[str, set[int] | None] = field(default_factory=dict)

    @property
    def most_values(self) -> int:
        """The most values of one part, 2**62 when that is past counting."""
        return max((2**62 if known is None else len(known) for known in self.values.values()), default=0)

    def observe(self, parts: list[tuple[str, str]]) -> None:
        for name, value in parts[:20]:
            known = self.values.setdefault(name, set()) if len(self.values) < 40 else self.values.get(name)
            if known is not None:
                before = len(known)
                known.add(hash(value))
                self.size += len(known) - before
                if len(known) > 4000:
                    self.values[name] = None
                    self.size -= len(known)


class TrapGuard:
    """Judges the urls of all hosts of a crawl, each once, in their normalised form. Its memory is bounded: the kinds
    and urls not met for longest are forgotten first. The same urls in the same order get the same answers.
    """

    def __init__(self, today: date, remembered: int = _REMEMBERED) -> None:
        self._today = today
        self._remembered = remembered
        self._counts: dict[int, int] = {}  # by the hash of what is counted: the words would take ten times the memory
        self._combinations: dict[tuple[str, str], _Combinations] = {}
        self._values = 0  # in all combinations

    def reason_to_refuse(self, url: str) -> str | None:
        """Count the url. Return the trap that it belongs to and that is exhausted, else None."""
        address, _, query = url.partition("?")
        host_end = address.find("/", address.find("://") + 3)
        host, path = address[:host_end], address[host_end:]
        parts = query.split("&", _MAX_PARAMETERS)
        parameters = [(key, value) for key, _, value in (part.partition("=") for part in parts) if key]
        return (
            self._growing_path(host, path)
            or self._calendar(host, path, parameters)
            or (self._session(address, parameters) if parameters else None)
            or self._path_session(host, path, query)
            or self._lists(host, path, parameters)
        )

    def _count(self, *words: str) -> int:
        """Count the words. Return how often they came, this time included."""
        counts, key = self._counts, hash(words)
        count = counts.pop(key, 0) + 1
        counts[key] = count  # at the end: the first key is the one not met for longest
        if len(counts) > self._remembered:
            del counts[next(iter(counts))]
        return count

    def _growing_path(self, host: str, path: str) -> str | None:
        depth = path.count("/")
        if depth < 3:
            return None
        if any(not part.replace("/", "").isdigit() for part in _REPEATED.findall(path)):
            return "trap: repeating path"
        if depth > _SEGMENTS:
            return "trap: path too deep"
        return "trap: deep paths" if depth > 10 and self._count("deep", host) > _DEEP_URLS else None

    def _calendar(self, host: str, path: str, parameters: list[tuple[str, str]]) -> str | None:
        """Judge pages of a day or a month. A path with a date and a name behind it is an article, and free."""
        if (month := _month_of(path, parameters)) is None:
            return None
        months_ahead = (month[0] - self._today.year) * 12 + month[1] - self._today.month
        if months_ahead * 30 > _DAYS_AHEAD:
            return "trap: calendar far ahead"
        return "trap: calendar" if self._count("calendar", host, path.split("/", 2)[1]) > _CALENDAR else None

    def _session(self, address: str, parameters: list[tuple[str, str]]) -> str | None:
        """Judge a url that comes with ever other codes, or ever other pages to lead back to."""
        back = [(key, value) for key, value in parameters if _ADDRESS.match(value) and _says(_RETURN_KEY, key)]
        codes = back or [
            (key, value) for key, value in parameters if _CODE.fullmatch(value) and not _says(_PAGE_KEY, key)
        ]
        if not codes:
            return None
        rest = [parameter for parameter in parameters if parameter not in codes]
        # A code under an unknown name may be what names the page, unless a number beside it does so.
        is_named = bool(back) or any(_says(_SESSION_KEY, key) for key, _ in codes)
        if not is_named and not any(value.isdigit() and not _says(_PAGE_KEY, key) for key, value in rest):
            return None
        limit = _SESSIONS if back or (is_named and rest) else _SESSIONS * 10
        times = self._count("session", address, *(f"{key}={value}" for key, value in sorted(rest)))
        return f"trap: {'page to return to' if back else 'session'} in the url" if times > limit else None

    def _path_session(self, host: str, path: str, query: str) -> str | None:
        """Judge a url with the id of a visit in its path, where the same pages come under ever other ids."""
        visit = _VISIT.search(path)
        if visit is None or (visit[1] is not None and not is_code(visit[1])):
            return None
        head, behind = path[: visit.start()], f"{path[visit.end() :].strip('/')}?{query}".strip("?")
        times = self._count("behind an id", host, head, behind)
        if behind and times == _RECURS:
            self._count("recurring", host, head)
        recurs = self._counts.get(hash(("recurring", host, head)), 0) >= 2 or (behind and times > 10 * _SESSIONS)
        return "trap: session in the path" if recurs and times > _SESSIONS else None

    def _lists(self, host: str, path: str, parameters: list[tuple[str, str]]) -> str | None:
        """Judge sort orders, pages and facets of lists. A list is what is left without its order and its page."""
        pattern = url_pattern(f"{host}{path}")
        sorts = [(key, value) for key, value in parameters if _is_sort(key, value)]
        pages = [(key, value) for key, value in parameters if _says(_PAGE_KEY, key) and (key, value) not in sorts]
        if len(parameters) == 1 and parameters[0][0] == "p":  # WordPress's ?p=123 is a post
            pages = []
        rest = sorted(parameter for parameter in parameters if parameter not in sorts and parameter not in pages)
        list_path = PAGE_PATH.sub("", path)
        key = (host, list_path, *(f"{name}={value}" for name, value in rest))
        is_new = self._count("list", *key) == 1
        if sorts and not is_new and self._count("sort", host, pattern) > _SORT_ORDERS:
            return "trap: sort order"
        if (pages or list_path != path) and self._count("page", *key) > _PAGES:
            return "trap: endless pages"
        if len(rest) >= 2:
            return self._facets(host, pattern, rest, is_new=is_new)
        return self._path_facets(host, pattern, list_path) if is_new else None

    def _facets(self, host: str, pattern: str, parameters: list[tuple[str, str]], *, is_new: bool) -> str | None:
        found = self._observe(host, pattern, parameters)
        # A host with facets on one list has them on all, so the next ones get less.
        limit = max(20, _FACETS // (1 + self._counts.get(hash(("exhausted", host)), 0)))
        if found.admitted >= limit and found.admitted >= 4 * found.most_values:
            if not found.is_exhausted:
                found.is_exhausted = True
                self._count("exhausted", host)
            return "trap: facets"
        found.admitted += is_new
        return None

    def _path_facets(self, host: str, pattern: str, path: str) -> str | None:
        """Judge facets written as folders, /lamps/red/small/oak/: few words, in ever new combinations."""
        segments = path.strip("/").split("/")
        if len(segments) < 4 or "{n}" in pattern or "{id}" in pattern or "{date}" in pattern:
            return None
        found = self._observe(host, f"/{segments[0]}/*", [(str(at), segment) for at, segment in enumerate(segments)])
        if found.admitted >= _PATH_FACETS and found.admitted >= 10 * found.most_values:
            return "trap: facets in the path"
        found.admitted += 1
        return None

    def _observe(self, host: str, pattern: str, parts: list[tuple[str, str]]) -> _Combinations:
        """Note the parts of a url, and return all combinations of its path."""
        found = self._combinations.pop((host, pattern), None) or _Combinations()
        self._combinations[host, pattern] = found
        before = found.size
        found.observe(parts)
        self._values += found.size - before
        most = self._remembered // 50
        while len(self._combinations) > 1 and (len(self._combinations) > most or self._values > 4 * self._remembered):
            self._values -= self._combinations.pop(next(iter(self._combinations))).size
        return found


def _says(meaning: re.Pattern[str], key: str) -> bool:
    return len(key) <= _LONGEST_KEY and meaning.fullmatch(key) is not None


def _is_sort(key: str, value: str) -> bool:
    """Tell a sort order by its value too: an order number or a page's own view is none."""
    if key == "C" and ";O=" in value:  # Apache's folders: ?C=M;O=A
        return True
    if not _says(_SORT_KEY, key):
        return False
    if key.lower() in ("view", "mode", "display", "layout"):
        return value.lower() in _VIEWS
    return not value.isdigit() or _says(_COUNT_KEY, key)


def _month_of(path: str, parameters: list[tuple[str, str]]) -> tuple[int, int] | None:
    """Return year and month of a url that stands for a time; None when it does not."""
    if match := _DATE_END.search(path):
        return int(match[1]), int(match[2])
    year = month = None
    for key, value in parameters:
        if _says(_YEAR_KEY, key) and re.fullmatch(r"[12]\d{3}", value):
            year = int(value)
        elif _says(_MONTH_KEY, key) and re.fullmatch(r"\d\d?", value):
            month = min(int(value), 12)
        elif _says(_DATE_KEY if "-" in value else _PLAIN_DATE_KEY, key) and (match := _DATE_VALUE.fullmatch(value)):
            return int(match[1]), int(match[2])
    return (year, month) if year is not None and month is not None else None
