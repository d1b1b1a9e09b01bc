"""Reads what a host says of rights in its files: robots.txt, tdmrep.json, ai.txt, llms.txt. Never raises: what cannot
be read says nothing, as does a web page in the place of a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.politeness.rights.combined_signals import (
    AI_TXT,
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    LLMS_TXT,
    TDMREP,
    Signal,
)
from llmcrawler.core.politeness.rights.scoped import ScopedSignals
from llmcrawler.core.politeness.rights.uses import NO, YES, uses_of_list, uses_of_reservation, uses_of_statement
from llmcrawler.core.politeness.robots import parse_robots

ROBOTS_PATH, TDMREP_PATH = "/robots.txt", "/.well-known/tdmrep.json"
AI_TXT_PATH, LLMS_TXT_PATH = "/ai.txt", "/llms.txt"

_EVERYWHERE: Final = "/"
_TDMREP_NAMES: Final = ("location", "tdm-reservation", "tdm-policy")
_MAX_SHOWN: Final = 500
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


def licence_of(statements: Iterable[tuple[str, str]]) -> str:
    """Return the address that a robots.txt gives of its RSL licence, as it is written; "" without one."""
    return next((text for name, text in statements if name == "license" and text), "")


def tdmrep_signals(body: bytes, where: str) -> ScopedSignals:
    return ScopedSignals(_tdmrep_rules(body, where))


def _tdmrep_rules(body: bytes, where: str) -> Iterator[tuple[str, Signal]]:
    try:
        found = loads(body)
    except ValueError:
        return
    for rule in found if isinstance(found, list) else [found]:
        if not isinstance(rule, dict):
            continue
        location, policy = rule.get("location"), rule.get("tdm-policy")
        uses = uses_of_reservation(str(rule.get("tdm-reservation")), policy if isinstance(policy, str) else "")
        if isinstance(location, str) and uses:
            shown = {name: rule[name] for name in _TDMREP_NAMES if isinstance(rule.get(name), str | int)}
            yield location, Signal(TDMREP, where, uses, json.dumps(shown, ensure_ascii=False)[:_MAX_SHOWN])


def ai_txt_signals(body: bytes, where: str, token: str) -> ScopedSignals:
    """Read Spawning's ai.txt, which has the form of robots.txt and is about training alone. A file of another form says
    only that it is there.
    """

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
    return ScopedSignals(rules or _presence(AI_TXT, body, where))


def llms_txt_signals(body: bytes, where: str) -> ScopedSignals:
    """Note that there is an llms.txt: it offers pages to models, and states no rights."""
    return ScopedSignals(_presence(LLMS_TXT, body, where))


def _presence(name: str, body: bytes, where: str) -> Sequence[tuple[str, Signal]]:
    text = body[: 4 * _MAX_SHOWN].decode("utf-8-sig", "replace").strip()
    if not text or text.startswith("<") or "\0" in text:
        return ()
    return ((_EVERYWHERE, Signal(name, where, {}, text[:_MAX_SHOWN])),)
