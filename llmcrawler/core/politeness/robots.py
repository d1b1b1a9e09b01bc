"""Reads what sites say to robots: robots.txt by RFC 9309, what other answers to it mean, and directives in pages and
their headers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from llmcrawler.core.politeness.throttling import http_date

# RFC 3986: these need no escape in a path or a query. "%" is not among them: an escape may be written in two ways.
_PLAIN = rb"A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]"
_IS_PLAIN = re.compile(rb"[%b]*+" % _PLAIN)
_NOT_PLAIN = re.compile(rb"%%[0-9A-Fa-f]{2}|[^%b]" % _PLAIN)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:(?://[^/?#]*)?([^#]*)", re.IGNORECASE | re.DOTALL)


def canonical(octets: bytes) -> bytes:
    """Unescape unreserved octets, escape what must be, in capitals. "%3F" is no "?": reserved ones stay apart."""
    return octets if _IS_PLAIN.fullmatch(octets) else _NOT_PLAIN.sub(_escape, octets)


def path_of(url: str) -> bytes:
    """Return path and query in the canonical spelling. "*" and "$", which mean themselves, are escaped (2.2.3)."""
    match = _URL.match(url)
    path = match[1] if match is not None else url.partition("#")[0]
    octets = path.encode("utf-8", "surrogatepass")
    octets = canonical(octets if octets.startswith(b"/") else b"/" + octets)
    return octets.replace(b"*", b"%2A").replace(b"$", b"%24")


def _escape(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if len(found) == 1:
        return b"%%%02X" % found[0]
    octet = int(found[1:], 16)
    return bytes((octet,)) if octet in _UNRESERVED else found.upper()


# The work for one path, in characters compared at worst. A search for a piece of m characters in n compares up to
# m * n of them, and 500 KB of rules with a "*" could ask for a thousand million. This much takes about 20 ms; honest
# files of a thousand such rules need a fiftieth of it.
MAX_STEPS = 50_000_000
_RULE_STEPS = 800  # what looking at one rule costs otherwise, in the same unit
_PIECE_STEPS = 200  # and at each of its pieces

_ALLOW = 1
# Prices of what is kept, for `size_bytes`: a key of a dict, and a rule with wildcards.
_PREFIX_BYTES = 100
_WILDCARD_BYTES = 300


class _Wildcard:
    """A rule with a "*": pieces that follow each other in a path, the last one at its end if `is_whole`. A path without
    `needle`, the longest piece but the first, needs no closer look; as a str Python finds it six times faster.
    """

    __slots__ = ("first", "is_whole", "last", "least", "middle", "needle", "rank", "steps")

    def __init__(self, rank: int, pieces: tuple[bytes, ...], is_whole: bool) -> None:
        self.rank = rank
        self.first, *middle, self.last = pieces
        self.middle = tuple(middle)
        self.is_whole = is_whole
        self.least = sum(map(len, pieces))  # characters of a path that it can match
        self.needle = max(pieces[1:], key=len).decode("ascii")
        self.steps = _RULE_STEPS + _PIECE_STEPS * len(pieces)  # beside those of the searches

    def matches(self, path: bytes) -> bool:
        """Take the first place for each piece: if any places fit, these do, so that nothing has to be tried twice."""
        if not path.startswith(self.first):
            return False
        at = len(self.first)
        for piece in self.middle:
            at = path.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        if self.is_whole:
            return path.endswith(self.last) and len(path) - len(self.last) >= at
        return path.find(self.last, at) >= 0


class PathRules:
    """Decides by the longest matching rule, by Allow where two are equally long; what no rule matches is allowed. A
    rank is twice the length of a rule in octets, plus one when it allows.
    """

    def __init__(self, rules: Iterable[tuple[bytes, bool]] = ()) -> None:
        """Take `rules`: canonical patterns, each with True if it allows."""
        self._prefixes: dict[bytes, int] = {}
        self._paths: dict[bytes, int] = {}  # of rules that end in "$"
        wildcards: dict[tuple[tuple[bytes, ...], bool], int] = {}
        for pattern, is_allowed in rules:
            if not pattern.startswith((b"/", b"*")):
                continue  # no path begins like this
            rank = 2 * len(pattern) + is_allowed
            is_whole = pattern.endswith(b"$")
            # Anywhere else "$" stands for itself.
            text = (pattern[:-1] if is_whole else pattern.rstrip(b"*")).replace(b"$", b"%24")
            if b"*" not in text:
                kind = self._paths if is_whole else self._prefixes
                kind[text] = max(rank, kind.get(text, 0))
            else:
                first, *others = text.split(b"*")
                key = ((first, *filter(None, others[:-1]), others[-1]), is_whole)
                wildcards[key] = max(rank, wildcards.get(key, 0))
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._wildcards = sorted(
            (_Wildcard(rank, pieces, is_whole) for (pieces, is_whole), rank in wildcards.items()),
            key=lambda rule: rule.rank,
            reverse=True,
        )
        self._steps_for_all = sum(rule.steps for rule in self._wildcards)
        self._needle_characters = sum(len(rule.needle) for rule in self._wildcards)

    @property
    def size_bytes(self) -> int:
        """Return about how much memory they take."""
        plain = [*self._prefixes, *self._paths]
        in_wildcards = sum(_WILDCARD_BYTES + rule.least + 40 * len(rule.middle) for rule in self._wildcards)
        return sum(map(len, plain)) + _PREFIX_BYTES * len(plain) + in_wildcards

    def allow(self, path: bytes) -> bool:
        """Judge a canonical path. One that would take more than MAX_STEPS to judge is not allowed."""
        length, steps = len(path), 0
        fitting = self._lengths[: bisect_right(self._lengths, length)]
        rank = max(self._paths.get(path, 0), *(self._prefixes.get(path[:size], 0) for size in fitting), _ALLOW)
        rules = self._wildcards
        if self._steps_for_all + self._needle_characters * length <= MAX_STEPS:
            text = path.decode("ascii")
            rules = [rule for rule in rules if rule.needle in text]
        for rule in rules:
            if rule.rank <= rank:
                break
            if rule.least > length:
                continue
            steps += rule.steps + len(rule.needle) * (length - rule.least)
            if steps > MAX_STEPS:
                return False
            if rule.matches(path):
                rank = rule.rank
                break
        return rank % 2 == _ALLOW


MAX_BYTES = 500 * 1024  # RFC 9309, 2.5: what a crawler has to read at least. The rest is cut off.

_TOKEN = re.compile(r"[A-Za-z_-]+")
_COMPATIBLE = re.compile(r"mozilla/[^(]*\(compatible; *([A-Za-z_-]+)", re.IGNORECASE)
# Names of lines, without their "-" and " ", with the misspellings that Google reads too.
_DISALLOWS = frozenset((b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"))
# Lines end at CR and LF, "#" begins a comment, and NUL ends what counts of a line, as it does for Google. Where the
# colon is missing, there are two words and no more. Possessive repeats keep this linear in the file.
_LINE = re.compile(
    rb"(?:\A|[\r\n])[ \t]*+"
    rb"(user[- ]?agent|allow|diss?all?ow|diasllow|disallaw|site-?map|crawl[- ]delay|request[- ]rate"
    rb"|content-usage|content-signal|license)"
    rb"(?:[ \t]*+:[ \t]*+([^\r\n#\0]*+)|[ \t]++([^ \t\r\n#\0:]++)[ \t]*+(?=[\r\n#\0]|\Z))",
    re.IGNORECASE,
)
_BYTE_ORDER_MARK = re.compile(rb"\A\xef(?:\xbb\xbf?)?")  # cut short it is skipped too, as Google does
_LINE_END = re.compile(rb"[\r\n]")
_PIECE_BYTES = 50_000
# Lines about what pages may be used for: AIPREF's, Cloudflare's, RSL's. politeness/rights/ reads them.
_STATEMENTS = {b"contentusage": "content-usage", b"contentsignal": "content-signal", b"license": "license"}
_MAX_STATEMENTS = 500
_MAX_STATEMENT_OCTETS = 2_000
_SECONDS = re.compile(rb"\d{0,9}\.?\d{1,9}")
_REQUESTS = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})\s*([smhd]?)(?:\s.*)?", re.IGNORECASE)
_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Robots:
    """The part of a robots.txt for one crawler. `gap_seconds`: the longest gap that Crawl-delay or Request-rate ask
    for; `statements`: what it says of rights, by the names of its lines.
    """

    rules: PathRules
    sitemaps: tuple[str, ...] = ()
    gap_seconds: float | None = None
    statements: tuple[tuple[str, str], ...] = ()

    def allows(self, url: str) -> bool:
        path = path_of(url)
        return path == b"/robots.txt" or self.rules.allow(path)

    @cached_property
    def size_bytes(self) -> int:
        """Return about how much memory this takes."""
        texts = (*self.sitemaps, *(text for _, text in self.statements))
        return 1000 + self.rules.size_bytes + sum(100 + len(text) for text in texts)


@dataclass(slots=True)
class _AgentGroup:
    """Agents that stand in a row, and what follows them."""

    is_ours: bool = False
    is_for_all: bool = False
    rules: list[tuple[bytes, bool]] = field(default_factory=list)
    has_rules: bool = False
    gaps: list[float] = field(default_factory=list)  # seconds

    def add_agent(self, name: bytes, token: str) -> None:
        self.is_ours |= bool(token) and _token_of(name.decode("latin-1")) == token
        self.is_for_all |= name == b"*" or name.startswith((b"* ", b"*\t"))


@dataclass(slots=True)
class _RightsStatements:
    """Statements about rights, for the agents before them; they end a row of agents for other statements only."""

    audience: _AgentGroup = field(default_factory=_AgentGroup)
    is_answered: bool = False  # after the agents, rules or statements have come
    before_all: list[tuple[str, str]] = field(default_factory=list)
    for_us: list[tuple[str, str]] = field(default_factory=list)
    for_all: list[tuple[str, str]] = field(default_factory=list)

    def add_agent(self, name: bytes, token: str) -> None:
        if self.is_answered:
            self.audience, self.is_answered = _AgentGroup(), False
        self.audience.add_agent(name, token)
        self.audience.has_rules = True

    def add(self, kind: str, value: bytes) -> None:
        self.is_answered = True
        said = (kind, value[:_MAX_STATEMENT_OCTETS].decode("utf-8", "replace"))
        lists = ((self.audience.is_ours, self.for_us), (self.audience.is_for_all, self.for_all))
        for is_meant, statements in (*lists, (not self.audience.has_rules, self.before_all)):
            if is_meant and len(statements) < _MAX_STATEMENTS:
                statements.append(said)

    def of(self, *, has_own_group: bool) -> tuple[tuple[str, str], ...]:
        """Return those that count; what stands before all groups, where ours says nothing of the kind."""
        said = self.for_us if has_own_group else self.for_all
        kinds = {kind for kind, _ in said}
        return (*said, *(one for one in self.before_all if one[0] not in kinds))


def product_token(user_agent: str) -> str:
    """Return "llmcrawler" of "llmcrawler/0.1 (+https://…)" (RFC 9309, 2.2.1), or the name after "compatible;"."""
    match = _COMPATIBLE.match(user_agent)
    return _token_of(user_agent) if match is None else match[1].lower()


def _token_of(text: str) -> str:
    match = _TOKEN.match(text)
    return "" if match is None else match[0].lower()


def parse_robots(body: bytes, token: str) -> Robots:
    """Read a robots.txt for the crawler of this `product_token`. Never raises; what is no line of one is left out."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body[: 2 * MAX_BYTES].decode("utf-16", "replace").encode()
    elif len(body) > MAX_BYTES:  # half a line is another rule
        body = body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]
    text = _BYTE_ORDER_MARK.sub(b"", body, count=1)
    sitemaps: list[str] = []
    said = _RightsStatements()
    groups = [group for group in _groups(text, token, sitemaps, said) if group.is_ours or group.is_for_all]
    own = [group for group in groups if group.is_ours]
    ours = own or groups
    rules = PathRules(rule for group in ours for rule in group.rules)
    gap_seconds = max((gap for group in ours for gap in group.gaps), default=None)
    return Robots(rules, tuple(sitemaps), gap_seconds, said.of(has_own_group=bool(own)))


