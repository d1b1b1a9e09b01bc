"""The YAML head of a Markdown file. Written so that YAML 1.1 (PyYAML, Jekyll) and 1.2 read the same from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# What YAML reads as the end of a line, or does not allow at all, and JSON lets stand.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NAME_CHARS = 200  # YAML takes no names of 1,024 characters or more
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))  # of YAML 1.1, which are no text


def front_matter(facts: Mapping[str, Any]) -> str:
    """With its two lines of dashes. Of clean values."""
    return f"---\n{_block(facts, '')}---\n"


def _block(facts: Mapping[str, Any], indent: str) -> str:
    lines = []
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{_name(name)}:\n{_block(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{_name(name)}: {_flow(value)}\n")
    return "".join(lines)


def _name(name: str) -> str:
    return (
        name
        if len(name) < _NAME_CHARS and _PLAIN_NAME.fullmatch(name) and name not in _WORDS
        else _quoted(name[:_NAME_CHARS])
    )


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(name[:_NAME_CHARS])}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        # 1e+16 is text in YAML 1.1, which wants a point.
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(value)


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda char: f"\\u{ord(char[0]):04x}", json.dumps(text, ensure_ascii=False))
