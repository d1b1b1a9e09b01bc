"""Patterns of urls: which parts are the site's own names and which the values of one page, how urls group by what they
name, and which urls are variants of one page (print, AMP, index.html).
"""

from __future__ import annotations

import re
from functools import lru_cache

from llmcrawler.core.urls.normalise import dedup_key, normalise, relative_url, route_of, site_name

# Words that number a place in a series: "page-2" is the pattern page-{n}, "hamlet-2" is {slug}-{n}.
_COUNTING_WORDS = frozenset(
    """
    article c cat category chapter day entry f forum id item issue month node p page part post product section t
    thread topic user v version vol volume week year
    """.split()
)
# Front controllers choose the page's template by the value of one of these parameters.
_ROUTING_KEYS = frozenset(
    {"act", "action", "cmd", "controller", "do", "mod", "module", "op", "option", "route", "task", "view"}
)

_DATE_PATH = re.compile(
    r"/(?:19|20)\d\d[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\d|3[01]))?(?=/|$)"
    r"|/(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?=/|$)"
)
_DATE = re.compile(
    r"(?:19|20)\d\d-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?(?:[T ].*)?|\d\d?-\d\d?-(?:19|20)\d\d"
)
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_EXTENSION = re.compile(r"\.[a-zA-Z][a-zA-Z0-9]{1,4}$")
_NUMBERED = re.compile(r"([^\d_-].*?)([_-])(\d+)")
_LEADING_NUMBER = re.compile(r"\d+([_-])(?=.*[^\W\d_])")
_WORD_AND_NUMBER = re.compile(r"([A-Za-z]{1,8})(\d{2,})")
_WORDS = re.compile(r"[A-Za-z]+\d?(?:[-_.][A-Za-z]+\d?){0,2}")
_MIXED = re.compile(r"\d[A-Za-z]+\d|[A-Za-z]\d+[A-Za-z]")
PAGE_PATH = re.compile(r"/(?:page|seite|pagina|p)[/-]?\d+(?=/|$)", re.IGNORECASE)
_END_NUMBER = re.compile(r"(?<=[A-Za-z])(?:\d+|\{n\})$")
_MAX_PARAMETERS = 100  # that are looked at


def url_pattern(url: str) -> str:
    """Fold the path and query of an absolute url to its shape, e.g. "/catalogue/{slug}_{n}/?page={n}".

    {n} is a number, {date} a day or a month, {id} a UUID, a hash or a code, {slug} a text; short plain words and file
    extensions stay. The decision uses one url alone, so it does not change as the crawl goes on.
    """
    start = url.find("/", url.find("://") + 3)
    path, _, query = (url[start:] if start >= 8 else "/").partition("?")
    path = _DATE_PATH.sub("/{date}", path)
    end = "/" if path.endswith("/") else ""
    head, _, last = path.removesuffix("/").rpartition("/")
    above = "/".join([_segment(part) for part in head.split("/")])
    shape = f"{above}/{_segment(last, is_last=head != '')}{end if last else ''}"
    if not query:
        return shape
    shapes = set()
    for parameter in query.split("&"):
        key, mark, value = parameter.partition("=")
        if key.isdigit():  # "?1234" is a value without a name
            key = "{n}"
        if value and (key not in _ROUTING_KEYS or not value.isascii() or any(c.isdigit() for c in value)):
            value = _value(value)
        shapes.add(key + mark + value)
    return f"{shape}?{'&'.join(sorted(shapes))}"


@lru_cache(maxsize=4096)
def _value(value: str) -> str:
    if _NUMBER.fullmatch(value):
        return "{n}"
    if _DATE.fullmatch(value):
        return "{date}"
    return "{id}" if is_code(value) else "{slug}"


@lru_cache(maxsize=4096)
def _segment(segment: str, is_last: bool = False) -> str:
    if not segment or segment == "{date}":
        return segment
    extension = ""
    match = _EXTENSION.search(segment)
    if match is not None and match.start() > 0:
        segment, extension = segment[: match.start()], match[0]
    if (value := _value(segment)) != "{slug}":
        return value + extension
    if match := _NUMBERED.fullmatch(segment):
        word, joint, _ = match.groups()
        shape = f"{word if word.lower() in _COUNTING_WORDS else '{slug}'}{joint}{{n}}"
    elif match := _LEADING_NUMBER.match(segment):
        shape = f"{{n}}{match[1]}{{slug}}"
    elif match := _WORD_AND_NUMBER.fullmatch(segment):
        shape = f"{match[1]}{{n}}"
    else:
        # In the last segment below a section a capital or a joint makes a title ("Albert_Einstein", "rye-bread"), in
        # others it is the site's own naming.
        is_title = is_last and (segment[0].isupper() or "_" in segment or "-" in segment)
        is_name = _WORDS.fullmatch(segment) and len(segment) <= 24 and not is_title
        shape = segment if is_name else "{slug}"
    return shape + extension


