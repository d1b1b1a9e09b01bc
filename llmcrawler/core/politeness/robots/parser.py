"""Reads a robots.txt for one crawler: its own groups, or those for everybody where it has none (RFC 9309).

Other crawlers' rules are passed over, so that a file of thousands of them costs neither time nor memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from llmcrawler.core.politeness.robots.path_rules import PathRules, canonical, path_of

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
    """The part of a robots.txt for one crawler. `sitemaps` are for everybody, as they were written. `gap_seconds`: the
    longest gap between two requests that it asks for, by Crawl-delay or Request-rate. `statements`: what it says of
    rights, by the names of its lines; where no group is for us, what stands before all groups.
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

    def add_rule(self, value: bytes, is_allowed: bool) -> None:
        self.has_rules = True
        if value and (self.is_ours or self.is_for_all):
            self.rules.append((canonical(value), is_allowed))

    def add_delay(self, value: bytes) -> None:
        if _SECONDS.fullmatch(value):
            self.gaps.append(float(value))

    def add_rate(self, value: bytes) -> None:
        match = _REQUESTS.fullmatch(value.decode("latin-1"))
        if match is not None and int(match[1]) > 0:
            self.gaps.append(int(match[2]) * _UNIT_SECONDS[match[3].lower()] / int(match[1]))


@dataclass(slots=True)
class _RightsStatements:
    """Statements about rights. Each is for the agents before it; unlike unknown lines one ends a row of agents, but for
    other statements only.
    """

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
    """Return the name by which robots.txt knows a crawler, in lower case: "llmcrawler" of "llmcrawler/0.1
    (+https://…)".

    It ends at the first character that such names have not (RFC 9309, 2.2.1). Where a browser's header names the
    crawler after "compatible;", it is that one.
    """
    match = _COMPATIBLE.match(user_agent)
    return _token_of(user_agent) if match is None else match[1].lower()


def _token_of(text: str) -> str:
    match = _TOKEN.match(text)
    return "" if match is None else match[0].lower()


def parse_robots(body: bytes, token: str) -> Robots:
    """Read a robots.txt for the crawler of this `product_token`. Never raises; what is no line of one is left out."""
    sitemaps: list[str] = []
    said = _RightsStatements()
    groups = [group for group in _groups(_text_of(body), token, sitemaps, said) if group.is_ours or group.is_for_all]
    own = [group for group in groups if group.is_ours]
    ours = own or groups
    rules = PathRules(rule for group in ours for rule in group.rules)
    gap_seconds = max((gap for group in ours for gap in group.gaps), default=None)
    return Robots(rules, tuple(sitemaps), gap_seconds, said.of(has_own_group=bool(own)))


def _text_of(body: bytes) -> bytes:
    """Return what is read of a file, in UTF-8 and without its byte order mark."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body[: 2 * MAX_BYTES].decode("utf-16", "replace").encode()
    if len(body) > MAX_BYTES:  # half a line is another rule
        body = body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]
    return _BYTE_ORDER_MARK.sub(b"", body, count=1)


def _pieces(text: bytes) -> Iterator[bytes]:
    """Cut a file between lines: a search through 500 KB of blank lines would keep Python's lock for 50 ms, in a thread
    too.
    """
    start = 0
    while start < len(text):
        match = _LINE_END.search(text, start + _PIECE_BYTES)
        end = len(text) if match is None else match.start()
        yield text[start:end]
        start = end


def _groups(text: bytes, token: str, sitemaps: list[str], said: _RightsStatements) -> Iterator[_AgentGroup]:
    """Return all groups of the file; add to `sitemaps` what it names, and to `said` what it says of rights.

    A group ends where an agent follows a rule. Lines of other kinds end none (RFC 9309, 2.2.1).
    """
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
            group.add_rule(value, is_allowed=kind == b"allow")
        elif kind == b"sitemap":
            sitemaps.append(value.decode("utf-8", "replace"))
        elif kind == b"crawldelay":
            group.add_delay(value)
        else:
            group.add_rate(value)
    yield group
