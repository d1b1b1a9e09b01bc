"""One way from a page to its record, which crawls, `apply` and programs share; and pages read by what crawls have
learned of their sites, without a model and without what a crawl notes from page to page: the same page gives the same
line in any order and any process. Imports neither Scrapy nor Twisted, directly or through what it imports.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from llmcrawler.core.content import PageReader, main_text, read_names
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.storage import StoredSite, TemplatesFile
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageTypes, load_page_types
from llmcrawler.core.understanding.classification.question import CLASSIFIER, NO_CUE, RULE, TEMPLATE, UNSURE, Question
from llmcrawler.core.understanding.classification.template_samples import SiteVerdicts
from llmcrawler.core.understanding.extraction.corrections import Correction, correction_of, read_corrections
from llmcrawler.core.understanding.extraction.extractor import ExtractionRunner
from llmcrawler.core.understanding.extraction.learner import (
    Learner,
    Variant,
    described_selectors,
    extract_best,
    read_learners,
)
from llmcrawler.core.understanding.extraction.record_schema import (
    RecordTypes,
    RequestedSchema,
    load_schema,
    requested_fields,
    tries_guesses,
)
from llmcrawler.core.understanding.extraction.records import RecordAnswer, RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.template_store import damaged, find_site, names_by_host
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.core.understanding.templates.page_sample import words_of
from llmcrawler.core.urls import origin_of, site_name
from llmcrawler.errors import ConfigError, ContentError
from llmcrawler.items import Page, PageContent, PageError

_MAX_SITES: Final = 64  # in memory, some megabytes each


@dataclass(frozen=True, slots=True)
class LineRules:
    """Page types and fields of the lines: those of the crawl that learned the templates."""

    page_types: PageTypes = DEFAULT_PAGE_TYPES
    requested: RequestedSchema | None = None
    record_types: RecordTypes = field(default_factory=RecordTypes)

    @classmethod
    def of(cls, fields: str = "", schema: str | PathLike[str] = "", page_types: str | PathLike[str] = "") -> Self:
        """Read the arguments of these names that `explore` has. Raises ConfigError."""
        if fields and schema:
            raise ConfigError("schema and fields both define the record: give one of them")
        requested = requested_fields(fields) if fields else load_schema(Path(schema)) if schema else None
        types = load_page_types(Path(page_types)) if page_types else DEFAULT_PAGE_TYPES
        own = requested.page_types if requested is not None else ()
        return cls(types, requested, RecordTypes(False, own) if own else RecordTypes())


def is_unsure(page: Page) -> bool:
    """Tell whether a page's type is a guess that fields which somebody has asked for may correct."""
    return page.decided_by in (CLASSIFIER, RULE) and NO_CUE < (page.confidence or 0.0) < UNSURE


async def ask_for_record(page: Page, content: PageContent, html: str, site: str, records: Records) -> RecordAnswer:
    """Ask for the record of a page that has its type and template. A page that fits another template of its site gets
    that one, and its type."""
    assert page.page_type is not None
    question = RecordQuestion(
        url=page.final_url or page.url,
        title=page.title or "",
        lang=page.lang or "",
        html=html,
        features=content.features,
        site=site,
        template=page.template or "",
        page_type=page.page_type,
        id=page.id,
        is_sure=page.decided_by != TEMPLATE,
        is_guess=records.rules.tries_guesses and is_unsure(page),
    )
    answer = await records.record_of(question)
    if answer.home is not None:
        page.template, page.page_type = answer.home.template, answer.home.page_type
    return answer


class _OpenedSite(NamedTuple):
    name: str
    origin: str
    templates: TemplateGrouper
    learners: list[Learner]
    verdicts: Mapping[str, Any] | None
    corrections: Mapping[str, Correction]

    @classmethod
    def open(cls, stored: StoredSite, name: str, origin: str) -> Self:
        """Raises ValueError or KeyError where what is stored is damaged."""
        state = stored.state()
        templates = TemplateGrouper.from_json(state["grouping"], origin)
        learners = read_learners(name, state["records"]) if "records" in state else []
        return cls(name, origin, templates, learners, state.get("verdicts"), read_corrections(stored.corrections))

    def correction_of(self, template: str) -> Correction | None:
        return correction_of(self.corrections, template, self.templates.resolve)


class _SiteKnowledge(NamedTuple):
    name: str
    templates: TemplateGrouper
    classifier: Classifier
    records: Records


