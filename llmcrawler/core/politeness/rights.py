"""The rights that sites declare in the use of their pages: reads the signals of all standards, combines them into the
field `rights` of a line, and says what they forbid.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from lxml import etree

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.politeness.robots import PathRules, RobotsCache, canonical, parse_robots, path_of
from llmcrawler.core.urls import normalise, origin_of
from llmcrawler.items import PageContent

USES: Final = ("search", "ai-index", "ai-input", "ai-train", "tdm", "monitoring", "other")
YES, NO, CONDITIONS = ANSWERS = "yes", "no", "conditions"

_OF_AI: Final = ("ai-index", "ai-input", "ai-train")
_TRAINING: Final = ("ai-train",)
_MINING: Final = ("tdm", "ai-train")
_MEANINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": USES,
    "bots": USES,
    "ai-all": _OF_AI,
    "ai-index": ("ai-index",),
    "ai-input": ("ai-input",),
    "ai-train": _TRAINING,
    "train-ai": _TRAINING,
    "train-genai": _TRAINING,
    "ai": _TRAINING,
    "genai": _TRAINING,
    "search": ("search",),
    "tdm": _MINING,
}
# Content Signals' `use`, the most that may be done: read and forget, index and quote with a link, or reproduce.
_LEVELS: Final[Mapping[str, Mapping[str, str]]] = {
    "immediate": dict.fromkeys(("search", "ai-index", "ai-train", "tdm"), NO),
    "reference": {"ai-input": CONDITIONS, "ai-train": NO},
    "full": dict.fromkeys(("search", "ai-index", "ai-input"), YES),
}
_ANSWERS: Final = {"y": YES, "yes": YES, "n": NO, "no": NO}
_PUBLIC_DOMAIN: Final = re.compile(r"https?://(?:www\.)?creativecommons\.org/publicdomain/", re.IGNORECASE)
_COMMONS: Final = re.compile(r"https?://(?:www\.)?creativecommons\.org/licenses/", re.IGNORECASE)
_MAX_WORDS: Final = 50  # of one statement


def uses_of_words(answers: Mapping[str, str]) -> dict[str, str]:
    """Return what holds for each use; a word that means less decides over one that means more (`all`, `search`)."""
    known = sorted((word for word in answers if word in _MEANINGS), key=lambda word: -len(_MEANINGS[word]))
    return {use: answers[word] for word in known for use in _MEANINGS[word]}


def uses_of_statement(text: str) -> dict[str, str]:
    """Read `train-ai=n, search=y` (AIPREF) or `search=yes, use=reference` (Content Signals): a dictionary of tokens
    (RFC 9651). What is said of a single use goes before the level of `use`.
    """
    answers, level = {}, ""
    for part in text.split(",", _MAX_WORDS)[:_MAX_WORDS]:
        word, _, answer = part.partition("=")
        answer = answer.partition(";")[0].strip().lower()
        if answer in _ANSWERS:
            answers[word.strip().lower()] = _ANSWERS[answer]
        elif word.strip().lower() == "use":
            level = answer
    return {**_LEVELS.get(level, {}), **uses_of_words(answers)}


def uses_of_list(words: Iterable[str], answer: str) -> dict[str, str]:
    return uses_of_words(dict.fromkeys(words, answer))


def uses_of_reservation(reservation: str, policy: str = "") -> dict[str, str]:
    """Read TDMRep's `tdm-reservation`, "1" or "0". With a `policy` the rights can be had."""
    reserved = CONDITIONS if policy else NO
    answer = {"1": reserved, "0": YES}.get(reservation.strip())
    return {} if answer is None else dict.fromkeys(_MINING, answer)


def uses_of_licence(url: str) -> dict[str, str]:
    """Return what a Creative Commons licence allows: all, on conditions such as credit, kept without asking."""
    answer = YES if _PUBLIC_DOMAIN.match(url) else CONDITIONS if _COMMONS.match(url) else None
    return {} if answer is None else dict.fromkeys(USES, answer)


