"""Finds the rule of a robots.txt that decides about a path, in bounded time for any rules and any path. Both are
spelled in one way first, so that they can be compared octet by octet (RFC 9309, 2.2.2).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

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
    """A rule with a "*" in it: pieces that have to follow each other in a path, with anything between them.

    The first piece begins the path; `is_whole`: the last one ends it. `rank` orders rules, see PathRules. A path
    without `needle`, the longest of the others, needs no closer look. It is a str, which Python finds six times faster.
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
    """Decides by the longest rule that matches, by Allow where two are equally long. What no rule matches is allowed.

    A rule's rank is twice its length in octets, plus one when it allows: the greatest rank decides. Rules without a
    wildcard are looked up, one look for each length that occurs.
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
        rank = max(self._paths.get(path, 0), self._rank_of_prefix(path), _ALLOW)
        length, steps = len(path), 0
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

    def _rank_of_prefix(self, path: bytes) -> int:
        """Return 0 where no rule without a wildcard matches."""
        fitting = self._lengths[: bisect_right(self._lengths, len(path))]
        return max((self._prefixes.get(path[:size], 0) for size in fitting), default=0)