class PageExtractor:
    """Reads a file of learned templates (TEMPLATES_FILE, or templates.json in a JOBDIR), and makes lines of pages.

    A page of a site that is not in the file has its structured data. Costly pages are read in processes with limits,
    which `close` ends. Raises ConfigError for a file that is none, also later, where its state of a site is damaged."""

    def __init__(self, file: TemplatesFile, rules: LineRules) -> None:
        self._file = file
        self._rules = rules
        self._stored: Mapping[str, StoredSite] = file.load()
        self._by_host = names_by_host(self._stored)
        self._sites: OrderedDict[str, _SiteKnowledge] = OrderedDict()
        self._reader = PageReader()
        self._processes = BoundedProcesses(("llmcrawler.core.understanding.extraction.extractor",))
        self._runner = ExtractionRunner(apart=self._processes.run, is_cheap=self._reader.is_cheap)
        self._unknown = self._knowledge("", TemplateGrouper())

    async def page_of(self, html: str, url: str) -> Page:
        """Return the page with title, lang, page type, template and record, or the error for which it has none."""
        page = Page(url)
        try:
            site = self._site_of(url)
            content = await self._reader.apply(read_names, html, url, url=url)
            page.title, page.lang = content.title or None, content.lang or None
            await self._classify(page, html, content, site)
        except ContentError as error:
            page.error = PageError("content", error.kind, str(error))
            return page
        answer = await ask_for_record(page, content, html, site.name, site.records)
        page.record, page.record_by, page.error = answer.record, answer.by, answer.error
        return page

    def close(self) -> None:
        self._reader.close()
        self._processes.close()

    async def _classify(self, page: Page, html: str, content: PageContent, site: _SiteKnowledge) -> None:
        words = words_of(content)
        found = site.templates.find(page.url, content.features, words, title=content.title)
        question = Question(
            url=page.url,
            title=content.title,
            text="",
            content=content,
            site=site.name,
            template="" if found is None else found.template,
            member=1,
            settled=found is not None and found.settled,
            rivals=() if found is None else found.rivals,
            is_known=found is not None and found.is_known,
            words=words,
        )
        verdict = site.classifier.known_verdict(question)
        if verdict is None:  # the whole page is to be looked at, which most of them are spared
            whole = await self._reader.read(html, page.url)
            verdict = site.classifier.looks(replace(question, content=whole, text=main_text(whole.blocks)))
        page.template = None if found is None else found.template
        page.page_type, page.decided_by = verdict.page_type, verdict.decided_by
        page.confidence = round(verdict.confidence, 3)

    def _site_of(self, url: str) -> _SiteKnowledge:
        name = site_name(url)
        if name in self._sites:
            self._sites.move_to_end(name)
            return self._sites[name]
        stored = find_site(self._stored, name, self._by_host)
        if stored is None:
            return self._unknown
        try:
            site = _OpenedSite.open(stored, name, origin_of(url))
            known = self._knowledge(name, site.templates, site)
            if site.verdicts is not None:
                known.classifier.restore(name, site.verdicts, site.origin)
            known.records.restore(site.learners)
        except (ValueError, KeyError) as error:
            raise damaged(self._file, name, error) from error
        self._sites[name] = known
        if len(self._sites) > _MAX_SITES:
            self._sites.popitem(last=False)
        return known

    def _knowledge(self, name: str, grouper: TemplateGrouper, site: _OpenedSite | None = None) -> _SiteKnowledge:
        def corrected(_site: str, template: str) -> Correction | None:
            return None if site is None else site.correction_of(template)

        types, requested = self._rules.record_types, self._rules.requested
        rules = RecordRules(record_types=types, requested=requested, tries_guesses=tries_guesses(requested, types))
        classifier = Classifier(self._rules.page_types, None, correction_of=corrected)
        return _SiteKnowledge(name, grouper, classifier, Records(None, rules, self._runner, correction_of=corrected))


class OfflineExtractor:
    """Reads a file of learned templates (TEMPLATES_FILE, or templates.json in a JOBDIR), for single pages of its sites.

    Raises ConfigError for a file that is none; its methods do where the file has nothing of the page's site."""

    def __init__(self, file: TemplatesFile) -> None:
        self._file = file
        self._stored = file.load()
        self._site = lru_cache(_MAX_SITES)(self._opened)
        self._look = lru_cache(maxsize=1)(self._look_at)  # several things are asked of one page

    def template(self, html: str, url: str) -> str | None:
        """Return the template that the page would get in a crawl; None where it is unlike all that are known."""
        return self._look(html, url)[1]

    def record(self, html: str, url: str) -> dict[str, Any] | None:
        """Return the page's record; None where its template has none, or the page has none of its fields."""
        variants = self._variants(html, url)
        return extract_best(variants, html, url, self._look(html, url)[0].lang) if variants else None

    def selectors(self, html: str, url: str) -> list[dict[str, Any]]:
        """Return the selectors of the page's template, as the feed and `scrapy templates` show them."""
        return described_selectors([one.extractor for one in self._variants(html, url)])

    def page_type(self, html: str, url: str) -> str | None:
        """Return the page's type by the verdicts of earlier crawls; None where it is unlike all templates."""
        template = self._look(html, url)[1]
        if template is None:
            return None
        site, verdicts = self._site(site_name(url), origin_of(url))
        corrected = site.correction_of(template)
        return (corrected and corrected.page_type) or verdicts.page_type(url, template)

    def _variants(self, html: str, url: str) -> list[Variant]:
        template, page_type = self._look(html, url)[1], self.page_type(html, url)
        if template is None:
            return []
        site = self._site(site_name(url), origin_of(url))[0]
        known = [one for one in site.learners if one.key.template == template and one.variants]
        best = max(known, key=lambda one: one.key.page_type == page_type, default=None)
        corrected = site.correction_of(template)
        variants = [] if best is None else best.variants
        return variants if corrected is None else corrected.variants(variants)

    def _look_at(self, html: str, url: str) -> tuple[PageContent, str | None]:
        site, content = self._site(site_name(url), origin_of(url))[0], read_names(html, url)
        found = site.templates.find(url, content.features, words_of(content), title=content.title)
        return content, None if found is None else found.template

    def _opened(self, name: str, origin: str) -> tuple[_OpenedSite, SiteVerdicts]:
        stored = find_site(self._stored, name)
        if stored is None:
            there = ", ".join(sorted(self._stored)) or "no site"
            raise ConfigError(f"{self._file.path} has no templates of {name}; there are: {there}")
        try:
            site = _OpenedSite.open(stored, name, origin)
            return site, SiteVerdicts.from_json(site.verdicts or {"answers": [], "groups": {}}, origin)
        except (ValueError, KeyError) as error:
            raise damaged(self._file, name, error) from error
