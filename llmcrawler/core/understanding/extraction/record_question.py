"""Questions for the record of a page, their answers, and the rules for learning to answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from llmcrawler.core.understanding.extraction.learner import LearnerKey
from llmcrawler.core.understanding.extraction.stated.stated_record import PageToRead
from llmcrawler.core.understanding.extraction.training_run import TrainingRules
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.items import PageError

# What records are made by: selectors of a template, what the page says of itself, a call of the model for that page.
BY_TEMPLATE: Final = "template"
BY_STRUCTURED_DATA: Final = "structured-data"
BY_MODEL: Final = "llm"


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The rules for learning a template: from `learn_pages` pages on, or from `min_pages` when no more are to come; and
    how often it is learned anew."""

    min_pages: int = 5
    learn_pages: int = 20
    max_relearned: int = 2
    training: TrainingRules = field(default_factory=TrainingRules)


@dataclass(frozen=True, slots=True)
class RecordQuestion:
    """A page that is to get its record. `site` and `template` are the grouper's; `is_sure` where the page type is the
    page's own verdict and not its template's, `is_guess` where it may be of a type with records all the same. `id`:
    where several pages may have the url.
    """

    url: str
    title: str
    lang: str
    html: str
    features: frozenset[str]
    site: str
    template: str
    page_type: str
    is_sure: bool = True
    is_guess: bool = False
    id: str | None = None

    @property
    def key(self) -> str:
        return self.id or self.url

    def to_learn_from(self) -> TrainingPage:
        """Return the page as it is kept until its template is learned."""
        return TrainingPage(self.url, self.title, self.lang, self.html, self.features)

    def to_read(self) -> PageToRead:
        """Return the page as it is read for what it says of itself."""
        return PageToRead(self.html, self.url, self.title, self.lang, self.page_type, not self.is_guess)


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """The record of a page, and what made it (`by`, one of those above), or why there is none. `home` is set where a
    page fits another template of its site than the one it was put into."""

    record: dict[str, Any] | None = None
    error: PageError | None = None
    home: LearnerKey | None = None
    by: str | None = None
