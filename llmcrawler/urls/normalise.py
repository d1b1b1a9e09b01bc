"""One spelling for each url.

What comes out is requested and is the url's identity in the frontier, so only changes that every server treats as
the same page are made (RFC 3986, section 6.2), and parameters that carry a session or a campaign and no content are
left out. The order of the query stays: some servers mind.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urljoin, urlsplit

MAX_URL_LENGTH = 2083  # what browsers and Scrapy's URLLENGTH_LIMIT take

_CLEAN = re.compile(r"https?://[a-z0-9.-]+(?::\d+)?/(?:[A-Za-z0-9._~-]+/?)*\Z")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_HOST = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.?\Z|\[[0-9a-f:.]+\]\Z"
)
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})|%")
_UNSAFE = re.compile(r"[^A-Za-z0-9._~!$&'()*+,;=:@/?%\[\]-]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PATH_SESSION = re.compile(r";(?:jsessionid|phpsessid|sid|sessionid)=[^/;?]*", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}

# Campaigns and click ids of advertising networks and mailing tools; sessions of web frameworks.
_DROPPED_PARAMETERS = frozenset(
    "fbclid gclid gclsrc dclid gbraid wbraid msclkid yclid twclid igshid mc_cid mc_eid mkt_tok _ga _gl _hsenc _hsmi "
    "vero_id oly_anon_id oly_enc_id ml_subscriber ml_subscriber_hash s_cid wickedid "
    "phpsessid jsessionid aspsessionid cfid cftoken sessionid session_id sessid zenid oscsid".split()
)
_DROPPED_PREFIXES = ("utm_", "pk_", "mtm_", "hsa_")
_SESSION_NAMES = frozenset({"sid", "s", "session", "sess"})
_SESSION_VALUE = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{16,}\Z", re.IGNORECASE)


def normalise(url: str, base: str | None = None) -> str | None:
    """The canonical form of an http(s) url, None for anything that cannot be fetched as a page."""
    if base is None and _CLEAN.match(url) and len(url) <= MAX_URL_LENGTH and "/." not in url:
        parts = None if ":" not in url[6:] else urlsplit(url)
        if parts is None or not _is_default_port(parts):
            return url
    url = url.strip()
    try:
        parts = urlsplit(urljoin(base, url) if base else url)
        host = _host_of(parts)
    except ValueError:  # an unclosed bracket, a port that is no number
        return None
    if host is None or _CONTROL.search(parts.path + parts.query):
        return None
    path = _PATH_SESSION.sub("", _quoted(_without_dots(parts.path or "/")))
    query = _query_of(parts.query)
    normal = f"{parts.scheme.lower()}://{host}{path}{'?' + query if query else ''}"
    return normal if len(normal) <= MAX_URL_LENGTH else None


def _host_of(parts: SplitResult) -> str | None:
    """Host and port; ValueError when the port is none."""
    if parts.scheme.lower() not in _DEFAULT_PORTS or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    if not _HOST.match(host):
        return None
    return host if parts.port is None or _is_default_port(parts) else f"{host}:{parts.port}"


def _is_default_port(parts: SplitResult) -> bool:
    return parts.port == _DEFAULT_PORTS.get(parts.scheme.lower())


def _without_dots(path: str) -> str:
    """RFC 3986, section 5.2.4."""
    if "/." not in path:
        return path if path.startswith("/") else f"/{path}"
    kept: list[str] = []
    segments = path.split("/")[1:] if path.startswith("/") else path.split("/")
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _quoted(text: str) -> str:
    """Percent-encoding in one spelling: needed ones in upper case, needless ones undone."""
    if "%" in text:
        text = _PERCENT.sub(_one_percent, text)
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), text)
    return text


def _one_percent(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def _query_of(query: str) -> str:
    if not query:
        return ""
    kept = [parameter for parameter in query.split("&") if parameter and not _carries_no_content(parameter)]
    return _quoted("&".join(kept))


def _carries_no_content(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    name = name.lower()
    if name in _DROPPED_PARAMETERS or name.startswith(_DROPPED_PREFIXES):
        return True
    return name in _SESSION_NAMES and bool(_SESSION_VALUE.match(value))