def _pieces(text: bytes) -> Iterator[bytes]:
    """Cut a file between lines: one search through 500 KB of blank lines would keep Python's lock for 50 ms."""
    start = 0
    while start < len(text):
        match = _LINE_END.search(text, start + _PIECE_BYTES)
        end = len(text) if match is None else match.start()
        yield text[start:end]
        start = end


def _groups(text: bytes, token: str, sitemaps: list[str], said: _RightsStatements) -> Iterator[_AgentGroup]:
    """Yield all groups. One ends where an agent follows a rule; lines of other kinds end none (RFC 9309, 2.2.1)."""
    group = _AgentGroup()
    for match in chain.from_iterable(map(_LINE.finditer, _pieces(text))):
        kind = match[1].lower().translate(None, b"- ")
        value = (match[2] or match[3] or b"").rstrip(b" \t\v\f")
        if kind == b"useragent":
            if group.has_rules:
                yield group
                group = _AgentGroup()
            group.add_agent(value, token)
            said.add_agent(value, token)
        elif kind in _STATEMENTS:
            said.add(_STATEMENTS[kind], value)
        elif kind == b"allow" or kind in _DISALLOWS:
            said.is_answered = True
            group.has_rules = True
            if value and (group.is_ours or group.is_for_all):
                group.rules.append((canonical(value), kind == b"allow"))
        elif kind == b"sitemap":
            sitemaps.append(value.decode("utf-8", "replace"))
        elif kind == b"crawldelay" and _SECONDS.fullmatch(value):
            group.gaps.append(float(value))
        elif kind == b"requestrate" and (rate := _REQUESTS.fullmatch(value.decode("latin-1"))) and int(rate[1]) > 0:
            group.gaps.append(int(rate[2]) * _UNIT_SECONDS[rate[3].lower()] / int(rate[1]))
    yield group


