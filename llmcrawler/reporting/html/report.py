"""The whole way from a job or a feed to a page."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from llmcrawler.errors import ConfigError
from llmcrawler.reporting.html.from_feed import feed_material
from llmcrawler.reporting.html.from_job import job_material
from llmcrawler.reporting.html.material import Material
from llmcrawler.reporting.html.render import render
from llmcrawler.reporting.html.view import build


def make_report(source: Path, max_listed: int, version: str, now: float) -> tuple[bytes, str]:
    """The page, and how many pages or urls it is about, in words. Raises ConfigError where `source` is neither a job
    nor a feed.
    """
    with _material(source, now) as material:
        view = build(material, max_listed)
    digest = view["digest"]
    return render(view, version, now), f"{digest.pages:,} {digest.noun}"


def _material(source: Path, now: float) -> AbstractContextManager[Material]:
    if source.is_dir():
        return job_material(source, now)
    if not source.exists():
        raise ConfigError(f"{source}: there is no such folder or file")
    return feed_material(source)