# Of one file. They bound the time for a path: a look at a pattern takes microseconds, at one with wildcards up to a
# fifth of a millisecond. What is beyond them is left out.
_MAX_PATTERNS: Final = 1_000
_MAX_WILDCARDS: Final = 50
_MAX_OCTETS: Final = 200
_MAX_TOGETHER: Final = 8  # statements with one pattern
_WHOLE_HOST: Final = (b"/", b"*", b"/*")
_SCOPE_BYTES: Final = 2_000  # about what one takes in memory, beside its signals


class ScopedSignals:
    """Statements of one file and one standard, each with the pattern of the paths that it is about."""

    def __init__(self, rules: Iterable[tuple[str, Signal]]) -> None:
        scopes: dict[bytes, list[Signal]] = {}
        wildcards = 0
        for text, signal in rules:
            pattern = canonical(text.encode("utf-8", "surrogatepass")) or b"/"
            if pattern not in scopes:
                wildcards += b"*" in pattern
                if len(scopes) >= _MAX_PATTERNS or (b"*" in pattern and wildcards > _MAX_WILDCARDS):
                    continue
            if len(pattern) <= _MAX_OCTETS and pattern.startswith((b"/", b"*")):
                scopes.setdefault(pattern, []).append(signal)
        ordered = sorted(scopes, key=len, reverse=True)
        self._scopes = [(PathRules([(one, False)]), tuple(scopes[one][:_MAX_TOGETHER])) for one in ordered]
        self.is_scoped = any(one not in _WHOLE_HOST for one in ordered)
        self.size_bytes = sum(_SCOPE_BYTES + sum(len(one.value) for one in signals) for _, signals in self._scopes)

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def of(self, path: bytes) -> tuple[Signal, ...]:
        """Return the statements about a canonical path (`path_of` of a url)."""
        return next((signals for rule, signals in self._scopes if not rule.allow(path)), ())


MEDIA_TYPE: Final = "application/rsl+xml"
_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]*>", re.IGNORECASE)
_MAX_CONTENTS: Final = 1_000
_MAX_LICENCES: Final = 20  # of one content
_MAX_SHOWN: Final = 500  # characters of a value as it was written, and of where it stands
_MAX_WORDS_CHARS: Final = 1_000
_ASKS_NOTHING: Final = ("", "free", "attribution")  # types of payment that need no agreement


def rsl_signals(body: bytes, where: str, host: str) -> ScopedSignals:
    """Read the licence file at `where` for the pages of `host` (and port). Entities are not expanded."""
    text = _DECLARATION.sub("", body.decode("utf-8-sig", "replace"))
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    rules = []
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return ScopedSignals(())
    # Those within others are none; to write each of them down would take quadratic time.
    for content in islice(root.iterfind("{*}content"), _MAX_CONTENTS):
        path = _path_at(host, content.get("url", "").strip())
        if path is not None:
            shown = " ".join(etree.tostring(content, encoding="unicode", with_tail=False).split())
            rules.append((path, Signal(RSL, where, _uses_of(content), shown[:_MAX_SHOWN])))
    return ScopedSignals(rules)