MAX_REDIRECTS: Final = 10  # in a row; five are the least (2.3.1.2)
# Not for the robots.txt alone: the host has no time now. To all else with 4xx there is no such file.
_TOO_MANY_REQUESTS: Final = 429


def has_robots(status: int) -> bool | None:
    """Tell by a status whether there is a robots.txt: without one everything is allowed, whatever the body says. None:
    it is unreachable, and nothing is. A redirect here leads nowhere: there is no file (2.3.1.2). No status of HTTP
    counts as 5xx.
    """
    if status == _TOO_MANY_REQUESTS or not 200 <= status < 500:
        return None
    return status < 300


MAX_AGE_SECONDS: Final = 24 * 3600.0  # RFC 9309, 2.4: no copy should be used for longer than a day
# 2.4, 2.3.1.4: but while the file is unreachable; 30 days are the RFC's own example of a long time.
MAX_STALE_SECONDS: Final = 30 * MAX_AGE_SECONDS
STALE_SECONDS: Final = 3600.0  # such a copy serves for so long before the file is asked for again
MAX_KEPT_BYTES: Final = 16 * 2**20  # thousands of ordinary files; one of 500 KB full of rules takes half of it

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[_Kept]):
    robots: _Kept
    size_bytes: int
    came_at: float
    fresh_until: float


