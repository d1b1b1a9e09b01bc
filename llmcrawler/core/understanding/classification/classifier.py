"""Tells what a page is, by the first that knows: structured data, the template's verdict, the model, a guess."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from llmcrawler.core.understanding.classification.evidence import StructuredEvidence
from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules
from llmcrawler.core.understanding.classification.page_types import PageTypes
from llmcrawler.core.understanding.classification.question import (
    CLASSIFIER,
    LLM,
    STRUCTURED_DATA,
    TEMPLATE,
    Answer,
    Question,
    Verdict,
)
from llmcrawler.core.understanding.classification.template_samples import (
    SampleStep,
    SiteVerdicts,
    TemplateSamples,
    is_clear,
)
from llmcrawler.core.understanding.templates.page_sample import Names, PageSample
from llmcrawler.errors import BudgetSpent, LLMError, LLMStopped, LLMUnavailable
from llmcrawler.items import PERSON, PageError

if TYPE_CHECKING:
    from llmcrawler.core.understanding.classification.page_asker import PageView
    from llmcrawler.core.understanding.templates.grouping import Changes

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
# The model's own number, but never more: models say 1.0 of nearly everything, and none is right that often.
_MAX_LLM_CONFIDENCE: Final = 0.95

# Separates the members of a template (of a site) whose samples (url -> label) disagree; None where nothing does.
Splitter = Callable[[str, str, Mapping[str, str]], "Changes | None"]


class PageAsker(Protocol):
    def submit(self, question: PageView, *, patient: bool = False) -> Awaitable[Answer]: ...


class Corrected(Protocol):
    @property
    def page_type(self) -> str | None: ...


class Classifier:
    """Tells the page types of one crawl; verdicts are shared within a site. Without an `asker`, structured data, what
    earlier crawls have learned, and rules decide. `is_over` tells whether no more pages come. `correction_of` a
    template of a site is what a person says of it: this goes first.

    The owner of the templates calls `regroup` with every change of the groups.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        page_types: PageTypes,
        asker: PageAsker | None,
        *,
        split: Splitter = lambda _site, _template, _labels: None,
        on_verdict: Callable[[Question, Verdict], None] = lambda _question, _verdict: None,
        is_over: Callable[[], bool] = lambda: False,
        correction_of: Callable[[str, str], Corrected | None] = lambda _site, _template: None,
    ) -> None:
        self._correction_of = correction_of
        self._page_types = page_types
        self._structured = StructuredEvidence(page_types)
        self._rules = PageTypeRules(page_types)
        self._asker = asker
        self._split = split
        self._on_verdict = on_verdict
        self._is_over = is_over
        self._watching: asyncio.Task[None] | None = None
        self._sites: dict[str, SiteVerdicts] = {}
        self._unavailable: LLMUnavailable | None = None
        self.waiting_count = 0  # pages whose verdict depends on an answer that has not come
        self._asking: dict[str, asyncio.Task[Verdict]] = {}  # by url

    async def classify(self, question: Question) -> Verdict:
        """Return the page's verdict. It may wait for a batch of the model; no failure of the model raises."""
        verdict = self._known(question) or await self._by_samples(question)
        self._on_verdict(question, verdict)
        return verdict

    def known_verdict(self, question: Question) -> Verdict | None:
        """Return the verdict by what the page states and earlier crawls have learned, without its text."""
        return self._known(question) or self._by_template(question)

    def looks(self, question: Question) -> Verdict:
        """Return what a page without such a verdict, or most of its template, looks like. Nothing is noted: the order
        does not matter.
        """
        samples = self._site(question.site).samples(question.template)
        is_decided = samples.is_decided_by_looks(question, is_model_asked=False)
        return self._by_looks(samples, question, None if is_decided else self._rules.guess(question))

    def regroup(self, site: str, changes: Changes) -> None:
        """Let samples follow their pages into the groups that these are in now; pages that wait ask their new group."""
        self._site(site).regroup(changes.aliases, changes.moved)

    def template_verdict(self, site: str, template: str) -> tuple[str, float] | None:
        """Return the template's page type and confidence: a person's, by its samples, or what its pages look like."""
        if (corrected := self._by_person(site, template)) is not None:
            return corrected, 1.0
        samples = self._site(site).samples(template)
        if samples.majority is not None:
            return samples.majority, samples.confidence
        votes = samples.votes
        return None if votes.winner is None else (votes.winner, votes.sums[votes.winner] / votes.page_count)

    def purity(self, site: str, template: str) -> float | None:
        """Return the share of the template's pages, in 0..1, that look like its page type; None where none looks like
        anything.
        """
        verdict = self.template_verdict(site, template)
        return None if verdict is None else self._site(site).samples(template).votes.share_of(verdict[0])

    def restore_verdict(self, question: Question, page_type: str, confidence: float, decided_by: str) -> None:
        """Note a verdict of an earlier run of the same crawl; what the model said speaks for its template."""
        site = self._site(question.site)
        if decided_by == LLM and site.earlier(question.url) is None:
            site.enter(question.url, question.template)
            site.note_answer(question.url, Answer(page_type, confidence))
            site.leave(question.url)

    def to_json(self, site: str) -> dict[str, Any]:
        """Return what the model has said of a site's pages, for `restore` in the next crawl."""
        return {"page_types": sorted(self._page_types.names), **self._site(site).to_json()}

    def restore(self, site: str, value: Mapping[str, Any], origin: str) -> None:
        """Go on with the verdicts of an earlier crawl with the same page types, for the site at `origin`, before its
        first page. Raises ValueError for anything else than `to_json` gives.
        """
        verdicts = SiteVerdicts.from_json(value, origin)
        if sorted(self._page_types.names) == value.get("page_types"):
            self._sites[site] = verdicts
        else:
            logger.warning("Page types are not those that %s was crawled with before: its pages are judged again", site)

    def describe(self, site: str, template: str) -> dict[str, Any]:
        page_type, confidence = self.template_verdict(site, template) or (None, None)
        return {"page_type": page_type, "confidence": None if confidence is None else round(confidence, 3)}

    def _site(self, site: str) -> SiteVerdicts:
        return self._sites.setdefault(site, SiteVerdicts())

    def _known(self, question: Question) -> Verdict | None:
        """Return what a person says of its template, what the page states for machines, or what an earlier crawl knows
        of it, so that it gives the same line.
        """
        if (corrected := self._by_person(question.site, question.template)) is not None:
            return Verdict(corrected, 1.0, PERSON)
        if found := self._structured.decide(question):
            return Verdict(*found, STRUCTURED_DATA)
        if answer := self._site(question.site).earlier(question.url):
            return _llm_verdict(answer)
        return self._by_template(question) if question.is_known else None

    def _by_person(self, site: str, template: str) -> str | None:
        corrected = self._correction_of(site, template)
        # A crawl with page types of its own may not have that one.
        return corrected.page_type if corrected and corrected.page_type in self._page_types.names else None

    def _by_template(self, question: Question) -> Verdict | None:
        samples = self._site(question.site).samples(question.template)
        if samples.majority is None or not question.settled or (samples.is_mixed and not question.is_known):
            return None  # of a page that was there before, enough was asked then
        return Verdict(samples.majority, samples.confidence, TEMPLATE)

    def _by_looks(self, samples: TemplateSamples, question: Question, guess: Verdict | None) -> Verdict:
        """Return what the page, or most of its template, looks like; it is looked at now where nobody has yet."""
        return samples.verdict_by_looks(question, guess) or guess or self._rules.guess(question)

    async def _by_samples(self, question: Question) -> Verdict:
        site = self._site(question.site)
        samples = site.samples(question.template)
        is_decided = samples.is_decided_by_looks(question, is_model_asked=self._asker is not None)
        guess = None if is_decided else self._rules.guess(question)
        label = Answer(guess.page_type, guess.confidence) if guess and guess.page_type is not None else None
        if question.settled and guess is not None:
            samples.votes.note(label)
        if self._asker is None:
            return self._by_template(question) or self._by_looks(samples, question, guess)
        site.enter(question.url, question.template, label)
        self.waiting_count += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch_end())
        try:
            return await self._step_by_step(
                self._asker, site, question, guess, cache(partial(_names_of, question, label))
            )
        finally:
            self.waiting_count -= 1
            asking = self._asking.get(question.url)
            if asking is None:
                site.leave(question.url)
            else:  # the page's time is over, but its answer will serve the pages that follow
                asking.add_done_callback(lambda _: site.leave(question.url))

    async def _watch_end(self) -> None:
        was_over = False
        while self.waiting_count:
            is_over = self._is_over()
            if is_over and not was_over:
                for site in self._sites.values():
                    site.wake()
            was_over = is_over
            await asyncio.sleep(_POLL_SECONDS)

    async def _step_by_step(
        self,
        asker: PageAsker,
        site: SiteVerdicts,
        question: Question,
        guess: Verdict | None,
        names: Callable[[], Names],
    ) -> Verdict:
        """Ask or wait until there is a verdict: what a page has to do changes while it waits, and so may its group."""
        error: LLMError | None = None
        is_own = False
        while True:
            samples = site.samples_of(question.url)
            # A page that has failed as a sample must not be asked for ever; its template may still speak for it.
            may_ask = error is None and not self._unavailable
            learned = site.learned(names)
            step = samples.step(
                question.url,
                question.member,
                may_ask=may_ask,
                learned=learned,
                by_folder=site.has_mixed and learned is not None,
                is_over=self._is_over(),
            )
            rivalled = step is SampleStep.TAKE and not site.speaks_for(question.url, question.rivals)
            if may_ask and (rivalled or not question.settled):
                is_trusted = self._rules.knows_all_types and site.trusts_looks_of(question.url)
                step, is_own = SampleStep.GUESS if is_trusted else SampleStep.ASK, True
                step = SampleStep.LEARN if question.settled and is_clear(learned) else step
            step = site.checked(step, question.url, learned, names) if may_ask else step
            if step is SampleStep.GUESS and guess is not None:
                return guess
            if step is SampleStep.LEARN and learned is not None:
                return Verdict(learned.label, learned.confidence, CLASSIFIER)
            if step in (SampleStep.ASK, SampleStep.ASK_PATIENTLY):
                patient = step is SampleStep.ASK_PATIENTLY
                samples.note_asked(question.url, patient=patient)
                asking = asyncio.ensure_future(self._ask(asker, site, question, names, patient=patient))
                self._asking[question.url] = asking
                asking.add_done_callback(lambda _: self._asking.pop(question.url))
                try:
                    return await asyncio.shield(asking)
                except LLMError as failure:
                    error = failure
            elif step is SampleStep.WAIT:
                await samples.wait(question.url)
            elif step is SampleStep.TAKE and (question.settled or error is not None):
                samples.note_taken(question.url)
                assert samples.majority is not None
                # Nobody but itself could speak for it, had there been money to ask.
                short = _page_error(error) if is_own and isinstance(error, BudgetSpent) else None
                return Verdict(samples.majority, samples.confidence, TEMPLATE, short)
            else:
                reason = error or self._unavailable or samples.last_error
                return replace(self._by_looks(samples, question, guess), error=_page_error(reason))

    async def _ask(
        self, asker: PageAsker, site: SiteVerdicts, question: Question, names: Callable[[], Names], *, patient: bool
    ) -> Verdict:
        from llmcrawler.core.understanding.classification.classify_prompt import describe_page

        url, error = question.url, None
        try:
            answer = await asker.submit(describe_page(question), patient=patient)
            site.note_answer(url, answer, names)
            return _llm_verdict(answer)
        except LLMError as failure:
            error = failure
            # A budget that is spent does not end the asking: answers that are known cost nothing.
            if isinstance(error, LLMUnavailable) and not isinstance(error, BudgetSpent) and self._unavailable is None:
                self._unavailable = error
                level = logging.DEBUG if isinstance(error, LLMStopped) else logging.WARNING
                what = "The model is no longer available; rules and learned templates decide from now on: %s"
                logger.log(level, what, error)
            raise
        finally:
            samples = site.samples_of(url)
            if url in samples.asked:  # no answer came, for whatever reason: another page has to be the sample
                samples.note_failure(url)
                samples.last_error = error or samples.last_error
            self._settle_doubt(site, question.site, samples)
            samples.wake()

    def _settle_doubt(self, site: SiteVerdicts, name: str, samples: TemplateSamples) -> None:
        labels = samples.take_settled_doubt()
        if labels is None:
            return
        changes = self._split(name, samples.template, labels)
        logger.info(
            "Template %s of %s holds several kinds of page (%s): %s",
            samples.template,
            name,
            ", ".join(sorted(set(labels.values()))),
            "split" if changes else "nothing separates them yet; its pages are judged one by one",
        )
        if changes:
            site.regroup(changes.aliases, changes.moved)


def _names_of(question: Question, guess: Answer | None) -> Names:
    """Return all that may tell kinds of page apart: also what the page looks like, and its sizes by powers of two. One
    with links to addresses below its own is an index of a section."""
    content = question.content
    folder = question.url.partition("?")[0].removesuffix("index.html")
    folder = folder if folder.endswith("/") else folder.removesuffix(".html") + "/"
    below = {link.url.partition("#")[0] for link in content.links if link.url.startswith(folder)}
    sizes = {"text": len(question.text), **content.cues, "link_density": 100 * content.cues.get("link_density", 0.0)}
    sizes["below"] = len(below - {folder, question.url})
    reached = {f"{name}>={1 << bit}" for name, size in sizes.items() for bit in range(int(size).bit_length())}
    sample = PageSample.of(question.url, content.features, question.title, question.words)
    return sample.names | reached | {f"looks:{guess and guess.label}"}


def _llm_verdict(answer: Answer) -> Verdict:
    return Verdict(answer.label, min(answer.confidence, _MAX_LLM_CONFIDENCE), LLM)


def _page_error(error: LLMError | None) -> PageError:
    if error is None:
        return PageError("classify", LLMError.kind, "no sample of this template could be judged")
    return PageError("classify", error.kind, str(error))
