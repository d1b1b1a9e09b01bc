"""Decides which pages of a template are shown to the model, and which wait for or take the verdict of these samples."""

from __future__ import annotations

import asyncio
import enum
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from llmcrawler.core.understanding.classification.answer_forest import AnswerForest
from llmcrawler.core.understanding.classification.question import CLASSIFIER, Answer, Question, Verdict
from llmcrawler.core.understanding.templates.page_sample import Names
from llmcrawler.core.urls import relative_url
from llmcrawler.errors import LLMError

# Guesses that are at least so sure are right on nineteen pages of twenty, on sites that they were not trained on; less
# sure ones on three of five.
SURE_GUESS: Final = 0.8
_VOTE_CONFIDENCE: Final = 0.5  # less sure guesses are no votes on what a template's pages are
# From so many pages on, of which so large a share looks like one type, only one in so many of the others is looked at.
_CLEAR_PAGES: Final = 12
_CLEAR_SHARE: Final = 0.95
_LOOKED_AT: Final = 16
# So many pages of a template have to look like one type, and this share of all votes, before it serves those of them
# that look like no type for sure.
_MIN_VOTES: Final = 4
_MIN_VOTE_SHARE: Final = 0.6
# Guesses of one label have proved right: so many were, of one template or of one site, and nine in ten of all.
_MIN_RIGHT: Final = 2
_MIN_RIGHT_OF_SITE: Final = 5
_RIGHT_PER_WRONG: Final = 9
# So many pages with the same guess may show that it is wrong here; from then on it makes nobody ask.
_FALSE_ALARMS: Final = 2

# After a sample that disagrees, so many more are asked: twice as many each time that nothing was found to separate
# them, but no more than a batch.
EXTRA_SAMPLES: Final = 6
_MAX_EXTRA_SAMPLES: Final = 20
# So many failed samples in a row, and the pages that wait for the template's first verdict wait no longer.
MAX_FAILURES: Final = 3
# One answer may be wrong: it may decide for so many pages, then it has to be confirmed. From so many pages on that
# wait for it, it takes the majority of QUORUM before any of them goes on.
TRUSTED_ALONE: Final = 8
QUORUM: Final = 3
# A template in which the samples keep disagreeing though nothing separates them: only below this share of the
# majority does another odd sample ask for more.
_CLEAR_MAJORITY: Final = 0.75
# A second label that two samples have, and this share of all: the template holds several kinds of page.
_MIXED_SHARE: Final = 0.15
# From so many answers on, so many for each kind of page among them, a site's answers tell what its other pages are.
_LEARNED_ANSWERS: Final = 10
_ANSWERS_OF_KIND: Final = 3
_MAX_LESSONS: Final = 200  # the newest; learning from so many takes some 40 ms of one core
# Votes that are at least so clear stand for an answer where the samples of a template disagree; one in so many of these
# pages is asked about all the same. A template whose samples agree needs this share of the votes, to speak for a page.
_CLEAR_VOTES: Final = 0.7
_CHECKED: Final = 32
_MOST_VOTES: Final = 0.5
# So many pages of such a template may turn out to be what the samples say though the site's answers told otherwise.
# From then on these make nobody ask: they cannot know a template that is not like others of the site.
_FALSE_FORECASTS: Final = 4
# Where samples of some template of a site disagree, one page is asked about in each folder that has no sample of its
# template, in so many folders.
_MAX_FOLDERS: Final = 6
_INDEX: Final = "below>=2"  # what a page has that links to two pages below its own address