@dataclass(slots=True)
class RobotsCache(Generic[_Kept]):
    """A cache by origin that forgets the one not asked for longest. `clock` gives seconds and never goes back."""

    clock: Callable[[], float]
    max_bytes: int = MAX_KEPT_BYTES
    _entries: dict[str, _Entry[_Kept]] = field(default_factory=dict)
    _bytes: int = 0

    def get(self, origin: str) -> _Kept | None:
        """Return what may be used now; None where the file has to be asked for."""
        entry = self._entries.pop(origin, None)
        if entry is None:
            return None
        self._entries[origin] = entry  # at the end: the first key is the one not asked for longest
        return entry.robots if self.clock() < entry.fresh_until else None

    def last(self, origin: str) -> _Kept | None:
        """Return what was kept last, however old it is."""
        entry = self._entries.get(origin)
        return None if entry is None else entry.robots

    def keep(self, origin: str, robots: _Kept, size_bytes: int, until: float | None = None) -> None:
        """Keep what came, the newest however large it is: for a day, or `until` then."""
        now = self.clock()
        self._forget(origin)
        self._entries[origin] = _Entry(robots, size_bytes, now, now + MAX_AGE_SECONDS if until is None else until)
        self._bytes += size_bytes
        while self._bytes > self.max_bytes and len(self._entries) > 1:
            self._forget(next(iter(self._entries)))

    def renew(self, origin: str) -> bool:
        """Use an old copy for a while. Return False where there is none, or it has become too old for that."""
        entry, now = self._entries.get(origin), self.clock()
        if entry is None or now - entry.came_at >= MAX_STALE_SECONDS:
            return False
        self._entries[origin] = replace(entry, fresh_until=now + STALE_SECONDS)
        return True

    def _forget(self, origin: str) -> None:
        entry = self._entries.pop(origin, None)
        self._bytes -= 0 if entry is None else entry.size_bytes


