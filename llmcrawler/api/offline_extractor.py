"""Gives the records of single pages by what crawls have learned of their sites: nothing is fetched, asked or changed.

This module imports neither Scrapy nor Twisted, directly or through what it imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llmcrawler.core.content import read_names
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.understanding.classification import SiteVerdicts
from llmcrawler.core.understanding.extraction import Learner, described_selectors, extract_best, read_learners
from llmcrawler.core.understanding.template_store import damaged, find_site
from llmcrawler.core.understanding.templates import TemplateGrouper, words_of
from llmcrawler.core.urls import origin_of, site_name
from llmcrawler.errors import ConfigError
from llmcrawler.items import PageContent


@dataclass(slots=True)
class _Site:
    templates: TemplateGrouper
    verdicts: SiteVerdicts
    learners: Sequence[Learner]


class OfflineExtractor:
    """Reads a file of learned templates (TEMPLATES_FILE, or templates.json in a JOBDIR).

    Raises ConfigError for a file that is none; its methods do where the file has nothing of the page's site.
    """

    def __init__(self, file: TemplatesFile) -> None:
        self._file = file
        self._stored = file.load()
        self._sites: dict[str, _Site] = {}
        self._look = lru_cache(maxsize=1)(self._look_at)  # several things are asked of one page

    def template(self, html: str, url: str) -> str | None:
        """Return the template that the page would get in a crawl; None where it is unlike all that are known."""
        return self._look(html, url)[1]

    def record(self, html: str, url: str) -> dict[str, Any] | None:
        """Return the page's record; None where its template has none, or the page has none of its fields."""
        learner = self._learner(html, url)
        return extract_best(learner.variants, html, url, self._look(html, url)[0].lang) if learner else None

    def selectors(self, html: str, url: str) -> list[dict[str, Any]]:
        """Return the selectors of the page's template, as the feed and `scrapy templates` show them."""
        learner = self._learner(html, url)
        return described_selectors(learner.extractors) if learner else []

    def page_type(self, html: str, url: str) -> str | None:
        """Return the page's type by the verdicts of earlier crawls; None where it is unlike all templates."""
        template = self._look(html, url)[1]
        return self._site(url).verdicts.page_type(url, template) if template else None

    def _learner(self, html: str, url: str) -> Learner | None:
        site, template = self._site(url), self._look(html, url)[1]
        known = [one for one in site.learners if one.key.template == template and one.variants]
        page_type = site.verdicts.page_type(url, template) if template else None
        return next(iter([*(one for one in known if one.key.page_type == page_type), *known]), None)

    def _look_at(self, html: str, url: str) -> tuple[PageContent, str | None]:
        site, content = self._site(url), read_names(html, url)
        found = site.templates.find(url, content.features, words_of(content), title=content.title)
        return content, None if found is None else found.template

    def _site(self, url: str) -> _Site:
        name = site_name(url)
        if name not in self._sites:
            stored = find_site(self._stored, name)
            if stored is None:
                there = ", ".join(sorted(self._stored)) or "no site"
                raise ConfigError(f"{self._file.path} has no templates of {name}; there are: {there}")
            try:
                state = stored.state()
                self._sites[name] = _Site(
                    TemplateGrouper.from_json(state["grouping"], origin_of(url)),
                    SiteVerdicts.from_json(state.get("verdicts", {"answers": [], "groups": {}}), origin_of(url)),
                    read_learners(name, state["records"]) if "records" in state else (),
                )
            except (ValueError, KeyError) as error:
                raise damaged(self._file, name, error) from error
        return self._sites[name]