def _path_at(host: str, url: str) -> str | None:
    if url.startswith(("/", "*")) and not url.startswith("//"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if not url:
        return "/"
    path = url.partition("://")[2].partition("/")[2]
    return f"/{path}" if parts.netloc.lower() == host.lower() else None


def _uses_of(content: etree._Element) -> dict[str, str]:
    """Combine the licences of a content. Where each lists what it permits, nothing else is permitted (RSL, 3.5)."""
    permitted: dict[str, str] = {}
    prohibited: dict[str, str] = {}
    licences = list(content.iterfind("{*}license"))[:_MAX_LICENCES]
    if licences and all(_words(licence, "permits") for licence in licences):
        permitted = dict.fromkeys(USES, NO)
    for licence in licences:
        # What it permits is given freely only to everybody, everywhere, for nothing.
        payments = {one.get("type", "").strip().lower() for one in licence.iterfind("{*}payment")}
        limits = (one.get("type") for name in ("permits", "prohibits") for one in _all(licence, name))
        is_paid = bool(payments) and payments.isdisjoint(_ASKS_NOTHING)
        is_limited = is_paid or bool(content.get("server")) or any(kind in ("user", "geo") for kind in limits)
        terms = CONDITIONS if is_limited else YES
        words, forbidden = _words(licence, "permits"), _words(licence, "prohibits")
        permits = uses_of_list(words, terms)
        if not words and not forbidden and is_limited:
            permits = dict.fromkeys(USES, terms)
        permitted |= {use: terms for use in permits if permitted.get(use) != YES}
        prohibited |= uses_of_list(forbidden, NO)
    return permitted | prohibited


def _words(licence: etree._Element, name: str) -> list[str]:
    texts = (one.text or "" for one in _all(licence, name) if one.get("type", "usage") == "usage")
    return [word for text in texts for word in re.split(r"[\s,]+", text[:_MAX_WORDS_CHARS].lower()) if word]


def _all(licence: etree._Element, name: str) -> list[etree._Element]:
    return list(licence.iterfind(f"{{*}}{name}"))[:_MAX_LICENCES]


HEADER, META, LINK, STRUCTURED_DATA = "header", "meta", "link", "structured-data"
# Those that are looked at, in lower case.
HEADERS: Final = (
    *("content-usage", "content-signal", "tdm-reservation", "tdm-policy", "link", "x-robots-tag", "crawler-price"),
)
_PAYMENT_REQUIRED: Final = 402
_MAX_HEADER_CHARS: Final = 4_000
_LINK: Final = re.compile(r"<([^<>]*+)>([^<>]*+)")
_REL: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_WORD_ENDS: Final = re.compile(r"[\s,;:]+")
# A licence of one of these is about a picture of the page, say.
_MEDIA: Final = frozenset("ImageObject VideoObject AudioObject MediaObject Photograph Clip 3DModel".split())
_LICENCE_NAMES: Final = ("license", "usageInfo", "acquireLicensePage")
_MAX_PAGE_LICENCES: Final = 5


def header_signals(status: int, headers: Mapping[str, str]) -> list[Signal]:
    """Read the headers of a response: those of HEADERS, by lower-case name, repeated ones joined with commas."""
    texts = {name: headers.get(name, "")[:_MAX_HEADER_CHARS] for name in HEADERS}
    found = [
        Signal(name, HEADER, uses_of_statement(texts[name]), texts[name])
        for name in (CONTENT_USAGE, CONTENT_SIGNAL)
        if texts[name]
    ]
    found += _reservation(texts, HEADER)
    found += [
        Signal(LICENCE, HEADER, uses_of_licence(url), url) for url, is_rsl in _linked(texts["link"]) if not is_rsl
    ]
    if status == _PAYMENT_REQUIRED and texts["crawler-price"]:
        found.append(Signal(PAYMENT, HEADER, dict.fromkeys(USES, CONDITIONS), texts["crawler-price"]))
    return found


def content_signals(content: PageContent) -> list[Signal]:
    """Read what stands in the page."""
    found = list(_reservation(content.metadata, META))
    licences = [(LINK, url) for url in content.metadata.get("license", "").split()]
    for thing in content.structured_data:
        if not _MEDIA.intersection(_texts(thing.get("@type"))):
            licences += [(STRUCTURED_DATA, url) for name in _LICENCE_NAMES for url in _texts(thing.get(name))]
    return found + [Signal(LICENCE, where, uses_of_licence(url), url) for where, url in licences[:_MAX_PAGE_LICENCES]]


def noai_signals(
    headers: Mapping[str, str], content: PageContent | None, robots: Collection[str] | None
) -> list[Signal]:
    """Read `noai` (training) and `noimageai`. `robots`: the page's directives for this crawler, where known."""
    meta = "" if content is None else content.metadata.get("robots", "")
    found = []
    for where, text in ((HEADER, headers.get("x-robots-tag", "")), (META, meta)):
        words = frozenset(_WORD_ENDS.split(text[:_MAX_HEADER_CHARS].lower()))
        for name, uses in ((NOAI, uses_of_list(["train-ai"], NO)), (NOIMAGEAI, {})):
            if name in words and (robots is None or name in robots):
                found.append(Signal(name, where, uses, text))
    return found


def licence_files(headers: Mapping[str, str], content: PageContent | None) -> list[str]:
    """Return the addresses of RSL licences, as the header and the link elements give them."""
    linked = [url for url, is_rsl in _linked(headers.get("link", "")[:_MAX_HEADER_CHARS]) if is_rsl]
    return (linked + ("" if content is None else content.metadata.get(RSL, "")).split())[:_MAX_PAGE_LICENCES]


def _reservation(texts: Mapping[str, str], where: str) -> Iterator[Signal]:
    reservation, policy = texts.get("tdm-reservation", ""), texts.get("tdm-policy", "")
    if uses := uses_of_reservation(reservation, policy):
        yield Signal(TDMREP, where, uses, " ".join(filter(None, (reservation, policy))))


def _linked(header: str) -> Iterator[tuple[str, bool]]:
    """Yield the targets of a Link header (RFC 8288) whose relation is "license", each with whether it is an RSL one."""
    for match in _LINK.finditer(header):
        rel = _REL.search(match[2])
        if rel is not None and "license" in (rel[1] or rel[2] or "").lower().split():
            yield match[1].strip(), MEDIA_TYPE in match[2].lower()


def _texts(value: Any) -> Iterable[str]:
    for one in (value if isinstance(value, list) else [value])[:_MAX_PAGE_LICENCES]:
        text = one
        if isinstance(one, dict):
            text = next((one[name] for name in ("url", "@id", "name") if isinstance(one.get(name), str)), None)
        if isinstance(text, str) and text.strip():
            yield text.strip()


RECORD, RESPECT, OFF = "record", "respect", "off"
MODES: Final = (RECORD, RESPECT, OFF)


@dataclass(frozen=True, slots=True)
class RightsPolicy:
    """`mode`: record, respect or off. `purpose`: one of USES, for which the pages are wanted; None: nobody said."""

    mode: str = RECORD
    purpose: str | None = None

    @property
    def refusing_purpose(self) -> str | None:
        """Return the purpose that pages which forbid it are refused for, if any."""
        return self.purpose if self.mode == RESPECT else None


CONTENT_USAGE, CONTENT_SIGNAL, RSL, TDMREP = "content-usage", "content-signal", "rsl", "tdmrep"
NOAI, NOIMAGEAI, AI_TXT, LICENCE, PAYMENT = "noai", "noimageai", "ai.txt", "licence", "payment"
SIGNALS: Final = (CONTENT_USAGE, CONTENT_SIGNAL, RSL, TDMREP, NOAI, NOIMAGEAI, AI_TXT, LICENCE, PAYMENT)
ALLOWED, FORBIDDEN, UNSAID = VERDICTS = "allowed", "forbidden", "unsaid"

_MAX_SIGNALS: Final = 40  # of one page
_STRICTEST: Final = (NO, CONDITIONS, YES)


@dataclass(frozen=True, slots=True)
class Signal:
    """One statement: its standard, where it stands, what it says of each use that it names, and how it is written."""

    name: str
    where: str
    uses: Mapping[str, str]
    value: str

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "where": self.where[:_MAX_SHOWN],
            "uses": dict(self.uses),
            "value": self.value[:_MAX_SHOWN],
        }

    def forbids(self, purpose: str) -> bool:
        """Return whether the purpose needs an agreement. The conditions of a public licence (credit, say) need none."""
        answer = self.uses.get(purpose)
        return answer == NO or (answer == CONDITIONS and self.name != LICENCE)

    def answer_to(self, purpose: str) -> str:
        return f"{self.uses[purpose]} by {self.name} ({self.where[:_MAX_SHOWN]})"


