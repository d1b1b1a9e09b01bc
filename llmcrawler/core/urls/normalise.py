"""Brings urls into one spelling, for the request and (with `dedup_key`) to tell whether it was seen; and their parts.

Every link of every page goes through here, so one regular expression recognises most urls as canonical already.
CPU time per url, plain / with all that may be wrong (benchmarks/urls_speed.py): 2 / 11 us, repeated 0.1. w3lib's
canonicalize_url takes 11 / 18 and reorders the query; w3lib's safe_url_string takes 5 / 10 and yarl's URL 3 / 4, but
both keep tracking and session parameters, and several spellings of one url.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

import idna

# Browsers and servers agree up to about this length (Scrapy's URLLENGTH_LIMIT).
MAX_URL_LENGTH = 2083

# Parameters that tell the site where a visitor came from. They never select content.
TRACKING_PARAMETERS = (
    r"utm_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|ysclid|twclid|ttclid|li_fat_id|igsh|igshid|srsltid"
    r"|mc_cid|mc_eid|mkt_tok|_hsenc|_hsmi|__hstc|__hssc|__hsfp|hsctatracking|_ga|_gl|_openstat|oly_anon_id|oly_enc_id"
    r"|vero_id|vero_conv|wickedid|rb_clickid|s_kwcid|_branch_match_id|guccounter|guce_referrer\w*|xtor|wt\.mc_id"
    r"|(?:pk|piwik|matomo|mtm)_(?:campaign|kwd|keyword|source|medium|content)|at_(?:campaign|medium|custom\d)"
)
# Parameters that are a session whatever they hold, and those that are one only when the value looks random.
SESSION_PARAMETERS = r"phpsessid|jsessionid|aspsessionid\w*|cfid|cftoken|session_?id|sessid|oscsid|xtcsid|zenid"
POSSIBLE_SESSION_PARAMETERS = r"sid|s|sess|session|phpsess|psid|ssid"

_RANDOM_VALUE = r"(?=\w*\d)(?=\w*[A-Za-z])\w{20,}|[0-9a-fA-F]{32}"
_DROPPED = re.compile(
    rf"(?:{TRACKING_PARAMETERS}|{SESSION_PARAMETERS})(?:=.*)?|(?:{POSSIBLE_SESSION_PARAMETERS})=(?:{_RANDOM_VALUE})",
    re.IGNORECASE,
)
# Cheap: may there be anything to drop from this query at all?
_SUSPECT = re.compile(
    rf"(?:^|&)(?:&|$|(?:{TRACKING_PARAMETERS}|{SESSION_PARAMETERS}|{POSSIBLE_SESSION_PARAMETERS})(?:[=&]|$))",
    re.IGNORECASE,
)
# ;jsessionid=1A2B and the (S(...)) that ASP.NET puts in the path when it has no cookies.
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sessionid|sid|cfid|cftoken)=[^/;?]*|/\([A-Z]\([a-z0-9]{20,}\)\)", re.IGNORECASE
)

# RFC 3986: what may stand in a path and in a query. "'" is left out of queries, as browsers escape it there.
# An escape is canonical when it is upper-case and its octet is not an unreserved character.
_ESCAPED = r"%(?:[0189A-F][0-9A-F]|2[0-9ABCF]|3[A-F]|40|5[BCDE]|60|7[BCDF])"
_PATH_CHARACTERS = r"A-Za-z0-9\-._~!$&'()*+,;=:@/"
_QUERY_CHARACTERS = r"A-Za-z0-9\-._~!$&()*+,;=:@/?"
_CANONICAL_PATH = re.compile(rf"(?:[{_PATH_CHARACTERS}]++|{_ESCAPED})*+")
_CANONICAL_QUERY = re.compile(rf"(?:[{_QUERY_CHARACTERS}]++|{_ESCAPED})*+")
_ODD_IN_PATH = re.compile(rf"(?:%[0-9A-Fa-f]{{2}})+|[^{_PATH_CHARACTERS}%]+|%")
_ODD_IN_QUERY = re.compile(rf"(?:%[0-9A-Fa-f]{{2}})+|[^{_QUERY_CHARACTERS}%]+|%")
_DOT_SEGMENT = re.compile(r"/\.\.?(?:/|$)")

_IPV4_PART = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
# A url that is canonical already: the name is no number, no port, no dot segment, no session in the path.
_CANONICAL = re.compile(
    rf"https?://(?=[^/]{{1,253}}/)(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?"
    rf"(?:/(?!\.\.?(?:[/?]|$))(?:[A-Za-z0-9\-._~!$&'*+,=:@]++|{_ESCAPED})*+)++"
    rf"(?:\?((?:[{_QUERY_CHARACTERS}]++|{_ESCAPED})++))?+"
)
_ABSOLUTE = re.compile(r"(https?):[/\\]+([^/\\?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_LOGIN = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*)[^/\\?#]*@")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_LINE_BREAKS = str.maketrans("", "", "\t\r\n")
_BLANKS = " \t\r\n\f\v"


def normalise(url: str, base: str | None = None) -> str | None:
    """Return the canonical absolute form of a link, to request and to store; None when it is no crawlable http(s) url.

    Case of scheme and host, default ports, IDNA, dot segments, percent-escapes and number-like hosts are folded; the
    fragment, user and password, tracking and session parameters are dropped. The order of the query stays, for some
    sites depend on it: `dedup_key` sorts. Scrapy's Request leaves the result as it is.
    """
    if base is not None:
        if (joined := _join(url, base)) is None:
            return None
        url = joined
    # Long urls stay out of the cache: it would hold hundreds of megabytes of them.
    return _cached(url) if len(url) <= 512 else _normalise_absolute(url)


def with_plain_origin(url: str) -> str | None:
    """Return an absolute url with its origin as `normalise` spells it, without login, and all else as it is."""
    match = _ABSOLUTE.fullmatch(url)
    if match is None:
        return None
    scheme = match[1].lower()
    origin = _normalise_authority(scheme, match[2]) if len(match[2]) <= MAX_URL_LENGTH else None
    return None if origin is None else f"{scheme}://{origin}{url[match.end(2) :]}"


def without_login(text: str) -> str:
    """Take user and password out of what was meant for a url, to show it."""
    return _LOGIN.sub(r"\1", text)


def dedup_key(url: str) -> str:
    """Return the key under which a normalised url counts as seen: its query sorted by name, repeated names in order."""
    if "&" not in url:
        return url
    head, mark, query = url.partition("?")
    if not mark or "&" not in query:
        return url
    return f"{head}?{'&'.join(sorted(query.split('&'), key=lambda parameter: parameter.partition('=')[0]))}"


def _normalise_absolute(url: str) -> str | None:
    if len(url) > MAX_URL_LENGTH * 2:  # cannot shrink enough: do not spend time on data of megabytes
        return None
    match = _CANONICAL.fullmatch(url)
    if match is not None and (match[1] is None or not _SUSPECT.search(match[1])):
        return url if len(url) <= MAX_URL_LENGTH else None
    url = url.strip(_BLANKS).translate(_LINE_BREAKS)
    match = _ABSOLUTE.fullmatch(url)
    if match is None or _CONTROL.search(url):
        return None
    scheme, authority, path, query = match.groups()
    scheme = scheme.lower()
    origin = _normalise_authority(scheme, authority)
    if origin is None:
        return None
    if query and not _CANONICAL_QUERY.fullmatch(query):
        query = _ODD_IN_QUERY.sub(_escape, query)
    if query and _SUSPECT.search(query):
        query = "&".join([part for part in query.split("&") if part and not _DROPPED.fullmatch(part)])
    result = f"{scheme}://{origin}{_normalise_path(path)}{f'?{query}' if query else ''}"
    return result if len(result) <= MAX_URL_LENGTH else None


# The links of a site's pages are mostly the same few thousand strings.
_cached = lru_cache(maxsize=8192)(_normalise_absolute)


@lru_cache(maxsize=2048)
def _normalise_authority(scheme: str, authority: str) -> str | None:
    name, port = authority.rpartition("@")[2], ""
    if ":" in name and not name.endswith("]"):
        name, _, port = name.rpartition(":")
    host = _normalise_host(name)
    if host is None:
        return None
    if port:
        if not (port.isascii() and port.isdigit() and len(port) <= 8) or not 0 < int(port) <= 65535:
            return None
        if int(port) != (443 if scheme == "https" else 80):
            return f"{host}:{int(port)}"
    return host


def _normalise_host(host: str) -> str | None:
    """Fold a host as browsers do; None when no machine can have that name. Its last dot is dropped."""
    if host.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(host[1:-1])}]" if host.endswith("]") and "%" not in host else None
        except ValueError:
            return None
    if "%" in host:
        host = unquote(host, errors="replace")
    host = host.lower()
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True, transitional=False).decode("ascii").lower()
        except (idna.IDNAError, UnicodeError):
            return None
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host):
        return None
    last_label = host.rpartition(".")[2]
    if last_label.isdigit() or re.fullmatch("0x[0-9a-f]*", last_label):
        address = parse_ipv4(host)
        return None if address is None else str(address)
    return host


def parse_ipv4(host: str) -> ipaddress.IPv4Address | None:
    """Read a number as browsers and inet_aton do: "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1"; else None."""
    parts = host.split(".")
    if len(parts) > 4 or not all(_IPV4_PART.fullmatch(part) for part in parts):
        return None
    numbers = []
    for part in parts:
        base, digits = 10, part
        if part[:2] in ("0x", "0X"):
            base, digits = 16, part[2:] or "0"
        elif len(part) > 1 and part[0] == "0":
            base = 8
        if len(digits) > 16 or (base == 8 and re.search("[89]", digits)):
            return None
        numbers.append(int(digits, base))
    *head, last = numbers
    if any(number > 255 for number in head) or last >= 256 ** (4 - len(head)):
        return None
    value = last + sum(number << (8 * (3 - place)) for place, number in enumerate(head))
    return ipaddress.IPv4Address(value)


def _normalise_path(path: str) -> str:
    path = path.replace("\\", "/")
    if not _CANONICAL_PATH.fullmatch(path):
        path = _ODD_IN_PATH.sub(_escape, path)
    if ";" in path or "(" in path:
        while (shorter := _PATH_SESSION.sub("", path)) != path:  # what one removal joins may be a session again
            path = shorter
    if _DOT_SEGMENT.search(path):  # RFC 3986, section 5.2.4
        segments: list[str] = []
        parts = path.split("/")[1:]
        for part in parts:
            if part == "..":
                del segments[-1:]
            elif part != ".":
                segments.append(part)
        path = f"/{'/'.join(segments)}{'/' if parts[-1] in ('.', '..') and segments else ''}"
    return path or "/"


def _escape(match: re.Match[str]) -> str:
    text = match[0]
    if text == "%":
        return "%25"
    # Decoding a run and quoting it again keeps what is reserved ("%2f" -> "%2F") and frees what is not ("%7e" -> "~").
    return quote(unquote_to_bytes(text) if text[0] == "%" else text.encode(), safe="")


def _join(url: str, base: str) -> str | None:
    """Make a reference absolute (RFC 3986, section 5.2, with the leniency of browsers); None for another scheme."""
    url = url.strip(_BLANKS)
    if (given := _SCHEME.match(url)) is not None:
        return url if given[0].lower() in ("http:", "https:") else None
    if (parts := _base_parts(base)) is None:
        return None
    scheme, authority, path = parts
    if not url or url[0] == "#":
        return base
    if url[:2] in ("//", "\\\\", "/\\", "\\/"):
        return f"{scheme}:{url}"
    if url[0] not in "/\\":
        url = f"{path if url[0] == '?' else path[: path.rfind('/') + 1]}{url}"
    return f"{scheme}://{authority}{url}"


@lru_cache(maxsize=1024)
def _base_parts(base: str) -> tuple[str, str, str] | None:
    match = _ABSOLUTE.fullmatch(base.strip(_BLANKS).translate(_LINE_BREAKS))
    return None if match is None else (match[1], match[2], match[3].replace("\\", "/") or "/")


# "#/guide" of http://docs.example/#/guide, which only a browser follows; "#/" alone is the app's front.
_ROUTE = re.compile(r"#!?/[^\x00-\x1f\x7f\ud800-\udfff]+")
_KEPT = "%/:?[]@!$&'()*+,;=~-._"


def site_name(url: str) -> str:
    """Return host and port of an absolute url, without "www.": what is learned of a site holds under other schemes."""
    return site_of(urlsplit(url).netloc)


def site_of(host: str) -> str:
    return host.removeprefix("www.")


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def relative_url(url: str) -> str:
    """Return path and query of an absolute url, from the slash on."""
    start = url.find("/", url.find("://") + 3)
    return url[start:] if start > 0 else "/"


def route_of(url: str) -> str:
    """Return the route of a url, such as "#/guide"; "" where nothing follows the "#", or a place on the page."""
    at = url.find("#")
    return url[at:] if at >= 0 and _ROUTE.fullmatch(url, at) else ""


def normalise_with_route(url: str, base: str | None = None) -> str | None:
    """Normalise a url as `normalise` does, but keep a route behind the "#"."""
    found = normalise(url, base)
    if found is None or "#" not in url or not (route := route_of(url.strip())):
        return found
    whole = f"{found}#{quote(route[1:], safe=_KEPT)}"
    return whole if len(whole) <= MAX_URL_LENGTH else None


def routed_path(url: str) -> str:
    """Return the url with its route as a path, where its words count: http://docs.example/guide."""
    route = route_of(url)
    return f"{url.partition('#')[0].partition('?')[0].rstrip('/')}/{route.lstrip('#!/')}" if route else url
