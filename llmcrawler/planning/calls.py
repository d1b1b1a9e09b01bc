"""How often the model will be asked for page types: the crawl's own rules of sampling and batching, played through.

There is no formula for it: when a batch goes depends on who waits. So pages arrive here at the pace of the crawl, each
does what classification.samples says, and waits in the room that the batches wait in (llm.waiting), with time that is
only counted. Some draws of the order of the pages give the range.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

from llmcrawler.classification.samples import Step, TemplateSamples
from llmcrawler.llm.waiting import BatchRules, Entry, WaitingRoom


@dataclass(frozen=True, slots=True)
class Arrival:
    """A page that comes. `is_settled`: its template can speak for it; `tokens` are what the model would be shown."""

    template: str
    tokens: int
    is_settled: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """`calls` show `pages` of `tokens`."""

    calls: int
    pages: int
    tokens: int


@dataclass(slots=True)
class _Group:
    samples: TemplateSamples
    sleepers: list[_Visitor]
    members: int = 0


@dataclass(frozen=True, slots=True)
class _Visitor:
    name: str
    group: _Group
    member: int
    tokens: int
    is_settled: bool


def play(arrivals: Sequence[Arrival | None], pace_seconds: float, call_seconds: float, rules: BatchRules) -> Asked:
    """`pace_seconds` pass between two pages, and `call_seconds` until the model answers. None is a page that needs no
    model.
    """
    return _Play(rules, call_seconds).run(arrivals, pace_seconds)


class _Play:
    def __init__(self, rules: BatchRules, call_seconds: float) -> None:
        self._rules = rules
        self._call_seconds = call_seconds
        self._room: WaitingRoom[_Visitor, None] = WaitingRoom(rules)
        self._groups: dict[str, _Group] = {}
        self._answers: list[tuple[float, int, list[_Visitor]]] = []
        self._numbers = count()
        self._now = 0.0
        self._asked = Asked(0, 0, 0)

    def run(self, arrivals: Sequence[Arrival | None], pace_seconds: float) -> Asked:
        for number, arrival in enumerate(arrivals):
            self._pass_time(number * pace_seconds)
            if arrival is None:
                continue
            group = self._groups.setdefault(arrival.template, _Group(TemplateSamples(), []))
            group.members += 1
            self._go_on(_Visitor(str(number), group, group.members, arrival.tokens, arrival.is_settled))
        while self._room or self._answers:
            # Nothing else is going on: what waits is sent, unless an answer is still to come.
            if self._room and len(self._answers) < self._rules.max_in_flight:
                self._send()
            else:
                self._pass_time(self._answers[0][0])
        return self._asked

    def _go_on(self, visitor: _Visitor) -> None:
        samples = visitor.group.samples
        step = samples.step(visitor.name, visitor.member)
        if step in (Step.ASK, Step.ASK_PATIENTLY) or not visitor.is_settled:
            patient = step is Step.ASK_PATIENTLY and visitor.is_settled
            samples.note_asked(visitor.name, patient=patient)
            # Nobody waits for this answer but the play itself.
            future = cast("Any", None)
            self._room.add(Entry(visitor, visitor.tokens, patient, self._now, self._rules.max_questions, future))
            self._send_due()
        elif step is Step.WAIT:
            samples.waiting[visitor.name] = None
            visitor.group.sleepers.append(visitor)
        else:
            samples.note_taken(visitor.name)

    def _pass_time(self, until: float) -> None:
        """In steps of the crawl's own poll, where something waits."""
        while True:
            while self._answers and self._answers[0][0] <= self._now:
                self._answer(heapq.heappop(self._answers)[2])
            self._send_due()
            if self._now >= until:
                return
            moments = [until, *(answer[0] for answer in self._answers[:1])]
            if self._room:
                moments.append(self._now + self._rules.poll_seconds)
            self._now = max(self._now, min(moments))

    def _send_due(self) -> None:
        while self._room and len(self._answers) < self._rules.max_in_flight:
            if self._room.due(self._now) is None:
                return
            self._send()

    def _send(self) -> None:
        batch = [entry.question for entry in self._room.take(self._room.oldest())]
        tokens = sum(visitor.tokens for visitor in batch)
        asked = self._asked
        self._asked = replace(
            asked, calls=asked.calls + 1, pages=asked.pages + len(batch), tokens=asked.tokens + tokens
        )
        heapq.heappush(self._answers, (self._now + self._call_seconds, next(self._numbers), batch))

    def _answer(self, batch: Sequence[_Visitor]) -> None:
        for visitor in batch:
            # The model is taken to be right, and templates to hold one kind of page: doubts cost extra.
            visitor.group.samples.note_answer(visitor.name, "the type")
        for group in {id(visitor.group): visitor.group for visitor in batch}.values():
            sleepers, group.sleepers = group.sleepers, []
            for sleeper in sleepers:
                self._go_on(sleeper)
