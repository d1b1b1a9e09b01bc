"""Whether a host counts requests a second, not those in flight: what its refusals say about that."""

from __future__ import annotations

_MORE = 1.5  # times the answers a second: far more
_FEW, _MANY = 3, 20  # in flight
_LONG_SECONDS = 3.0  # a host's answers a second over less than that prove little


class RateSuspicion:
    """Refused with as few in flight as went well a moment ago, and soon again: it is not those that the host minds.

    A limit in flight may look like that for two refusals: one that fell, or any to a busy crawler, which sees answers
    late and takes some too many for in flight. So it takes three, except where hardly anything is in flight, or so much
    that some do not matter.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._refusals = 0
        self._enough = 2
        self._proven = 0.0  # answers a second

    @property
    def is_strong(self) -> bool:
        return self._refusals >= 2

    @property
    def is_proven(self) -> bool:
        return self._refusals >= self._enough

    def refused(self, in_flight: int, most_served: int, answers: int, seconds: float, *, is_soon: bool) -> None:
        """After so many answers in so many seconds since the refusal before, with `most_served` of them in flight."""
        if not is_soon:
            self._refusals, self._enough = 0, 2
        if _FEW < in_flight < _MANY:
            self._enough = 3
        if in_flight > 2 and self._proven * seconds > _MORE * answers + 2:
            self._refusals, self._enough, self._proven = 0, 3, 0.0
        elif seconds >= _LONG_SECONDS:
            self._proven = answers / seconds
        if is_soon and most_served >= in_flight:
            self._refusals += 1
