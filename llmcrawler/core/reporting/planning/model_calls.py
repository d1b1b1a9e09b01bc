"""Counts how often the model will be asked for page types, by playing the crawl's rules of sampling and batching
through.

There is no formula for it, since when a batch goes out depends on which pages wait. So pages arrive here at the pace of
the crawl, each does what classification/template_samples.py says, and waits in the room that real batches wait in
(llm.batching), by a clock that is only counted.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from llmcrawler.core.llm.batching import BatchRules, WaitingQuestion, WaitingRoom
from llmcrawler.core.understanding.classification.template_samples import SampleStep, TemplateSamples


class PageArrival(NamedTuple):
    """A page that the model may be asked about. `is_settled`: its template can speak for it; `tokens`: what the model
    would be shown.
    """

    template: str
    tokens: int
    is_settled: bool = True


class ExpectedCalls(NamedTuple):
    """The number of calls, of the pages that they show together, and of the tokens of these."""

    calls: int
    pages: int
    tokens: int


def play(
    arrivals: Sequence[PageArrival | None], pace_seconds: float, call_seconds: float, rules: BatchRules
) -> ExpectedCalls:
    """Return what the model is asked when a page comes every `pace_seconds` and an answer takes `call_seconds`. None
    among the arrivals is a page that needs no model.
    """
    crawl = _PlayedCrawl(arrivals, call_seconds, rules)
    for number, arrival in enumerate(arrivals):
        crawl.pass_time(number * pace_seconds)
        if arrival is not None:
            crawl.go_on(number, is_new=True)
    crawl.pass_time(math.inf)
    shown = [arrival.tokens for batch in crawl.batches for number in batch if (arrival := arrivals[number])]
    return ExpectedCalls(len(crawl.batches), len(shown), sum(shown))


class _PlayedCrawl:
    """A crawl in counted time. Pages are numbers, in the order in which they arrive; `batches` went to the model."""

    def __init__(self, arrivals: Sequence[PageArrival | None], call_seconds: float, rules: BatchRules) -> None:
        self.batches: list[list[int]] = []
        self._arrivals = arrivals
        self._call_seconds = call_seconds
        self._rules = rules
        self._samples: defaultdict[str, TemplateSamples] = defaultdict(TemplateSamples)
        self._room: WaitingRoom[int, None] = WaitingRoom(rules)
        self._answers: deque[tuple[float, list[int]]] = deque()  # the batches that are out, and when they are answered
        self._now = 0.0

    def go_on(self, number: int, *, is_new: bool = False) -> None:
        """Let a page take its template's type, wait for others, or wait for a batch."""
        arrival, name = cast("PageArrival", self._arrivals[number]), str(number)
        samples = self._samples[arrival.template]
        step = samples.step(name, samples.page_count + is_new)
        if step in (SampleStep.ASK, SampleStep.ASK_PATIENTLY) or not arrival.is_settled:
            patient = step is SampleStep.ASK_PATIENTLY and arrival.is_settled
            samples.note_asked(name, patient=patient)
            no_future = cast("Any", None)  # nobody awaits an answer that is only played
            self._room.add(
                WaitingQuestion(number, arrival.tokens, patient, self._now, self._rules.max_questions, no_future)
            )
            self._send_due()
        elif step is SampleStep.WAIT:
            samples.waiting[name] = None
        else:
            samples.note_taken(name)

    def pass_time(self, until: float) -> None:
        """Let answers come and batches go; while pages wait, in the steps in which the crawl looks after them."""
        while True:
            while self._answers and self._answers[0][0] <= self._now:
                self._take_answers(self._answers.popleft()[1])
            self._send_due(is_at_end=until == math.inf)
            next_answer = self._answers[0][0] if self._answers else math.inf
            next_poll = self._now + self._rules.poll_seconds if self._room else math.inf
            if self._now >= until or until == next_answer == next_poll:
                return
            self._now = min(until, next_answer, next_poll)

    def _send_due(self, *, is_at_end: bool = False) -> None:
        """Send the batches that are due; at the end, when no page comes any more, all."""
        while self._room and len(self._answers) < self._rules.max_in_flight:
            if not is_at_end and self._room.due(self._now) is None:
                return
            self.batches.append([entry.question for entry in self._room.take(self._room.oldest())])
            self._answers.append((self._now + self._call_seconds, self.batches[-1]))

    def _take_answers(self, batch: list[int]) -> None:
        """Give a batch its answers. The model is taken to be right, and each template to hold one kind of page; doubts
        would cost extra.
        """
        asked = [self._samples[cast("PageArrival", self._arrivals[number]).template] for number in batch]
        for number, samples in zip(batch, asked, strict=True):
            samples.note_answer(str(number), "the type")
        for samples in {id(one): one for one in asked}.values():
            for name in list(samples.waiting):
                self.go_on(int(name))
