"""Starts sites from what other sites of their platform have taught, and teaches what a site has learned."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from tldextract import TLDExtract

from llmcrawler.core.storage import KnowledgeFile
from llmcrawler.core.understanding.classification import PageTypes, Question
from llmcrawler.core.understanding.classification.shared_verdicts import (
    MAX_TEMPLATES,
    PageMarks,
    SharedTemplate,
    recognise,
    template_of,
)
from llmcrawler.core.understanding.classification.shared_verdicts import taught as with_template
from llmcrawler.core.understanding.extraction import ExtractionRunner, Field, LearnerKey, RequestedSchema, Variant
from llmcrawler.core.understanding.extraction.lessons import Lesson, lesson_of, with_lesson
from llmcrawler.core.understanding.extraction.shared_records import adopted
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.templates import PageSample, url_tokens
from llmcrawler.core.urls import relative_url
from llmcrawler.errors import StorageFailed, TooCostly

logger = logging.getLogger(__name__)

T = TypeVar("T")

_VERDICTS: Final = "verdicts"
_FRESH_SECONDS: Final = 2.0  # what was read from the file is looked at again after so long
_MAX_KEPT: Final = 256  # parts in memory
# The list that comes with the package; that of shops and blogs which platforms host is in its private part.
_suffixes: Final = TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)


@dataclass(frozen=True, slots=True)
class LearnedTemplate:
    """What the model said of the pages of one template of a site, and what these look like."""

    page_type: str
    looks: frozenset[str]
    pages: Sequence[PageMarks]


@dataclass(eq=False)
class PlatformKnowledge:
    """`task` names what crawls must have in common to learn from each other; `platform_of` a site gives "" where it is
    not known. Each site whose number among its platform's is a power of two (1, 2, 4, 8, ...) learns by itself, and so
    checks what the others take over. Nothing raises for the file's sake: a site then learns by itself.
    """

    file: KnowledgeFile
    task: str
    platform_of: Callable[[str], str]
    place: ExtractionRunner
    count: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict, init=False)
    _parts: dict[tuple[str, str], tuple[float, list[Any]]] = field(default_factory=dict, init=False)

    async def verdict(self, question: Question) -> SharedTemplate | None:
        """Return the template of other sites that made a page; None where none fits."""
        platform = await self._platform_to_use(question.site)
        if not platform:
            return None
        known = await self._known(platform, _VERDICTS, SharedTemplate.from_json)
        return recognise(known, marks_of(question.url, question.content.features, question.words))

    async def fields(self, key: LearnerKey) -> tuple[Field, ...]:
        """Return the fields that other sites have found on such pages, so that all name them alike. What a model has
        said of them stays where it was said: it may repeat what a page wanted to have said.
        """
        platform = self.platform_of(key.site)
        if not platform:
            return ()
        fields = (field for lesson in await self._lessons(platform, key.page_type) for field in lesson.extractor.fields)
        return tuple({one.key: replace(one, description="") for one in fields}.values())

    async def adopt(self, key: LearnerKey, pages: Sequence[TrainingPage]) -> Variant | None:
        """Return what other sites have taught, where it holds on these pages of a site."""
        platform = await self._platform_to_use(key.site)
        lessons = await self._lessons(platform, key.page_type) if platform else []
        if not lessons:
            return None
        try:
            doubt, variant = await self.place.train(adopted, lessons, pages, site=key.site)
        except TooCostly as error:
            doubt, variant = str(error), None
        self.count("refused" if variant is None else "adopted")
        what = f"fit what sites of {platform} taught" if variant is not None else f"are not as {platform} has them"
        logger.info("Template %s of %s: its pages %s%s", key.template, key.site, what, doubt and f": {doubt}")
        return variant

    async def teach(
        self,
        key: LearnerKey,
        variant: Variant,
        pages: Sequence[TrainingPage],
        *,
        shown: Collection[str],
        missing: Collection[str],
    ) -> None:
        """Let other sites know what a template's pages have taught with the model."""
        platform, part = self.platform_of(key.site), _part_of(key.page_type)
        if not platform:
            return
        teacher = await asyncio.to_thread(owner_of, key.site)  # it reads a long list the first time
        try:
            learn = partial(lesson_of, shown=frozenset(shown), missing=frozenset(missing))
            learned = await self.place.train(learn, variant, pages, teacher, site=key.site)
        except TooCostly:
            return
        await self._change(platform, part, Lesson.from_json, lambda now: with_lesson(now, learned))

    async def teach_verdicts(self, site: str, learned: Sequence[LearnedTemplate]) -> None:
        """Let other sites know what the model has said of a site's templates."""
        platform = self.platform_of(site)
        teacher = await asyncio.to_thread(owner_of, site)
        templates = [template_of(one.page_type, one.pages, teacher, one.looks) for one in learned]
        told = [one for one in templates if one is not None]
        if not platform or not told:
            return
        await self._platform_to_use(site)  # it has a number, also where nothing was looked up

        def change(now: list[SharedTemplate]) -> list[SharedTemplate]:
            for one in told:
                now = with_template(now, one)
            return sorted(now, key=lambda one: one.against - one.sites)[:MAX_TEMPLATES]

        await self._change(platform, _VERDICTS, SharedTemplate.from_json, change)

    def close(self) -> None:
        self.file.close()

    async def _platform_to_use(self, site: str) -> str:
        """Return the platform whose knowledge the site is to use; "" for one that learns by itself."""
        platform = self.platform_of(site)
        if not platform:
            return ""
        key = (platform, site)
        if key not in self._numbers:
            try:
                self._numbers[key] = await self.file.number_of(platform, self.task, site)
            except StorageFailed as error:
                logger.warning("%s: it learns by itself; %s", site, error)
                self._numbers[key] = 1
        number = self._numbers[key]
        return platform if number & (number - 1) else ""

    async def _lessons(self, platform: str, page_type: str) -> list[Lesson]:
        return await self._known(platform, _part_of(page_type), Lesson.from_json)

    async def _known(self, platform: str, part: str, read: Callable[[dict[str, Any]], T]) -> list[T]:
        kept = self._parts.get((platform, part))
        if kept is not None and self.clock() - kept[0] < _FRESH_SECONDS:
            return kept[1]
        try:
            found = _read(await self.file.read(platform, self.task, part), read)
        except StorageFailed as error:
            logger.warning("Nothing is known of %s: %s", platform, error)
            found = []
        if len(self._parts) >= _MAX_KEPT:
            self._parts.clear()
        self._parts[platform, part] = (self.clock(), found)
        return found

    async def _change(
        self, platform: str, part: str, read: Callable[[dict[str, Any]], Any], change: Callable[[list[Any]], list[Any]]
    ) -> None:
        try:
            await self.file.change(
                platform, self.task, part, lambda now: [one.to_json() for one in change(_read(now, read))]
            )
        except StorageFailed as error:
            logger.warning("What was learned is not shared: %s", error)
        self._parts.pop((platform, part), None)


