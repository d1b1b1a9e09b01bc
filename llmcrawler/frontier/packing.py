"""Tasks as text, for backends on another machine."""

from __future__ import annotations

import json
from typing import Any

from llmcrawler.frontier.protocol import UrlTask
from llmcrawler.items import UrlSource

_SCHEMES = ("https", "http")
_DEFAULTS: tuple[Any, ...] = ("", 0, None, None, None)


def pack(task: UrlTask) -> str:
    """Return a task as JSON, without host, group and priority, which its queue has. New fields go to the end."""
    found = None if task.found is None else [task.found.source, task.found.lastmod, task.found.title]
    fields = [_short(task.url, task.host), task.depth, _short(task.referer, task.host), task.payload, found]
    while fields[-1] in (None, 0):
        fields.pop()
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def unpack(text: str, host: str, group: str, priority: int) -> UrlTask:
    given: list[Any] = json.loads(text)
    url, depth, referer, payload, found = [*given, *_DEFAULTS[len(given) :]]
    return UrlTask(
        _long(url, host),
        host,
        depth,
        None if referer is None else _long(referer, host),
        priority,
        group,
        payload,
        None if found is None else UrlSource(*found),
    )


def _short(url: str | None, host: str) -> str | None:
    """Cut off the host: most urls of a queue are on it."""
    for scheme in _SCHEMES:
        start = f"{scheme}://{host}/"
        if url is not None and url.startswith(start):
            return f"{scheme[4:]}/{url[len(start) :]}"
    return url


def _long(url: str, host: str) -> str:
    if url.startswith("s/"):
        return f"https://{host}{url[1:]}"
    return f"http://{host}{url}" if url.startswith("/") else url
