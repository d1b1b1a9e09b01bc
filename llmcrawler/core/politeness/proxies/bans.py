"""Tells answers that ban a proxy (a status, a captcha) from pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from selectolax.lexbor import LexborHTMLParser

# A page that asks for a proof of being human says little else. With more words it is an article about such pages, or
# a form that has a captcha beside its fields.
_MAX_CHARS = 100_000
_MAX_WORDS = 120
_MAX_BARE_CHARS = 5_000
_MAX_BARE_WORDS = 50
# Texts in the source of the great bot walls' pages, and of no page behind them.
_VENDOR_MARKS = (
    "cf-challenge-running",
    "cf_chl_opt",
    "captcha-delivery.com/captcha",
    "px-captcha",
    "_incapsula_resource",
    "awswafintegration.",
    "/_sec/cp_challenge/",
    "errors.edgesuite.net",
)
_HEADING = re.compile(r"<(?:title|h1|h2)\b[^>]{0,300}>(.{0,300}?)</", re.DOTALL | re.IGNORECASE)
_ASKS = re.compile(
    r"captcha|are you (a )?(human|robot|bot)\b|not a robot|you are (a )?human|verify (that )?you|human verification"
    r"|security check|unusual traffic|just a moment|access (to this page has been )?denied|pardon our interruption"
    r"|attention required|request blocked|you have been blocked|bot (detection|check)",
    re.IGNORECASE,
)
_REDIRECT_MARKS = ("captcha", "/sorry/", "are-you-human", "areyouhuman")


@dataclass(frozen=True, slots=True)
class BanRules:
    """Rules for answers that are bans. `marks` are texts of the user's that stand in ban pages only; letter case does
    not count.
    """

    statuses: frozenset[int] = frozenset({403, 407})
    marks: tuple[str, ...] = ()

    def of_status(self, status: int, location: str = "") -> str | None:
        """Return the reason to call an answer a ban by its status and, of a redirect, its target."""
        if status in self.statuses:
            return f"status {status}"
        target = location.casefold()
        marks = (*_REDIRECT_MARKS, *map(str.casefold, self.marks))
        return "a redirect to a captcha" if 300 <= status < 400 and any(mark in target for mark in marks) else None

    def of_text(self, text: str) -> str | None:
        """Return the reason to call a page a ban by its source."""
        if not self.marks and len(text) > _MAX_CHARS:
            return None
        folded = text.casefold()
        for mark in self.marks:
            if mark.casefold() in folded:
                return f"the page says {mark!r}"
        return "a captcha page" if len(text) <= _MAX_CHARS and _is_captcha(text, folded) else None


def _is_captcha(text: str, folded: str) -> bool:
    marked = any(mark in folded for mark in _VENDOR_MARKS)
    if marked or any(_ASKS.search(found[1]) for found in islice(_HEADING.finditer(text), 4)):
        return len(_visible_text(LexborHTMLParser(text)).split()) <= _MAX_WORDS
    if len(text) > _MAX_BARE_CHARS or _ASKS.search(text) is None:
        return False  # so do most pages end
    # Without such a heading it takes more: next to no words, the question among them, and nowhere to go.
    tree = LexborHTMLParser(text)
    links = len(tree.css("a[href]"))
    shown = _visible_text(tree)
    return links <= 1 and len(shown.split()) <= _MAX_BARE_WORDS and _ASKS.search(shown) is not None


def _visible_text(tree: LexborHTMLParser) -> str:
    tree.strip_tags(["script", "style", "noscript", "template"])
    return tree.body.text(separator=" ") if tree.body is not None else ""
