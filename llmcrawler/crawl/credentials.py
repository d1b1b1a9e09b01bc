"""Reads the headers and cookies that a user has the crawl send (-a headers=FILE, -a cookies=FILE), and tells for each
url which of them go there: to the hosts of the start urls alone. Messages never show a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from llmcrawler.core.politeness.bot_auth import authority_of
from llmcrawler.core.urls import Scope

Cookie = Mapping[str, Any]  # name, value, path, secure; domain, "" for all start urls, with a dot for those below it

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Those of a connection, and not of a page, that come along where headers are copied from a browser.
_NOT_SENT: Final = frozenset(("host", "connection", "content-length", "transfer-encoding", "accept-encoding"))
_FIELDS: Final = ("domain", "below", "path", "secure", "expires", "name", "value")


def read_headers(file: str) -> dict[str, str]:
    """Read `Name: value` lines or a JSON object. Raises ValueError."""
    text = _text(file)
    lines = [line.partition(":") for line in text.splitlines() if line.strip()]
    given = json.loads(text) if text.startswith("{") else {name.strip(): value.strip() for name, _, value in lines}
    for number, (name, value) in enumerate(given.items(), 1):
        if not _NAME.fullmatch(name) or not value or not _VALUE.fullmatch(str(value)):
            raise ValueError(f"has no `Name: value` as header {number}")
        if name.lower() == "cookie":
            raise ValueError("has a Cookie header: give cookies with -a cookies=FILE")
    return {name: str(value) for name, value in given.items() if name.lower() not in _NOT_SENT}


def read_cookies(file: str) -> tuple[Cookie, ...]:
    """Read cookies.txt (curl's and Netscape's), a browser's export as JSON, or a JSON object of names and values.
    Raises ValueError.
    """
    text = _text(file)
    if text.startswith(("[", "{")):
        given = json.loads(text)
        if isinstance(given, dict):
            given = given.get("cookies") or [{"name": name, "value": value} for name, value in given.items()]
    else:
        lines = (line.removeprefix("#HttpOnly_") for line in text.splitlines())
        given = [dict(zip(_FIELDS, line.split("\t"), strict=False)) for line in lines if line[:1] not in ("", "#")]
    cookies = []
    for number, one in enumerate(given, 1):
        try:
            domain, secure = str(one.get("domain") or "").lower(), str(one.get("secure", "")).lower() == "true"
            if one.get("hostOnly") is False or one.get("below") == "TRUE":
                domain = f".{domain.lstrip('.')}"
            cookie = {"name": one["name"], "value": str(one["value"]), "path": one.get("path") or "/"}
            is_fine = _NAME.fullmatch(cookie["name"]) and ";" not in "".join(cookie.values())
        except (KeyError, TypeError, AttributeError):
            is_fine = False
        if not is_fine or not _VALUE.fullmatch("".join(cookie.values())):
            raise ValueError(f"has no name and value as cookie {number}: it is cookies.txt or JSON")
        cookies.append({**cookie, "domain": domain, "secure": secure})
    return tuple(cookies)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


class Credentials:
    """Headers and cookies for the hosts of the start urls; for those that begin with https, never without it."""

    def __init__(self, headers: Mapping[str, str], cookies: Sequence[Cookie], starts: Sequence[str]) -> None:
        self._headers, self._cookies = headers, cookies
        # Not the crawl's own scope, which grows with redirects.
        self._by_tls = Scope(starts)
        self._open = Scope([url for url in starts if url.startswith("http:")])

    def _go_to(self, url: str) -> bool:
        scope = self._by_tls if url.startswith("https:") else self._open
        return scope.has_site_of(f"http://{authority_of(url)}/")

    def headers_for(self, url: str) -> Mapping[str, str]:
        return self._headers if self._headers and self._go_to(url) else {}

    def cookies_for(self, url: str) -> list[dict[str, Any]]:
        """Return cookies that are for the url's very host."""
        if not self._cookies or not self._go_to(url):
            return []
        host = urlsplit(url).hostname or ""
        return [
            {**one, "domain": host}
            for one in self._cookies
            if one["domain"] in ("", host) or (one["domain"][0] == "." and f".{host}".endswith(one["domain"]))
        ]