def is_code(text: str) -> bool:
    """Tell a UUID, a hash, or a code in which digits and letters mix, from words with a number in them."""
    if len(text) < 6:
        return False
    if len(text) == 36 and _UUID.fullmatch(text):
        return True
    if not text.isascii() or not text.replace("_", "").replace("-", "").isalnum():
        return False
    digits = sum(c.isdigit() for c in text)
    if digits < 2 or digits == len(text):
        return False
    if "-" in text or "_" in text:
        # Words are split by joints; a token of base64 has one here and there, and changes between cases.
        return len(text) >= 20 and text.count("-") + text.count("_") <= 2 and not (text.islower() or text.isupper())
    return _MIXED.search(text) is not None


@lru_cache(maxsize=8192)
def coarse_pattern(url: str) -> str:
    """Fold an absolute url to what kind of thing it names on its host: "blog.example/tag/*/" for each tag of a blog.

    Of the query, routing parameters count, and the name of the only other one; several are one search. A page number in
    the path counts as a parameter; below a section the last word of the path does not count.
    """
    start = url.find("/", url.find("://") + 3)
    address, _, query = url.partition("?")
    keys = set()
    if start > 0 and (bare := PAGE_PATH.sub("", address)) != address:
        address = bare
        keys.add("page")
    path = url_pattern(address)
    above, _, last = path.rstrip("/").rpartition("/")
    stem, dot, extension = last.rpartition(".")
    word, extension = (stem, dot + extension) if dot else (last, "")
    word = "*" if above and ("{slug}" in word or "{" not in word) else _END_NUMBER.sub("", word)
    path = f"{above}/{word}{extension}{'/' if last and path.endswith('/') else ''}"
    parts = [part.partition("=") for part in query.split("&", _MAX_PARAMETERS)] if query else []
    routing = [f"{key}={value}" for key, _, value in parts if key in _ROUTING_KEYS]
    keys |= {key for key, _, _ in parts if key not in _ROUTING_KEYS}
    search = "&".join([*routing, *(keys if len(keys) < 2 else ("*",))])
    return f"{url[:start] if start > 0 else url}{path}{'?' if search else ''}{search}"


_INDEX = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?|jspx?|shtml|cfm)\Z", re.IGNORECASE)
_VARIANT = r"(?:amp|print(?:able|er)?(?:[-_]?(?:friendly|mode|page|version|view))?)"
_SEGMENT = re.compile(rf"/{_VARIANT}(?=/|\Z)", re.IGNORECASE)
_SUFFIX = re.compile(rf"[._-]{_VARIANT}(?=(?:\.[a-z]{{1,5}})?\Z)", re.IGNORECASE)
# The name of a variant with a value like yes, or a parameter of the layout that names a variant.
_PARAMETER = re.compile(
    rf"{_VARIANT}(?:=(?:1|on|print|true|y|yes)?)?"
    rf"|(?:action|display|do|format|layout|mode|output|style|template|tmpl|type|version|view)={_VARIANT}",
    re.IGNORECASE,
)
_NAMES_VARIANT = re.compile(rf"(?<![a-z]){_VARIANT}(?![a-z])|print[a-z_-]{{0,20}}\.(?:aspx?|jsp|php)\b", re.IGNORECASE)
_LINK = re.compile(r"<([^<>\s]{1,2083})>\s{0,9};([^<]{0,500})")
_CANONICAL = re.compile(r"""\brel\s{0,9}=\s{0,9}["']?[^"',;]{0,100}\bcanonical\b""", re.IGNORECASE)
_MAX_HEADER_CHARS = 20_000


def canonical_link(header: str, base: str) -> str | None:
    """Return the canonical url (RFC 6596) in a Link header (RFC 8288) of the page at `base`; None without one."""
    for target, parameters in _LINK.findall(header[:_MAX_HEADER_CHARS]):
        if _CANONICAL.search(parameters):
            return normalise(target, base)
    return None


def variant_key(url: str) -> str:
    """Return what a normalised url shares with its variants: other scheme, "www.", index.html, print, AMP."""
    path, mark, query = relative_url(dedup_key(url.partition("#")[0])).partition("?")
    path = _INDEX.sub("/", _SUFFIX.sub("", _SEGMENT.sub("", path)))
    kept = [part for part in query.split("&") if not _PARAMETER.fullmatch(part)] if mark else []
    return f"{site_name(url)}{path.rstrip('/')}?{'&'.join(kept)}{route_of(url)}"


def names_variant(url: str) -> bool:
    """Tell whether a url says anywhere that it is for printing, or AMP."""
    return _NAMES_VARIANT.search(relative_url(url)) is not None