def signals_of(rights: Mapping[str, Any] | None) -> list[Signal]:
    """Return the signals of a line's field."""
    return [] if rights is None else [Signal(**one) for one in rights["signals"]]


def rights_of(signals: Iterable[Signal], purpose: str | None) -> dict[str, Any] | None:
    """Return the field `rights`: the strictest answer to each use holds. None where nothing is said nor asked."""
    shown = list({(one.name, one.where, one.value): one for one in signals}.values())[:_MAX_SIGNALS]
    if not shown and purpose is None:
        return None
    counted = _counted(shown)
    answers = {use: [one for one in counted if use in one.uses] for use in USES}
    verdict = None
    if purpose is not None:
        said = answers[purpose]
        verdict = UNSAID if not said else FORBIDDEN if any(one.forbids(purpose) for one in said) else ALLOWED
    conflicts = []
    for use, said in answers.items():
        first = {one.uses[use]: one for one in reversed(said)}
        if len(first) > 1:
            differing = ", ".join(first[answer].answer_to(use) for answer in _STRICTEST if answer in first)
            conflicts.append(f"{use}: {differing}")
    return {
        "uses": {
            use: min((one.uses[use] for one in said), key=_STRICTEST.index) for use, said in answers.items() if said
        },
        "verdict": verdict,
        "signals": [one.as_json() for one in shown],
        "conflicts": conflicts,
    }


