"""Shows a crawl as one page of HTML that needs nothing else: no network, no other file."""

from __future__ import annotations

from pathlib import Path

from llmcrawler.core.reporting.html.render import render
from llmcrawler.core.reporting.html.sources import open_source
from llmcrawler.core.reporting.html.view import build


def make_report(path: Path, max_listed: int, version: str, now: float) -> tuple[bytes, str]:
    """Return the page and, in words, what it covers. Raises ConfigError where `path` is neither a job nor a feed."""
    with open_source(path, now) as source:
        view = build(source, max_listed)
    return render(view, version, now), view["digest"].in_words
