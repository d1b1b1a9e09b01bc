"""Questions for the page type of a page, and the verdicts on them."""

from __future__ import annotations

from dataclasses import dataclass

from llmcrawler.items import PageContent, PageError

STRUCTURED_DATA = "structured-data"
TEMPLATE = "template"
LLM = "llm"
RULE = "rule"
CLASSIFIER = "classifier"
UNSURE = 0.75  # rules below this confidence may as well be wrong
NO_CUE = 0.1  # the confidence of rules that found nothing to go by


@dataclass(frozen=True, slots=True)
class Question:
    """A page to classify. `text` is its main content as Markdown.

    `site` bounds what a verdict is shared over. `template` is its group's id on that site, `member` its number in the
    group (from 1). A page that is not `settled` has no group yet that could speak for it; it is asked itself. So is one
    that may as well belong to one of `rivals`, where that template's verdict is another. `is_known` says that an
    earlier crawl has put the page into this group. `words` are tokens that other pages of its kind may share.
    """

    url: str
    title: str
    text: str
    content: PageContent
    site: str
    template: str
    member: int
    settled: bool = True
    rivals: tuple[str, ...] = ()
    is_known: bool = False
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The page type of a page. `confidence` is in 0..1; what it means depends on `decided_by`; see each module's
    constants.

    `error` says why the page was not classified as it should have been; its `page_type` is then a rule's, or None.
    """

    page_type: str | None
    confidence: float
    decided_by: str
    error: PageError | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's word on one page; `confidence` is in 0..1 as the model said it."""

    label: str
    confidence: float
