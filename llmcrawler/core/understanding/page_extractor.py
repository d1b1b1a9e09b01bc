"""One way from a page to its record, which crawls, `apply` and programs share; and pages read by what crawls have
learned of their sites, without a model and without what a crawl notes from page to page: the same page gives the same
line in any order and any process. Imports neither Scrapy nor Twisted, directly or through what it imports.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from llmcrawler.core.content import PageReader, main_text, read_names
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.storage import StoredSite, TemplatesFile
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageTypes, load_page_types
from llmcrawler.core.understanding.classification.question import CLASSIFIER, NO_CUE, RULE, TEMPLATE, UNSURE, Question
from llmcrawler.core.understanding.extraction.corrections import Correction, correction_of, read_corrections
from llmcrawler.core.understanding.extraction.extractor import ExtractionRunner
from llmcrawler.core.understanding.extraction.learner import read_learners
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
            state, origin = stored.state(), origin_of(url)
            templates = TemplateGrouper.from_json(state["grouping"], origin)
            known = self._knowledge(name, templates, read_corrections(stored.corrections))
            if "verdicts" in state:
                known.classifier.restore(name, state["verdicts"], origin)
            if "records" in state:
                known.records.restore(read_learners(name, state["records"]))
        except (ValueError, KeyError) as error:
            raise damaged(self._file, name, error) from error
        self._sites[name] = known
        if len(self._sites) > _MAX_SITES:
            self._sites.popitem(last=False)
        return known

    def _knowledge(
        self, name: str, grouper: TemplateGrouper, corrections: Mapping[str, Correction] = MappingProxyType({})
    ) -> _SiteKnowledge:
        def corrected(_site: str, template: str) -> Correction | None:
            return correction_of(corrections, template, grouper.resolve)

        types, requested = self._rules.record_types, self._rules.requested
        rules = RecordRules(record_types=types, requested=requested, tries_guesses=tries_guesses(requested, types))
        classifier = Classifier(self._rules.page_types, None, correction_of=corrected)
        return _SiteKnowledge(name, grouper, classifier, Records(None, rules, self._runner, correction_of=corrected))