@dataclass(slots=True)
class GuessVotes:
    """The guesses of a template's pages, added up: label -> sum of the confidences."""

    page_count: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def note(self, guess: Answer | None) -> None:
        self.page_count += 1
        if guess is not None and guess.confidence >= _VOTE_CONFIDENCE:
            self.sums[guess.label] = self.sums.get(guess.label, 0.0) + guess.confidence

    def add(self, other: GuessVotes) -> None:
        """Take over the votes of a template that was merged into this one."""
        self.page_count += other.page_count
        for label, value in other.sums.items():
            self.sums[label] = self.sums.get(label, 0.0) + value

    @property
    def winner(self) -> str | None:
        return max(sorted(self.sums), key=self.sums.__getitem__, default=None)

    def share_of(self, label: str) -> float | None:
        """Return the label's share of the votes, in 0..1; None where no page has voted."""
        total = sum(self.sums.values())
        return self.sums.get(label, 0.0) / total if total else None

    def to_json(self) -> list[Any]:
        return [self.page_count, {label: round(value, 3) for label, value in sorted(self.sums.items())}]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave. Raises ValueError or TypeError for anything else."""
        page_count, sums = value
        if not isinstance(sums, Mapping):
            raise TypeError("votes are no object")
        return cls(int(page_count), {str(label): float(number) for label, number in sums.items()})


class SampleStep(enum.Enum):
    ASK = "ask"  # it is a sample: the model judges it, now
    ASK_PATIENTLY = "ask patiently"  # it is a sample, but nobody waits for it
    WAIT = "wait"  # others are being asked
    TAKE = "take"  # the template's verdict is its own
    LEARN = "learn"  # its template's samples disagree, but the site's answers tell what it is
    GUESS = "guess"  # the template has no verdict for it, but guesses have proved right
    FAIL = "fail"  # there is no verdict, and asking did not help


@dataclass(eq=False, slots=True)
class TemplateSamples:
    """A template with its samples, and the pages that wait for them. `labels` are the model's answers by url, in the
    order they came. `asked` are the samples that are out (url -> patient), `waiting` the pages that wait for them.
    `page_count` is the highest member number seen. `guesses` has what these pages look like; `votes` adds up those
    of all pages.
    """

    template: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    asked: dict[str, bool] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    guesses: dict[str, Answer | None] = field(default_factory=dict)
    votes: GuessVotes = field(default_factory=GuessVotes)
    page_count: int = 0
    last_error: LLMError | None = None
    _round: int = -1
    _chosen: set[str] = field(default_factory=set)
    _extra_left: int = 0
    _in_doubt: bool = False
    _doubts: int = 0
    _failures: int = 0
    _retry_at: int = 0
    _taken: int = 0
    _false_forecasts: int = 0
    _sleepers: list[asyncio.Future[None]] = field(default_factory=list)

    def step(  # noqa: PLR0913 - by keyword, with defaults
        self,
        url: str,
        member: int,
        *,
        may_ask: bool = True,
        learned: Answer | None = None,
        by_folder: bool = False,
        is_over: bool = False,
    ) -> SampleStep:
        """Return the next step of a page. `may_ask` is False for one that was asked about in vain. `learned` is what
        the site's answers tell of it. `by_folder`: folders of the template want samples of their own. `is_over`: no
        more pages come, so the next samples are asked about along with the first, and not after it."""
        step = self._step(url, member, may_ask, learned, by_folder)
        lacks_samples = len(self.labels) + len(self.asked) < QUORUM
        if step is SampleStep.WAIT and is_over and may_ask and url not in self.asked and lacks_samples:
            return SampleStep.ASK
        return step

    def _step(  # noqa: C901, PLR0911, PLR0912 - a list of rules
        self, url: str, member: int, may_ask: bool, learned: Answer | None, by_folder: bool
    ) -> SampleStep:
        self.page_count = max(self.page_count, member)
        if url in self.asked:
            return SampleStep.WAIT  # the same page twice at a time
        if may_ask and self.labels and not self._in_doubt and len(self.waiting) >= TRUSTED_ALONE:
            # Now and not with each answer: a batch brings several.
            self._choose(QUORUM - len(self.labels) - self._urgent_count - len(self._chosen))
        if url in self._chosen and may_ask:
            return SampleStep.ASK
        round_now, samples = _round_of(self.page_count), len(self.labels) + len(self.asked)
        is_foretold = learned is not None and not self._is_foretold_otherwise(learned)
        is_round_due = may_ask and round_now > self._round and (samples <= round_now or not is_foretold)
        if all(map(_is_front_page, self.labels)):
            return self._step_to_first_verdict(may_ask, is_round_due)
        # A page that may not be asked about must not wait for others that may not either.
        is_waited_for = self._urgent_count > 0 or (may_ask and bool(self._chosen))
        if self._in_doubt and self._extra_left and may_ask and not is_clear(learned):
            return SampleStep.ASK
        if self._in_doubt and is_waited_for:
            return SampleStep.WAIT
        folders = set(map(_folder_of, self.labels)) if may_ask and by_folder else set()
        if folders and len(folders) < _MAX_FOLDERS and _folder_of(url) not in folders:
            return SampleStep.WAIT if _folder_of(url) in map(_folder_of, self.asked) else SampleStep.ASK
        if self.is_mixed:
            if self._is_reliable(self._guess(url)):
                return SampleStep.GUESS
            if is_clear(learned) and (member % _CHECKED or not may_ask):
                return SampleStep.LEARN
            if not may_ask:
                return SampleStep.FAIL
            return self.step_to_ask
        if is_waited_for and (self._second_count or not is_clear(learned)):
            return SampleStep.WAIT
        if may_ask and self._taken >= TRUSTED_ALONE and len(self.labels) == 1 and not self._urgent_count:
            return SampleStep.ASK
        if may_ask and (step := self._step_of_contradicting(url)):
            return step
        is_trusted = self._false_forecasts < _FALSE_FORECASTS * (1 + self._second_count)
        if may_ask and is_trusted and self._is_foretold_otherwise(learned):
            return SampleStep.ASK
        return SampleStep.ASK_PATIENTLY if is_round_due else SampleStep.TAKE

    @property
    def step_to_ask(self) -> SampleStep:
        """The step of a page for which nobody can speak; not too many are asked before there are answers."""
        return SampleStep.ASK if self._urgent_count < _MAX_EXTRA_SAMPLES else SampleStep.WAIT

    def _is_foretold_otherwise(self, learned: Answer | None) -> bool:
        return learned is not None and (learned.label != self.majority or learned.confidence < _MOST_VOTES)

    def _step_to_first_verdict(self, may_ask: bool, is_round_due: bool) -> SampleStep:
        if not self.asked:
            return SampleStep.ASK if may_ask and self.page_count >= self._retry_at else SampleStep.FAIL
        if not is_round_due:
            return SampleStep.WAIT
        return SampleStep.ASK_PATIENTLY if len(self.waiting) < TRUSTED_ALONE else SampleStep.ASK

    def _step_of_contradicting(self, url: str) -> SampleStep | None:
        """Return the step of a page that surely looks like something else than the template's verdict, unless its looks
        have proved to mean nothing here."""
        guess = self._guess(url)
        if guess is None or guess.confidence < SURE_GUESS or guess.label == self.majority:
            return None
        if self._is_reliable(guess):
            return SampleStep.GUESS
        right, wrong = record_of(guess.label, self.labels, self.guesses)
        out = sum(1 for one in self.asked if (other := self._guess(one)) and other.label == guess.label)
        if wrong + out < _FALSE_ALARMS or right > wrong:
            return SampleStep.ASK
        return SampleStep.WAIT if out and self._urgent_count else None

    def _guess(self, url: str) -> Answer | None:
        return self.guesses.get(url)

    def _is_reliable(self, guess: Answer | None) -> bool:
        return guess is not None and is_reliable(guess, record_of(guess.label, self.labels, self.guesses), _MIN_RIGHT)

    def note_asked(self, url: str, *, patient: bool) -> None:
        self.asked[url] = patient
        self._round = max(self._round, _round_of(self.page_count))
        self.waiting.pop(url, None)
        if url in self._chosen:
            self._chosen.remove(url)
        elif self._in_doubt and self._extra_left:
            self._extra_left -= 1

    def note_taken(self, url: str) -> None:
        self._taken += 1
        self.waiting.pop(url, None)

    def note_answer(self, url: str, label: str, learned: Answer | None = None) -> None:
        """Note the answer on a sample. It may put the template in doubt, and choose further samples, unless it could be
        expected from the site's answers so far."""
        majority = None if all(map(_is_front_page, self.labels)) else self.majority
        if majority is not None and label == majority and self._is_foretold_otherwise(learned):
            self._false_forecasts += 1
        self.asked.pop(url, None)
        self.labels[url] = label
        self._failures = 0
        if _is_front_page(url):
            return
        most = Counter(self.labels.values()).most_common(1)[0][1]
        is_doubtful = not self._doubts or most < _CLEAR_MAJORITY * len(self.labels) or self.is_mixed
        if self._doubts and learned is not None:
            is_doubtful = learned.confidence >= _CLEAR_VOTES and learned.label != label
        if majority is not None and label != majority and not self._in_doubt and is_doubtful:
            self._in_doubt = True
            extra = min(EXTRA_SAMPLES << min(self._doubts, 4), _MAX_EXTRA_SAMPLES)
            self._extra_left = extra - self._choose(extra)

    def note_failure(self, url: str) -> None:
        self.asked.pop(url, None)
        self._failures += 1
        if not self.labels and not self.asked and self._failures >= MAX_FAILURES:
            # Those that come later try again, at twice the number of pages each time: a model that always fails on
            # this template costs a few calls, not one a page.
            self._retry_at = 2 * max(self.page_count, 1)

    @property
    def majority(self) -> str | None:
        """The label of most samples; of equally many the one that came first. A site's front page speaks for others
        only until one of them has been judged."""
        votes = Counter(label for url, label in self.labels.items() if not _is_front_page(url))
        votes = votes or Counter(self.labels.values())
        return votes.most_common(1)[0][0] if votes else None

    @property
    def confidence(self) -> float:
        """The probability that the next page has the majority's label: (agreeing + 1) / (samples + 2), Laplace's rule
        of succession ("Essai philosophique sur les probabilités", 1814). The looks of all its pages count like one
        more sample, which agrees as far as they do: they err together."""
        answers = Counter(self.labels.values())
        majority, agreeing = answers.most_common(1)[0] if answers else ("", 0)
        share = self.votes.share_of(majority)
        if share is None:
            return (agreeing + 1) / (len(self.labels) + 2)
        return (agreeing + share + 1) / (len(self.labels) + 3)

    @property
    def is_mixed(self) -> bool:
        """True where the samples speak for several kinds of page: the template's verdict is nobody's."""
        return self._second_count > 1 and self._second_count >= _MIXED_SHARE * len(self.labels)

    @property
    def _second_count(self) -> int:
        common = Counter(self.labels.values()).most_common(2)
        return common[1][1] if len(common) > 1 else 0

    def is_decided_by_looks(self, question: Question, *, is_model_asked: bool) -> bool:
        """Tell whether a page need not be looked at, as so many of its template look alike; some are all the same.

        Where a lone answer of the model says otherwise, each page is looked at that may contradict it.
        """
        winner = self.votes.winner
        if not question.settled or question.rivals or question.member % _LOOKED_AT == 0 or winner is None:
            return False
        if self.votes.page_count < _CLEAR_PAGES or (self.votes.share_of(winner) or 0.0) < _CLEAR_SHARE:
            return False
        if is_model_asked and self.majority != winner and len(self.labels) < QUORUM:
            return False
        return not self.is_mixed

    def verdict_by_looks(self, question: Question, guess: Verdict | None) -> Verdict | None:
        """Return what most pages of the template look like, for one of them that looks like nothing for sure."""
        votes, winner = self.votes, self.votes.winner
        own = 0.0 if guess is None else guess.confidence
        if winner is None or not question.settled or self.is_mixed or own >= SURE_GUESS:
            return None
        if votes.page_count < _MIN_VOTES or (votes.share_of(winner) or 0.0) < _MIN_VOTE_SHARE:
            return None
        agrees = guess is not None and guess.page_type == winner
        return Verdict(winner, max(votes.sums[winner] / votes.page_count, own if agrees else 0.0), CLASSIFIER)

    def take_settled_doubt(self) -> Mapping[str, str] | None:
        """Return the labels by url, once after each doubt, when its last sample is in and they speak for two kinds of
        page."""
        if not self._in_doubt or self._extra_left or self._chosen or self._urgent_count:
            return None
        self._in_doubt = False
        self._doubts += 1
        # A single odd answer among eight is an odd page or a slip of the model; two of a kind may be a template.
        return dict(self.labels) if self._second_count > 1 else None

    def follow(self, labels: dict[str, str], asked: dict[str, bool]) -> None:
        """Take exactly those samples that are the template's own after a change of its members.

        Where it has lost samples its counts of pages start anew: the next page brings the right one.
        """
        if not self.labels.keys() <= labels.keys():
            self.votes, self.page_count, self._round, self._retry_at, self._false_forecasts = GuessVotes(), 0, -1, 0, 0
        self.labels, self.asked, self.waiting, self._chosen = labels, asked, {}, set()
        self.page_count = max(len(labels) + len(asked), self.page_count)
        self._round = max(_round_of(len(labels) + len(asked)), self._round)
        self._in_doubt, self._extra_left, self._doubts, self._taken = False, 0, 0, 0

    def leave(self, url: str) -> bool:
        """Let a page wait no longer; True when it was chosen as a sample, and others must not wait for it."""
        self.waiting.pop(url, None)
        was_chosen = url in self._chosen
        self._chosen.discard(url)
        return was_chosen

    async def wait(self, url: str) -> None:
        """Wait, as one of its pages, until something has changed in this template."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        self.waiting[url] = None
        try:
            await sleeper
        except asyncio.CancelledError:
            self.leave(url)
            self.wake()  # it may have been chosen as a sample
            raise

    def wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def to_json(self) -> list[Any]:
        """Return what has been counted; the labels are their pages' own."""
        return [self.page_count, self._round, self._doubts, self._taken, self.votes.to_json()]

    def restore(self, value: Any) -> None:
        """Read what `to_json` gave in an earlier crawl. No page waits; a doubt that was not settled is dropped."""
        *numbers, votes = value
        self.page_count, self._round, self._doubts, self._taken = map(int, numbers)
        self.votes = GuessVotes.from_json(votes)

    @property
    def _urgent_count(self) -> int:
        return sum(not patient for patient in self.asked.values())

    def _choose(self, count: int) -> int:
        """Choose samples from the waiting pages: half are those that look like something else than the verdict; the
        others are evenly spread. Returns how many."""
        if count <= 0:  # each of thousands of waiting pages may come here
            return 0
        free = [url for url in self.waiting if url not in self._chosen]
        count = min(count, len(free))
        looks = {url: guess.label for url in free if (guess := self._guess(url))}
        first = [url for url, label in looks.items() if label != self.majority][: count // 2]
        self._chosen.update(first)
        free = [url for url in free if url not in self._chosen]
        rest = count - len(first)
        self._chosen.update(free[at * len(free) // rest] for at in range(rest))
        return count


def record_of(label: str, answers: Mapping[str, str], guesses: Mapping[str, Answer | None]) -> tuple[int, int]:
    """Return how many of the pages with an answer (url -> label) that surely looked like `label` are so, and how many
    are not."""
    found = [
        answer
        for url, answer in answers.items()
        if (guess := guesses.get(url)) and guess.label == label and guess.confidence >= SURE_GUESS
    ]
    right = found.count(label)
    return right, len(found) - right


def is_clear(learned: Answer | None) -> bool:
    """Tell whether what was learned of a page may stand for an answer."""
    return learned is not None and learned.confidence >= _CLEAR_VOTES


def is_reliable(guess: Answer, record: tuple[int, int], at_least: int) -> bool:
    """Tell whether a guess may stand for the model's answer: it is sure, and guesses of its label were (right, wrong)
    so often, `at_least` so often right."""
    right, wrong = record
    return guess.confidence >= SURE_GUESS and right >= at_least and right >= _RIGHT_PER_WRONG * wrong


def _folder_of(url: str) -> str:
    return url.rstrip("/").rpartition("/")[0]


def _is_front_page(url: str) -> bool:
    return "://" in url and not url.partition("://")[2].partition("/")[2]


def _round_of(page_count: int) -> int:
    """Return the round of samples, due at pages 1, 4, 16, 64, ...: the number of the last of these; -1 before the
    first."""
    return (page_count.bit_length() - 1) // 2 if page_count > 0 else -1


class SiteVerdicts:
    """Keeps each sample of a site by its url, so that it follows its page from template to template.

    `enter` and `leave` enclose a page's stay; a page that became a sample is remembered, all others are forgotten.
    `to_json` and `from_json` carry the samples into the next crawl.
    """

    def __init__(self) -> None:
        self._templates: dict[str, TemplateSamples] = {}
        self._aliases: dict[str, str] = {}
        self._template_of: dict[str, str] = {}  # by url
        self._answers: dict[str, Answer] = {}
        self._labels_of_folders = defaultdict[str, set[str]](set)
        self._earlier: dict[str, Answer] = {}  # those of earlier crawls, by path and query
        self._guesses: dict[str, Answer | None] = {}  # of the pages that are here, and of those with an answer
        self._lessons: deque[tuple[Names, str]] = deque(maxlen=_MAX_LESSONS)  # what pages have, and the answers
        self._forest: AnswerForest | None = None
        self._learn_in = _LEARNED_ANSWERS
        self.has_mixed = False  # a template whose samples spoke for several kinds of page

    def earlier(self, url: str) -> Answer | None:
        """Return what the model said of this very page in an earlier crawl."""
        return self._earlier.get(relative_url(url))

    def enter(self, url: str, template: str, guess: Answer | None = None) -> None:
        """Let a page stay until `leave`; it is asked about, or waits for others of its template."""
        if url not in self._answers:
            self._template_of[url] = self._resolve(template)
        self._guesses[url] = guess

    def leave(self, url: str) -> None:
        samples = self.samples_of(url)
        if samples.leave(url):
            samples.wake()
        if url not in self._answers:
            del self._template_of[url]
            self._guesses.pop(url, None)

    def samples(self, template: str) -> TemplateSamples:
        template = self._resolve(template)
        if template not in self._templates:
            self._templates[template] = TemplateSamples(template, guesses=self._guesses)
        return self._templates[template]

    def samples_of(self, url: str) -> TemplateSamples:
        """Return the samples of the template of a page that has entered and not left."""
        return self.samples(self._template_of[url])

    def speaks_for(self, url: str, rivals: Iterable[str]) -> bool:
        """Tell whether a page's template can speak for it: none of the rivals has another verdict."""
        verdicts = {self.samples(template).majority for template in rivals}
        return not verdicts - {None, self.samples_of(url).majority}

    def checked(self, step: SampleStep, url: str, learned: Answer | None, names: Callable[[], Names]) -> SampleStep:
        """Return a page's step, but that it is asked where answers on pages like it speak against what it would be
        given: none in its folder says so, or, of an index of a section, few of other such indexes.
        """
        samples = self.samples_of(url)
        label = learned.label if step is SampleStep.LEARN and learned else samples.majority
        if step not in (SampleStep.TAKE, SampleStep.LEARN) or label is None:
            return step
        labels = self._labels_of_folders.get(_folder_of(url))
        right, wrong = _MIN_RIGHT, 0
        if self._forest is not None and _INDEX in names():
            answers = [answer for has, answer in self._lessons if _INDEX in has]
            right, wrong = answers.count(label), sum(answer != label for answer in answers)
        agrees = (labels is None or label in labels) and right >= max(_MIN_RIGHT, _RIGHT_PER_WRONG * wrong)
        return step if agrees else samples.step_to_ask

    def trusts_looks_of(self, url: str) -> bool:
        """Tell whether a page's guess may stand for an answer: it is sure, and such have been right on this site."""
        guess = self._guesses.get(url)
        if guess is None:
            return False
        answers = {url: answer.label for url, answer in self._answers.items()}
        return is_reliable(guess, record_of(guess.label, answers, self._guesses), _MIN_RIGHT_OF_SITE)

    def learned(self, names: Callable[[], Names]) -> Answer | None:
        """Return what the site's answers tell of a page by its `names`, or None."""
        return None if self._forest is None else self._forest.guess(names())

    def note_answer(self, url: str, answer: Answer, names: Callable[[], Names] = frozenset) -> None:
        self._answers[url] = answer
        self._labels_of_folders[_folder_of(url)].add(answer.label)
        samples = self.samples_of(url)
        samples.note_answer(url, answer.label, self.learned(names))
        self.has_mixed |= samples.is_mixed
        self._lessons.append((names(), answer.label))
        self._learn_in -= 1
        if self._learn_in <= 0 and len(self._lessons) >= _ANSWERS_OF_KIND * len({label for _, label in self._lessons}):
            self._forest, self._learn_in = AnswerForest(self._lessons), max(4, len(self._lessons) // 10)

    def regroup(self, aliases: Mapping[str, str], moved: Mapping[str, str]) -> None:
        """Let the samples follow their pages, and wake all that wait."""
        out = [(url, patient) for samples in self._templates.values() for url, patient in samples.asked.items()]
        before = list(self._templates)
        self._aliases.update(aliases)
        for url, template in self._template_of.items():
            self._template_of[url] = self._resolve(moved.get(url, template))
        labels, asked = self._labels_by_template(), defaultdict[str, dict[str, bool]](dict)
        for url, patient in out:
            asked[self._template_of[url]][url] = patient
        for template in dict.fromkeys([*before, *labels, *asked]):
            if template in self._aliases:
                gone = self._templates.pop(template, None)
                if gone is not None:
                    self.samples(template).votes.add(gone.votes)
                    gone.wake()
                continue
            samples = self.samples(template)
            if samples.labels != labels[template] or samples.asked.keys() != asked[template].keys():
                samples.follow(labels[template], asked[template])
            for url in list(samples.waiting):
                if self._template_of.get(url) != template:
                    samples.leave(url)  # others might wait for it as a sample, and it is asked elsewhere
        self.wake()

    def wake(self) -> None:
        """Let all pages that wait look what they have to do now."""
        for samples in self._templates.values():
            samples.wake()

    def to_json(self) -> dict[str, Any]:
        """Return the samples with the templates that they are of; urls without scheme and host."""
        return {
            "groups": {
                template: samples.to_json()
                for template, samples in sorted(self._templates.items())
                if samples.labels or samples.votes.page_count
            },
            "answers": [
                [relative_url(url), answer.label, answer.confidence, self._template_of[url]]
                for url, answer in self._answers.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], origin: str) -> Self:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        site = cls()
        try:
            for path, label, confidence, template in value["answers"]:
                url, answer = origin + path, Answer(str(label), float(confidence))
                site._answers[url] = site._earlier[path] = answer
                site._labels_of_folders[_folder_of(url)].add(answer.label)
                site._template_of[url] = str(template)
            labels = site._labels_by_template()
            for template, counts in value["groups"].items():
                samples = TemplateSamples(template, labels[template], guesses=site._guesses)
                samples.restore(counts)
                site._templates[template] = samples
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the verdicts of a site: {error!r}") from error
        return site

    def _labels_by_template(self) -> defaultdict[str, dict[str, str]]:
        labels = defaultdict[str, dict[str, str]](dict)
        for url, answer in self._answers.items():
            labels[self._template_of[url]][url] = answer.label
        return labels

    def _resolve(self, template: str) -> str:
        while template in self._aliases:
            template = self._aliases[template]
        return template
