"""Finds the duplicates of a crawl, over its runs: what was seen of each site is kept with what was learned of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmcrawler.core.understanding.templates import DuplicateIndex, PageSketch
from llmcrawler.core.urls import site_name
from llmcrawler.crawl.argument_types import KEEP
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.items import Page

DUPLICATES: Final = "duplicates"  # the name of this part in the file of learned templates


class DuplicateFinder:
    """A part of what is learned of a site (TemplateStore). `since` names the crawl whose pages are compared:
    one that fetches its pages anew has to find their duplicates anew, as a first page may be gone by then. None names
    a crawl that nobody goes on with.
    """

    def __init__(self, since: float | None = None) -> None:
        self._since = since
        self._sites: dict[str, DuplicateIndex] = {}
        self._earlier: dict[str, DuplicateIndex] = {}  # of the crawl before

    def judge(self, page: Page) -> None:
        """Say of a page that has a sketch which one it repeats, in `duplicate_of`, or remember it as a first one."""
        if page.sketch is None or page.content is None:
            return
        page.duplicate_of = self._of(page).first_of(
            page.url,
            PageSketch(*page.sketch),
            address=page.final_url or page.url,
            canonical=page.content.metadata.get("canonical"),
        )

    def restore_page(self, page: Page) -> None:
        """Remember what an earlier run of the same crawl has said of a page."""
        if page.sketch is not None:
            address = page.final_url or page.url
            self._of(page).restore(page.url, PageSketch(*page.sketch), address=address, first=page.duplicate_of)

    def keep_unchanged(self, page: Page) -> None:
        """Remember a page that is what it was in the crawl before, and was not read again."""
        earlier, address = self._earlier.get(site_name(page.url)), page.final_url or page.url
        sketch = None if earlier is None else earlier.sketch_of(page.url, address)
        if sketch is not None:
            self._of(page).restore(page.url, sketch, address=address, first=None)

    def to_json(self, site: str) -> dict[str, Any]:
        index = self._sites.get(site)
        pages = "" if index is None or self._since is None else index.to_json()
        return {"since": self._since, "pages": pages}

    def restore(self, site: str, value: Any, origin: str) -> None:  # noqa: ARG002 - as other parts
        index = DuplicateIndex.from_json(value["pages"])
        (self._sites if value["since"] == self._since else self._earlier)[site] = index

    def describe(self, site: str, template: str) -> Mapping[str, Any]:  # noqa: ARG002 - as other parts
        return {}

    def _of(self, page: Page) -> DuplicateIndex:
        return self._sites.setdefault(site_name(page.url), DuplicateIndex())


def duplicate_finder(options: ExploreOptions, backend: CrawlBackend) -> DuplicateFinder | None:
    """Return what finds the duplicates of a crawl; None where all pages are kept."""
    if options.duplicates == KEEP:
        return None
    if backend.job is not None:
        return DuplicateFinder(backend.job.fetched_since)
    return DuplicateFinder(None if backend.session is None else 0.0)
