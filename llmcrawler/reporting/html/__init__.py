"""Shows a crawl as one page of HTML that needs nothing else: no network, no other file."""

from __future__ import annotations

from pathlib import Path

from llmcrawler.reporting.html.render import render
from llmcrawler.reporting.html.sources import open_source
from llmcrawler.reporting.html.view import build


def make_report(path: Path, max_listed: int, version: str, now: float) -> tuple[bytes, str]:
    """Return the page, and how many pages or urls it is about, in words. Raises ConfigError where `path` is neither a
    job nor a feed.
    """
    with open_source(path, now) as source:
        view = build(source, max_listed)
    digest = view["digest"]
    return render(view, version, now), f"{digest.pages:,} {digest.noun}"