def refusal_of(signals: Iterable[Signal], purpose: str) -> str | None:
    """Return which signal forbids the purpose, in words; None where none does."""
    signal = next((one for one in _counted(list(signals)) if one.forbids(purpose)), None)
    return None if signal is None else f"{purpose}: {signal.answer_to(purpose)}"


def _counted(signals: Sequence[Signal]) -> list[Signal]:
    """Leave out what is replaced: TDMRep's header overrides its file, its meta element the header."""
    last = next((one for one in reversed(signals) if one.name == TDMREP and one.uses), None)
    return [one for one in signals if one.name != TDMREP or one is last]


ROBOTS_PATH, TDMREP_PATH = "/robots.txt", "/.well-known/tdmrep.json"
AI_TXT_PATH: Final = "/ai.txt"

_EVERYWHERE: Final = "/"
_TDMREP_NAMES: Final = ("location", "tdm-reservation", "tdm-policy")
# A pattern begins with "/", or, in ai.txt, with "*". What begins with anything else is about the whole host.
_PATH_AND_REST: Final = re.compile(r"([/*]\S*+)[ \t]++(.*)", re.DOTALL)
_AI_TXT_RULE: Final = re.compile(rb"[ \t]*+((?:dis)?allow)[ \t]*+:[ \t]*+([/*][^\s#]*+)", re.IGNORECASE)
_MAX_AI_TXT_BYTES: Final = 64 * 1024  # one that names all kinds of files there are has 1 KB


def robots_signals(statements: Iterable[tuple[str, str]], where: str) -> list[ScopedSignals]:
    """Read the lines Content-Usage and Content-Signal: `[path] statement`."""
    rules: dict[str, list[tuple[str, Signal]]] = {CONTENT_USAGE: [], CONTENT_SIGNAL: []}
    for name, text in statements:
        if name in rules:
            match = _PATH_AND_REST.fullmatch(text)
            path, said = match.groups() if match is not None else (_EVERYWHERE, text)
            rules[name].append((path, Signal(name, where, uses_of_statement(said), text)))
    return [scoped for one in rules.values() if (scoped := ScopedSignals(one))]


def tdmrep_signals(body: bytes, where: str) -> ScopedSignals:
    rules = []
    try:
        found = loads(body)
    except ValueError:
        found = []
    for rule in found if isinstance(found, list) else [found]:
        if not isinstance(rule, dict):
            continue
        location, policy = rule.get("location"), rule.get("tdm-policy")
        uses = uses_of_reservation(str(rule.get("tdm-reservation")), policy if isinstance(policy, str) else "")
        if isinstance(location, str) and uses:
            shown = {name: rule[name] for name in _TDMREP_NAMES if isinstance(rule.get(name), str | int)}
            rules.append((location, Signal(TDMREP, where, uses, json.dumps(shown, ensure_ascii=False)[:_MAX_SHOWN])))
    return ScopedSignals(rules)


