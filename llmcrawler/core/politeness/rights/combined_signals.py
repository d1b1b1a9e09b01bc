"""Combines what a site and a page say of their rights: the field `rights` of a page line, and what is refused
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.core.politeness.rights.uses import CONDITIONS, NO, USES, YES

RECORD, RESPECT, OFF = "record", "respect", "off"
MODES: Final = (RECORD, RESPECT, OFF)


@dataclass(frozen=True, slots=True)
class RightsPolicy:
    """`mode`: record, respect or off. `purpose`: one of USES, for which the pages are wanted; None: nobody said."""

    mode: str = RECORD
    purpose: str | None = None

    @property
    def refusing_purpose(self) -> str | None:
        """Return the purpose that pages which forbid it are refused for, if any."""
        return self.purpose if self.mode == RESPECT else None


CONTENT_USAGE, CONTENT_SIGNAL, RSL, TDMREP = "content-usage", "content-signal", "rsl", "tdmrep"
NOAI, NOIMAGEAI, AI_TXT, LLMS_TXT, LICENCE, PAYMENT = "noai", "noimageai", "ai.txt", "llms.txt", "licence", "payment"
SIGNALS: Final = (CONTENT_USAGE, CONTENT_SIGNAL, RSL, TDMREP, NOAI, NOIMAGEAI, AI_TXT, LLMS_TXT, LICENCE, PAYMENT)
ALLOWED, FORBIDDEN, UNSAID = VERDICTS = "allowed", "forbidden", "unsaid"

_MAX_CHARS: Final = 500  # of a value as it was written, and of where it stands
_MAX_SIGNALS: Final = 40  # of one page
_STRICTEST: Final = (NO, CONDITIONS, YES)


@dataclass(frozen=True, slots=True)
class Signal:
    """One statement: its standard, where it stands (the url of a file; or header, meta, link, structured-data), what it
    says of each use that it names, and how it is written.
    """

    name: str
    where: str
    uses: Mapping[str, str]
    value: str

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "where": self.where[:_MAX_CHARS],
            "uses": dict(self.uses),
            "value": self.value[:_MAX_CHARS],
        }

    def forbids(self, purpose: str) -> bool:
        """Return whether the purpose is not allowed without an agreement. The conditions of a public licence (credit,
        say) need none.
        """
        answer = self.uses.get(purpose)
        return answer == NO or (answer == CONDITIONS and self.name != LICENCE)

    def answer_to(self, purpose: str) -> str:
        return f"{self.uses[purpose]} by {self.name} ({self.where[:_MAX_CHARS]})"


def signals_of(rights: Mapping[str, Any] | None) -> list[Signal]:
    """Return the signals of a line's field."""
    return [] if rights is None else [Signal(**one) for one in rights["signals"]]


def rights_of(signals: Iterable[Signal], purpose: str | None) -> dict[str, Any] | None:
    """Return the field `rights`: the strictest answer to each use holds. None where nothing is said nor asked."""
    shown = list({(one.name, one.where, one.value): one for one in signals}.values())[:_MAX_SIGNALS]
    if not shown and purpose is None:
        return None
    counted = _counted(shown)
    answers = {use: [one for one in counted if use in one.uses] for use in USES}
    return {
        "uses": {
            use: min((one.uses[use] for one in said), key=_STRICTEST.index) for use, said in answers.items() if said
        },
        "verdict": None if purpose is None else _verdict(answers[purpose], purpose),
        "signals": [one.as_json() for one in shown],
        "conflicts": [text for use, said in answers.items() if (text := _conflict(use, said))],
    }


def refusal_of(signals: Iterable[Signal], purpose: str) -> str | None:
    """Return which signal forbids the purpose, in words; None where none does."""
    signal = next((one for one in _counted(list(signals)) if one.forbids(purpose)), None)
    return None if signal is None else f"{purpose}: {signal.answer_to(purpose)}"


def _counted(signals: Sequence[Signal]) -> list[Signal]:
    """Leave out what another statement of its standard replaces: TDMRep's header does its file, its meta the header,
    and the later ones come later here.
    """
    last = next((one for one in reversed(signals) if one.name == TDMREP and one.uses), None)
    return [one for one in signals if one.name != TDMREP or one is last]


def _verdict(said: Sequence[Signal], purpose: str) -> str:
    if not said:
        return UNSAID
    return FORBIDDEN if any(one.forbids(purpose) for one in said) else ALLOWED


def _conflict(use: str, said: Sequence[Signal]) -> str:
    """Say which signals answer differently, the strictest first; "" where all agree."""
    first = {one.uses[use]: one for one in reversed(said)}
    if len(first) < 2:
        return ""
    return f"{use}: {', '.join(first[answer].answer_to(use) for answer in _STRICTEST if answer in first)}"
