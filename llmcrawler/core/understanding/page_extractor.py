"""Makes the lines of pages by what crawls have learned of their sites, each from the page alone.

The parts are those of a crawl, without a model and without what a crawl notes from page to page: the same page gives
the same line in any order and any process. This module imports neither Scrapy nor Twisted, directly or through what it
imports.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from llmcrawler.core.content import PageReader, main_text, read_names
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.storage import StoredSite, TemplatesFile
from llmcrawler.core.understanding.classification import (
    CLASSIFIER,
    DEFAULT_PAGE_TYPES,
    NO_CUE,
    RULE,
    TEMPLATE,
    UNSURE,
    Classifier,
    PageTypes,
    Question,
    load_page_types,
)
from llmcrawler.core.understanding.extraction import (
    ExtractionRunner,
    RecordQuestion,
    RecordRules,
    Records,
    RecordTypes,
    RequestedSchema,
    load_schema,
    read_learners,
    requested_fields,
)
from llmcrawler.core.understanding.template_store import damaged, find_site, names_by_host
from llmcrawler.core.understanding.templates import TemplateGrouper, words_of
from llmcrawler.core.urls import origin_of, site_name
from llmcrawler.errors import ConfigError, ContentError
from llmcrawler.items import Page, PageContent, PageError

_INLINE_CHARS: Final = 150_000  # as a crawl's CONTENT_INLINE_CHARS
_RECORD_INLINE_CHARS: Final = 100_000
_MAX_SITES: Final = 64  # in memory, some megabytes each


@dataclass(frozen=True, slots=True)
class LineRules:
    """What lines are to have: page types and fields of the user's, as the crawl had them that has learned."""

    page_types: PageTypes = DEFAULT_PAGE_TYPES
    requested: RequestedSchema | None = None
    record_types: RecordTypes = field(default_factory=RecordTypes)

    @classmethod
    def of(cls, fields: str = "", schema: str | PathLike[str] = "", page_types: str | PathLike[str] = "") -> Self:
        """Read the arguments of these names that `explore` has. Raises ConfigError."""
        if fields and schema:
            raise ConfigError("schema and fields are two ways to say the same: give one of them")
        requested = requested_fields(fields) if fields else load_schema(Path(schema)) if schema else None
        types = load_page_types(Path(page_types)) if page_types else DEFAULT_PAGE_TYPES
        own = requested.page_types if requested is not None else ()
        return cls(types, requested, RecordTypes(False, own) if own else RecordTypes())


class _SiteKnowledge(NamedTuple):
    name: str
    templates: TemplateGrouper
    classifier: Classifier
    records: Records


class PageExtractor:
    """Reads a file of learned templates (TEMPLATES_FILE, or templates.json in a JOBDIR), and makes lines of pages.

    A page of a site that is not in the file has its structured data. Costly pages are read in processes with limits,
    which `close` ends. Raises ConfigError for a file that is none, also later, where its state of a site is damaged.
    """

    def __init__(self, file: TemplatesFile, rules: LineRules) -> None:
        self._file = file
        self._rules = rules
        self._stored: Mapping[str, StoredSite] = file.load()
        self._by_host = names_by_host(self._stored)
        self._sites: OrderedDict[str, _SiteKnowledge] = OrderedDict()
        self._reader = PageReader(_INLINE_CHARS)
        self._processes = BoundedProcesses(("llmcrawler.core.understanding.extraction",))
        self._runner = ExtractionRunner(_RECORD_INLINE_CHARS, self._processes.run, self._reader.is_cheap)
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
        if page.page_type in self._rules.record_types or self._is_guess(page):
            await self._take_record(page, html, content, site)
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

    async def _take_record(self, page: Page, html: str, content: PageContent, site: _SiteKnowledge) -> None:
        assert page.page_type is not None
        question = RecordQuestion(
            url=page.url,
            title=content.title,
            lang=content.lang,
            html=html,
            features=content.features,
            site=site.name,
            template=page.template or "",
            page_type=page.page_type,
            is_sure=page.decided_by != TEMPLATE,
            is_guess=self._is_guess(page),
        )
        answer = await site.records.record_of(question)
        if answer.home is not None:
            page.template, page.page_type = answer.home.template, answer.home.page_type
        page.record, page.record_by, page.error = answer.record, answer.by, answer.error

    def _is_guess(self, page: Page) -> bool:
        requested = self._rules.requested
        return requested is not None and not requested.page_types and is_unsure(page)

    def _site_of(self, url: str) -> _SiteKnowledge:
        name = site_name(url)
        if name in self._sites:
            self._sites.move_to_end(name)
            return self._sites[name]
        stored = find_site(self._stored, name, self._by_host)
        if stored is None:
            return self._unknown
        try:
            known = self._restored(name, stored.state(), origin_of(url))
        except (ValueError, KeyError) as error:
            raise damaged(self._file, name, error) from error
        self._sites[name] = known
        if len(self._sites) > _MAX_SITES:
            self._sites.popitem(last=False)
        return known

    def _restored(self, name: str, state: Mapping[str, Any], origin: str) -> _SiteKnowledge:
        known = self._knowledge(name, TemplateGrouper.from_json(state["grouping"], origin))
        if "verdicts" in state:
            known.classifier.restore(name, state["verdicts"], origin)
        if "records" in state:
            known.records.restore(read_learners(name, state["records"]))
        return known

    def _knowledge(self, name: str, grouper: TemplateGrouper) -> _SiteKnowledge:
        rules = RecordRules(record_types=self._rules.record_types, requested=self._rules.requested)
        records = Records(None, rules, self._runner)
        return _SiteKnowledge(name, grouper, Classifier(self._rules.page_types, None), records)


def is_unsure(page: Page) -> bool:
    """Tell whether a page's type is a guess that fields which somebody has asked for may correct."""
    return page.decided_by in (CLASSIFIER, RULE) and NO_CUE < (page.confidence or 0.0) < UNSURE
