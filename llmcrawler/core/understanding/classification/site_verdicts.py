"""Keeps the samples of one site by template, and the pages that wait for them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

from llmcrawler.core.understanding.classification.classify_prompt import Answer
from llmcrawler.core.understanding.classification.guess_votes import (
    MIN_RIGHT_OF_SITE,
    NO_HINT,
    PageHint,
    is_reliable,
    record_of,
)
from llmcrawler.core.understanding.classification.template_samples import TemplateSamples
from llmcrawler.core.urls import relative_url
from llmcrawler.errors import LLMError


class TemplateGroup:
    """A template with its samples, and the pages that wait for them."""

    def __init__(self, template: str, samples: TemplateSamples) -> None:
        self.template = template
        self.samples = samples
        self.last_error: LLMError | None = None
        self._sleepers: list[asyncio.Future[None]] = []

    async def wait(self, url: str) -> None:
        """Wait, as one of its pages, until something has changed in this group."""
        samples = self.samples
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        samples.waiting[url] = None
        try:
            await sleeper
        except asyncio.CancelledError:
            samples.leave(url)
            self.wake()  # it may have been chosen as a sample
            raise

    def wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)


class SiteVerdicts:
    """Keeps each sample by its url, so that it follows its page from group to group.

    `enter` and `leave` enclose a page's stay; a page that became a sample is remembered, all others are forgotten.
    `to_json` and `from_json` carry the samples into the next crawl.
    """

    def __init__(self) -> None:
        self._groups: dict[str, TemplateGroup] = {}
        self._aliases: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._answers: dict[str, Answer] = {}
        # Answers for pages that fitted their group badly and disagreed with it: they say nothing about the group.
        self._loose: set[str] = set()
        self._earlier: dict[str, Answer] = {}  # those of earlier crawls, by path and query
        self._hints: dict[str, PageHint] = {}  # of the pages that are here, and of those with an answer

    def earlier(self, url: str) -> Answer | None:
        """Return what the model said of this very page in an earlier crawl."""
        return self._earlier.get(relative_url(url))

    def page_type(self, url: str, template: str) -> str | None:
        """Return the verdict of an earlier crawl: that of the page itself, else of its template."""
        answer = self.earlier(url)
        return answer.label if answer is not None else self.group(template).samples.majority

    def enter(self, url: str, template: str, hint: PageHint = NO_HINT) -> None:
        """Let a page stay until `leave`; it is asked about, or waits for others of its template."""
        if url not in self._answers:
            self._places[url] = self._resolve(template)
        self._hints[url] = hint

    def leave(self, url: str) -> None:
        group = self.group_of(url)
        if group.samples.leave(url):
            group.wake()
        if url not in self._answers:
            del self._places[url]
            self._hints.pop(url, None)

    def group(self, template: str) -> TemplateGroup:
        template = self._resolve(template)
        if template not in self._groups:
            self._groups[template] = TemplateGroup(template, TemplateSamples(hints=self._hints))
        return self._groups[template]

    def group_of(self, url: str) -> TemplateGroup:
        """Return the group of a page that has entered and not left."""
        return self.group(self._places[url])

    def speaks_for(self, url: str, rivals: Iterable[str]) -> bool:
        """Tell whether a page's group can speak for it: none of the rivals has another verdict."""
        verdicts = {self.group(template).samples.majority for template in rivals}
        return not verdicts - {None, self.group_of(url).samples.majority}

    def trusts_looks_of(self, url: str) -> bool:
        """Tell whether a page's guess may stand for an answer: it is sure, and such have been right on this site."""
        guess = self._hints.get(url, NO_HINT).guess
        answers = ((url, answer.label) for url, answer in self._answers.items())
        if guess is None:
            return False
        record = record_of(guess.label, answers, self._hints)
        return is_reliable(guess, record, at_least=MIN_RIGHT_OF_SITE)

    def note_answer(self, url: str, answer: Answer, *, fits: bool) -> None:
        self._answers[url] = answer
        label = answer.label
        samples = self.group_of(url).samples
        if fits or samples.majority in (None, label):
            samples.note_answer(url, label)
        else:
            self._loose.add(url)
            samples.asked.pop(url, None)

    def regroup(self, aliases: Mapping[str, str], moved: Mapping[str, str]) -> None:
        before = {template: group.samples for template, group in self._groups.items()}
        self._aliases.update(aliases)
        for url, template in self._places.items():
            self._places[url] = self._resolve(moved.get(url, template))
        self._loose -= moved.keys()
        labels = self._labels_by_template()
        asked: dict[str, dict[str, bool]] = defaultdict(dict)
        for samples in before.values():
            for url, patient in samples.asked.items():
                asked[self._places[url]][url] = patient
        for template in {*before, *labels, *asked}:
            self._renew(template, labels[template], asked[template])
        for group in self._groups.values():
            group.wake()

    def to_json(self) -> dict[str, Any]:
        """Return the samples with the groups that they are in; urls without scheme and host."""
        return {
            "groups": {
                template: group.samples.to_json()
                for template, group in sorted(self._groups.items())
                if group.samples.labels or group.samples.votes.page_count
            },
            "answers": [
                [relative_url(url), answer.label, answer.confidence, self._places[url], int(url in self._loose)]
                for url, answer in self._answers.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        site = cls()
        try:
            for path, label, confidence, template, is_loose in value["answers"]:
                url, answer = origin + path, Answer(str(label), float(confidence))
                site._answers[url] = site._earlier[path] = answer
                site._places[url] = str(template)
                if is_loose:
                    site._loose.add(url)
            labels = site._labels_by_template()
            for template, counts in value["groups"].items():
                samples = TemplateSamples.from_json(counts, labels[template], site._hints)
                site._groups[template] = TemplateGroup(template, samples)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the verdicts of a site: {error!r}") from error
        return site

    def _labels_by_template(self) -> defaultdict[str, dict[str, str]]:
        """Return the votes, url -> label, in the order they came."""
        labels: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for url, answer in self._answers.items():
            if url not in self._loose:
                labels[self._places[url]][url] = answer.label
        return labels

    def _renew(self, template: str, labels: dict[str, str], asked: dict[str, bool]) -> None:
        if template in self._aliases:
            gone = self._groups.pop(template, None)
            if gone is not None:
                self.group(template).samples.votes.add(gone.samples.votes)
                gone.wake()
            return
        group = self.group(template)
        if group.samples.labels != labels or group.samples.asked.keys() != asked.keys():
            group.samples = group.samples.inherit(labels, asked)
        for url in list(group.samples.waiting):
            if self._places.get(url) != template:
                group.samples.leave(url)  # others might wait for it as a sample, and it is asked elsewhere

    def _resolve(self, template: str) -> str:
        while template in self._aliases:
            template = self._aliases[template]
        return template