def task_of(page_types: PageTypes, requested: RequestedSchema | None) -> str:
    """Return the name of what a crawl asks of its pages: what was taught for other types or fields is no answer."""
    types = [[one.name, one.description] for one in page_types]
    wanted = None if requested is None else [dict(requested.schema), list(requested.page_types)]
    text = json.dumps([types, wanted], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def owner_of(site: str) -> str:
    """Return whose site it is: those below one registered domain say the same, and count once."""
    parts = _suffixes(site)
    return f"{parts.domain}.{parts.suffix}" if parts.suffix else site


def marks_of(url: str, features: frozenset[str], words: frozenset[str]) -> PageMarks:
    return PageMarks(features, url_tokens(url), words)


def learned_templates(
    samples: Sequence[PageSample], said: Mapping[str, tuple[str, str | None]]
) -> list[LearnedTemplate]:
    """Return what the model has taught about the pages of one group of a site: `said` has, by url, the page type that
    it gave and the one that the page surely looks like. Where it said but one thing, that holds for the others of the
    group too, but the front page speaks for itself alone.
    """
    labels = {label for url, (label, _) in said.items() if not _is_front(url)}
    members: dict[tuple[str, bool], list[PageMarks]] = {}
    for one in samples:
        label = said[one.url][0] if one.url in said else min(labels) if len(labels) == 1 else None
        if label is not None and (one.url in said or not _is_front(one.url)):
            marks = marks_of(one.url, one.features, one.words)
            members.setdefault((label, _is_front(one.url)), []).append(marks)
    looks = frozenset(seen for label, seen in said.values() if seen is not None and seen != label)
    return [LearnedTemplate(label, looks, marks) for (label, _), marks in members.items()]


def _is_front(url: str) -> bool:
    return relative_url(url) in ("", "/")


def _part_of(page_type: str) -> str:
    return f"records of {page_type}"


def _read(value: Sequence[dict[str, Any]], read: Callable[[dict[str, Any]], T]) -> list[T]:
    """Read the entries that can be read; a file of another version, or a damaged one, has others."""
    found = []
    for one in value:
        try:
            found.append(read(one))
        except ValueError as error:
            logger.debug("An entry of the knowledge file is left out: %s", error)
    return found


class KnowledgeSaver:
    """Teaches what the model has said of sites some seconds after it was said, and at the end; without `knowledge`
    nobody is taught.
    """

    def __init__(
        self,
        knowledge: PlatformKnowledge | None,
        learned_of: Callable[[str], Sequence[LearnedTemplate]] = lambda _site: (),
        seconds: float = 5.0,
    ) -> None:
        self._knowledge = knowledge
        self._learned_of = learned_of
        self._seconds = seconds
        self._sites: set[str] = set()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def note(self, site: str) -> None:
        """Note that the model has said something of a site's pages."""
        if self._knowledge is None:
            return
        self._sites.add(site)
        if self._task is None and not self._closing.is_set():
            self._task = asyncio.ensure_future(self._save_from_time_to_time(self._knowledge))

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            await self._task
        if self._knowledge is not None:
            await self._save(self._knowledge)
            await asyncio.to_thread(self._knowledge.close)

    async def _save_from_time_to_time(self, knowledge: PlatformKnowledge) -> None:
        while not self._closing.is_set():
            try:
                await asyncio.wait_for(self._closing.wait(), self._seconds)
            except TimeoutError:
                await self._save(knowledge)

    async def _save(self, knowledge: PlatformKnowledge) -> None:
        sites, self._sites = self._sites, set()
        for site in sorted(sites):
            await knowledge.teach_verdicts(site, self._learned_of(site))
