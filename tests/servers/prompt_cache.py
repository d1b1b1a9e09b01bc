"""Caches the beginnings of prompts as OpenAI documents it, to see what a crawl's calls would have read and written.

What is hashed: the schema of the answer, which "serves as a prefix to the system message", then the messages in their
order. Only beginnings of 1,024 tokens or more are cached, for each organisation by itself. Models before GPT-5.6 find
the longest known one in steps of 128 tokens, and keep all of them for nothing. Later ones look only at breakpoints:
those that the request marks and, unless its mode is "explicit", the end of the last message; what is not known there
yet is written, and costs more. A token has four bytes here.
Source: developers.openai.com/api/docs/guides/prompt-caching
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

_LEAST_TOKENS, _STEP_TOKENS, _BYTES = 1_024, 128, 4


class CacheUse(NamedTuple):
    """Tokens of one prompt: in all, found in the cache, written to it."""

    prompt: int
    cached: int
    written: int


class PromptCache:
    """`read` is told of each request body, with the key that it came with."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self.uses: list[tuple[str, CacheUse]] = []  # with the task, as the schema is named after it

    def read(self, organisation: str, body: dict[str, Any]) -> CacheUse:
        text, marks = _rendered(body)
        is_marked, steps = _looks_at_marks(body["model"]), range(_LEAST_TOKENS, len(text) // _BYTES + 1, _STEP_TOKENS)
        ends = [end for end in marks if end >= _LEAST_TOKENS] if is_marked else list(steps)
        keys = {end: self._key(organisation, text[: end * _BYTES]) for end in ends}
        cached = max((end for end, key in keys.items() if key in self._known), default=0)
        written = max(0, max(ends, default=0) - cached) if is_marked else 0
        self._known.update(keys.values())
        use = CacheUse(len(text) // _BYTES, cached, written)
        form = body.get("response_format", {}).get("json_schema", {})
        self.uses.append((form.get("name", ""), use))
        return use

    @staticmethod
    def _key(organisation: str, text: bytes) -> bytes:
        return hashlib.sha256(organisation.encode() + b"\0" + text).digest()


def _rendered(body: dict[str, Any]) -> tuple[bytes, list[int]]:
    """Return what a model reads, and its breakpoints in tokens."""
    text = json.dumps(body.get("response_format", {}).get("json_schema"), separators=(",", ":")).encode()
    marks = []
    for message in body["messages"]:
        text += f"\n<{message['role']}>\n".encode()
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text += part["text"].encode()
            if part.get("prompt_cache_breakpoint") == {"mode": "explicit"}:
                marks.append(len(text) // _BYTES)
    if body.get("prompt_cache_options", {}).get("mode") != "explicit":
        marks.append(len(text) // _BYTES)
    return text, marks


def _looks_at_marks(model: str) -> bool:
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", model)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)