def ai_txt_signals(body: bytes, where: str, token: str) -> ScopedSignals:
    """Read Spawning's ai.txt: robots.txt for training alone."""
    lines = []
    for line in body[:_MAX_AI_TXT_BYTES].splitlines():
        rule = _AI_TXT_RULE.match(line)
        answer_octet = b"n" if rule is None or rule[1].lower() != b"allow" else b"y"
        lines.append(line if rule is None else b"content-usage: %b train-ai=%b" % (rule[2], answer_octet))
    rules = []
    for _, text in parse_robots(b"\n".join(lines), token).statements:
        path, _, said = text.partition(" ")
        answer, word = (YES, "Allow") if said.endswith("y") else (NO, "Disallow")
        rules.append((path, Signal(AI_TXT, where, uses_of_list(["train-ai"], answer), f"{word}: {path}")))
    return ScopedSignals(rules)


MAX_FILE_BYTES: Final = 256 * 1024
_HOST_BYTES: Final = 1_000
_FILES: Final = (TDMREP_PATH, AI_TXT_PATH)


# Fetches a file (url) that another one (base) names or has. None: there is none, or it cannot be had; an exception: not
# now.
FileDownload = Callable[[str, str], Awaitable[bytes | None]]


@dataclass(slots=True)
class _Host:
    """Rights stated by one origin: in robots.txt, in its other files, and in the one licence that is read of it."""

    robots: list[ScopedSignals] = field(default_factory=list)
    files: list[ScopedSignals] = field(default_factory=list)
    licence_url: str = ""
    is_for_all: bool = False  # robots.txt names the licence: it is for all pages, and not only for those that name it
    licence: ScopedSignals | None = None
    knows_robots: bool = False
    is_read: bool = False

    def sources(self, *, named: bool = False) -> list[ScopedSignals]:
        """Return what is said of any page; with `named` also the licence that is for those that name it."""
        has_licence = self.licence and (self.is_for_all or named)
        return [*self.robots, *self.files, *([self.licence] if self.licence and has_licence else [])]