NOINDEX: Final = "noindex"
NOFOLLOW: Final = "nofollow"
_OBEYED: Final = frozenset((NOINDEX, NOFOLLOW))
_UNTIL: Final = "unavailable_after"
_MAX_CHARS: Final = 10_000  # of all that is said of a page
_MAX_DIRECTIVES: Final = 40
_EVERYBODY: Final = frozenset(("", "*", "robots"))
# What stands between commas; a date may have some too: "Friday, 25-Jun-10", "Jun 25, 2010".
_PIECE: Final = re.compile(
    rf"[^,;]*?\b{_UNTIL}\s*+:[^,;]*+(?:[,;]\s*+(?:\d++\b|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*+\.?\s*+\d)"
    r"[^,;]*+){0,2}|[^,;]++"
)
_HAS_VALUE: Final = re.compile(rf"(?:^|\s)(?:max-[\w-]+|{_UNTIL})\s*$")  # what a ":" may stand behind
_DIRECTIVE: Final = re.compile(rf"\s*(?:no[a-z]|all\b|index|follow\b|max-|{_UNTIL})")
_WELL_FORMED: Final = re.compile(r"[a-z][a-z0-9_-]{1,39}(?:: [!-~][ -~]{0,99})?")


@dataclass(frozen=True, slots=True)
class PageRobots:
    """Reads what pages say to the crawler of this `product_token`. With `obeys` a crawl does what they say."""

    token: str
    obeys: bool = True

    def directives(
        self, now: datetime, headers: Iterable[str], metas: Mapping[str, str] = MappingProxyType({})
    ) -> list[str] | None:
        """Return what holds for us, in lower case and sorted. A date of unavailable_after that is over is a noindex
        too. What this has returned can be given as headers again; `metas` are contents of meta elements by name.
        """
        found: set[str] = set()
        left = _MAX_CHARS
        for agent, text in (*(("", header) for header in headers), *metas.items()):
            for one in self._said(agent, text[:left].lower()):
                new = _holding(one, now)
                found |= new if len(found - _OBEYED) < _MAX_DIRECTIVES else new & _OBEYED
            left = max(0, left - len(text))
        found -= {"index", "all"} if NOINDEX in found else set()
        found -= {"follow", "all"} if NOFOLLOW in found else set()
        return sorted(found) or None

    def withholds(self, directives: Iterable[str] | None) -> bool:
        """Return whether a page's content is not to be taken."""
        return self.obeys and NOINDEX in (directives or ())

    def follows(self, directives: Iterable[str] | None) -> bool:
        """Return whether the links of a page may be followed."""
        return not self.obeys or NOFOLLOW not in (directives or ())

    def _said(self, agent: str, text: str) -> Iterator[str]:
        """Yield directives for us. `agent` names whom the text is for; so may any part of it, for what follows."""
        is_for_us = self._is_us(agent)
        for piece in _PIECE.findall(text):
            before, colon, value = piece.partition(":")
            while colon and not _HAS_VALUE.search(before) and _DIRECTIVE.match(value):
                is_for_us = self._is_us(before)
                before, colon, value = value.partition(":")
            if is_for_us:
                *words, name = before.split() or [""]
                yield from words
                yield f"{name}: {' '.join(value.split())}" if colon else name

    def _is_us(self, agent: str) -> bool:
        name = agent.strip()
        return name in _EVERYBODY or (bool(self.token) and product_token(name) == self.token)


def _holding(directive: str, now: datetime) -> set[str]:
    """Return what a directive stands for; nothing for what is none."""
    if directive == "none":
        return {NOINDEX, NOFOLLOW}
    if not _WELL_FORMED.fullmatch(directive):
        return set()
    name, _, text = directive.partition(": ")
    if name != _UNTIL:
        return {directive}
    # As RFC 822, RFC 850 or ISO 8601 write it, without a time or a zone too.
    end = http_date(text) or http_date(f"{text} 00:00:00 gmt")
    if end is None:
        with suppress(ValueError):
            end = datetime.fromisoformat(text.upper())
            end = end.replace(tzinfo=UTC) if end.tzinfo is None else end
    return {directive} if end is None or end > now else {directive, NOINDEX}
