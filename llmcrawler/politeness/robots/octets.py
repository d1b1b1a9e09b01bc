"""Spells paths of urls and of rules in one way, so that they can be compared octet by octet (RFC 9309, 2.2.2)."""

from __future__ import annotations

import re

# RFC 3986: these need no escape in a path or a query. "%" is not among them: an escape may be written in two ways.
_PLAIN = rb"A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]"
_IS_PLAIN = re.compile(rb"[%b]*+" % _PLAIN)
_NOT_PLAIN = re.compile(rb"%%[0-9A-Fa-f]{2}|[^%b]" % _PLAIN)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:(?://[^/?#]*)?([^#]*)", re.IGNORECASE | re.DOTALL)


def canonical(octets: bytes) -> bytes:
    """Undo escapes of unreserved octets, write the others in capitals, and escape what must be escaped.

    A reserved character and its escape stay two things: "%3F" is no "?".
    """
    return octets if _IS_PLAIN.fullmatch(octets) else _NOT_PLAIN.sub(_escape, octets)


def path_of(url: str) -> bytes:
    """Return path and query of an absolute url in the canonical spelling. The fragment is never sent, and left out.

    "*" and "$" are escaped: here they stand for themselves, as "%2A" and "%24" do in a rule (RFC 9309, 2.2.3).
    """
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