class SiteRights:
    """Rights stated by hosts, in robots.txt and, with `reads_files`, at most three files of a host. `reads_robots`:
    robots.txt is one more of them, as nobody else asks for it. `token` names this crawler there.
    """

    def __init__(
        self, policy: RightsPolicy, token: str = "", *, reads_files: bool = True, reads_robots: bool = False
    ) -> None:
        self.policy = policy
        self._token = token
        self._reads_files = reads_files and policy.mode != OFF
        self._paths = (*_FILES, ROBOTS_PATH) if reads_robots else _FILES
        self._hosts: RobotsCache[_Host] = RobotsCache(time.monotonic)
        self._asked: dict[str, asyncio.Task[None]] = {}

    def note_robots(self, url: str, statements: Iterable[tuple[str, str]]) -> None:
        """Take the statements of the robots.txt that holds for a url; those of an older one are forgotten."""
        if self.policy.mode == OFF:
            return
        origin = origin_of(url)
        host, statements = self._host(origin), tuple(statements)
        host.knows_robots = True
        host.robots = robots_signals(statements, origin + ROBOTS_PATH)
        licence = next((text for name, text in statements if name == "license" and text), "")
        named = normalise(licence, origin) if licence else None
        if named and named != host.licence_url:
            host.licence_url, host.licence, host.is_for_all = named, None, True
            if host.is_read or not self._reads_files:
                host.licence = _unread(named)
        self._keep(origin, host)

    def ask(self, url: str, download: FileDownload) -> None:
        """Begin to ask the url's host for its files, unless that was done."""
        origin = origin_of(url)
        host = self._hosts.get(origin)
        if self._reads_files and (host is None or not host.is_read):
            self._share(origin, lambda: self._read(origin, download))

    async def answers(self, url: str) -> None:
        """Wait until the files of the url's host are read. Raises what the download does; the next `ask` asks again."""
        task = self._asked.get(origin_of(url))
        if task is not None:
            await asyncio.shield(task)  # a cancelled waiter would cancel it for all

    def signals_for(self, url: str) -> list[Signal]:
        """Return what is known by now of what the host says about a url."""
        host, path = self._hosts.get(origin_of(url)), path_of(url)
        return [] if host is None else [signal for source in host.sources() for signal in source.of(path)]

    def refusal_of(self, url: str) -> str | None:
        """Return why the host's own statements forbid the purpose of this crawl for a url; None where they do not."""
        purpose = self.policy.refusing_purpose
        return None if purpose is None else refusal_of(self.signals_for(url), purpose)

    def differs_by_path(self, url: str) -> bool:
        """Return whether the host says something of some paths only: pages there may be allowed where this is not."""
        host = self._hosts.get(origin_of(url))
        return host is not None and any(source.is_scoped for source in host.sources())

    def is_file_of(self, url: str, where: str) -> bool:
        """Return whether a signal that stands at `where` comes from a file of the url's host that has been read."""
        origin = origin_of(url)
        host = self._host(origin)
        paths = (*([ROBOTS_PATH] if host.knows_robots else []), *(_FILES if host.is_read else []))
        return any(where == origin + path for path in paths)

    async def licence_signals(self, url: str, named: str, download: FileDownload) -> list[Signal]:
        """Return what the RSL licence that a page names says of it. One licence of a host is read; others are noted."""
        origin, target = origin_of(url), normalise(named, url)
        host = self._host(origin)
        if target is None:
            return []
        if not self._reads_files or host.licence_url not in ("", target):
            return [Signal(RSL, target, {}, target)]
        if host.licence is None:
            host.licence_url = target
            self._keep(origin, host)
            self._share(f"{target} for {origin}", lambda: self._read_licence(origin, target, download))
            await asyncio.shield(self._asked[f"{target} for {origin}"])
            host = self._host(origin)
        return list(host.licence.of(path_of(url))) if host.licence is not None else []

    async def _read(self, origin: str, download: FileDownload) -> None:
        bodies = await asyncio.gather(*(download(origin + path, origin) for path in self._paths))
        found = {path: body for path, body in zip(self._paths, bodies, strict=True) if body is not None}
        if ROBOTS_PATH in found:
            robots = await asyncio.to_thread(parse_robots, found.pop(ROBOTS_PATH), self._token)
            self.note_robots(origin, robots.statements)
        files = await asyncio.to_thread(self._parsed, origin, found)
        host = self._host(origin)
        if host.licence_url and host.licence is None:
            await self._read_licence(origin, host.licence_url, download)
        host = self._host(origin)
        host.files, host.is_read = files, True
        self._keep(origin, host)

    async def _read_licence(self, origin: str, url: str, download: FileDownload) -> None:
        body = await download(url, origin) or b""
        licence = await asyncio.to_thread(rsl_signals, body[:MAX_FILE_BYTES], url, origin.partition("://")[2])
        host = self._host(origin)
        host.licence = licence or _unread(url)
        self._keep(origin, host)

    def _parsed(self, origin: str, bodies: dict[str, bytes]) -> list[ScopedSignals]:
        readers: dict[str, Callable[[bytes, str], ScopedSignals]] = {
            TDMREP_PATH: tdmrep_signals,
            AI_TXT_PATH: partial(ai_txt_signals, token=self._token),
        }
        read = (readers[path](body[:MAX_FILE_BYTES], origin + path) for path, body in bodies.items())
        return [one for one in read if one]

    def _host(self, origin: str) -> _Host:
        return self._hosts.get(origin) or _Host()

    def _keep(self, origin: str, host: _Host) -> None:
        size_bytes = sum(one.size_bytes for one in host.sources(named=True))
        self._hosts.keep(origin, host, _HOST_BYTES + size_bytes)

    def _share(self, key: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        if key not in self._asked:
            task = self._asked[key] = asyncio.ensure_future(work())
            task.add_done_callback(partial(self._forget, key))

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        del self._asked[key]
        if not task.cancelled():
            task.exception()  # which asyncio would log where all who waited are gone


def _unread(url: str) -> ScopedSignals:
    """Return the statement that there is a licence, of which nothing more is known."""
    return ScopedSignals([("/", Signal(RSL, url, {}, url))])
