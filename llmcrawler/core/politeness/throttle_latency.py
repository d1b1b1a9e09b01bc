"""Compares a host's latency with its baseline: how much of a rise is our load, and how much may be luck.

Latencies are compared by their logarithms, so that a rise is a ratio and one slow page weighs little. A round of
answers goes on until it can tell a rise of 20% from noise: a handful of answers of a steady host, hundreds of a noisy
one. A trial then tells whether the rise is load: fewer in flight must make the host faster, and more slower again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_RAISED = 1.2  # latency over its baseline that takes a step down
STEADY = 1.095  # a step up from here may raise it
_FIRST_ROUND = 4  # the baseline comes from the warm-up, when hardly anything is in flight
_LEAST_ROUND = 6
_SURE = 2.0  # standard errors
_NOISE_SECONDS = 0.005  # some milliseconds are the noise of this machine, however fast the host is
_MAX_ROUND = 400  # answers: a round that cannot tell by then is taken as it is
_LEAST_SPREAD = 0.02  # clocks and networks vary by that much in any case
_SPREAD_MEMORY = 50  # answers
_LEAST_CHANGE = 0.1  # of the logarithm of the latency: less is no change
_AGAIN = 1.5  # times as many in flight as with fewer: slower again by half, where it is load


@dataclass(frozen=True, slots=True)
class Round:
    """Answers of one round in sum: `mean` and `level` are mean logarithms of their latency and number in flight."""

    count: int = 0
    mean: float = 0.0
    level: float = 0.0

    def __add__(self, other: Round) -> Round:
        count = self.count + other.count
        share = other.count / count
        mean = self.mean + share * (other.mean - self.mean)
        return Round(count, mean, self.level + share * (other.level - self.level))

    @property
    def seconds(self) -> float:
        return math.exp(self.mean)

    @property
    def in_flight(self) -> float:
        return math.exp(self.level)


@dataclass(slots=True)
class LoadTrial:
    """Test of whether latency comes from our load. `window` is that of before, `knee` what the host can work on if so.
    One step down would not do: what slows a host for some seconds often ends meanwhile.
    """

    window: float
    knee: float
    raised: Round
    fewer: Round | None = None

    @property
    def reference(self) -> Round:
        """Return the round that the next one is compared with."""
        return self.raised if self.fewer is None else self.fewer

    def expected(self, this: Round, baseline: Round) -> float:
        """Return the change of the logarithm of latency if it is load: in proportion, within baseline and `raised`."""
        by_level = this.level - self.reference.level
        if self.fewer is None:
            return min(max(by_level, baseline.mean - self.raised.mean), -_LEAST_CHANGE)
        return max(min(by_level, self.raised.mean - self.fewer.mean), _LEAST_CHANGE)

    def window_again(self, fewer: Round) -> float:
        self.fewer = fewer
        return min(self.window, max(_AGAIN * fewer.in_flight, fewer.in_flight + 1.0))


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A `ratio` of latencies; `is_raised`: by 20% and more, not by luck; `is_load`: what a trial says, else None."""

    round: Round
    ratio: float
    is_raised: bool = False
    is_load: bool | None = None

    @property
    def knee(self) -> float:
        """Return where latency is half way to being raised, if the rise is load: too much waits in proportion."""
        return self.round.in_flight * math.sqrt(_RAISED) / min(self.ratio, 2.0)


class LatencyWatch:
    """Judges rounds of answers by the latency of a host that has no more in flight than it can work on. The baseline
    takes in what is like it; one that followed the load would let the load creep up without end.
    """

    def __init__(self) -> None:
        self.typical: float | None = None  # seconds, of the last answers
        self.trial: LoadTrial | None = None
        self._last_mean: float | None = None
        self._steps = 0
        self._mean_step = 0.0
        self._baseline: Round | None = None
        self._round = Round()
        self._next_look = 0.0
        self._to_skip = 0.0

    @property
    def baseline(self) -> float | None:
        return None if self._baseline is None else self._baseline.seconds

    def add(self, seconds: float, in_flight: int, window: float) -> RoundResult | None:
        """Return the result of a round of at least `window` answers, when this answer ends it."""
        answer = Round(1, math.log(max(seconds, 1e-4)), math.log(max(in_flight, 1)))
        if self._last_mean is not None:
            self._steps = min(self._steps + 1, _SPREAD_MEMORY)
            self._mean_step += (abs(answer.mean - self._last_mean) - self._mean_step) / self._steps
        self._last_mean = answer.mean
        if self._to_skip > 0:
            self._to_skip -= 1
            return None
        self._round += answer
        if self.typical is None:
            self.typical = seconds
        least = _FIRST_ROUND if self._baseline is None else max(_LEAST_ROUND, window)
        if self._round.count < max(least, self._next_look):
            return None
        self.typical = self._round.seconds
        self._next_look = 1.5 * self._round.count
        if self._baseline is None:
            self.rebase(self._round)
            return None
        if self.trial is not None:
            return self._compare(self._round, self._baseline, self.trial)
        return self._judge(self._round, self._baseline)

    def is_slow(self, seconds: float | None) -> bool:
        """Tell whether one answer is slower than noise makes it."""
        if self._baseline is None or not seconds:
            return False
        rise = math.log(seconds) - self._baseline.mean
        return rise > max(self._threshold(self._baseline), 2 * self._spread)

    def restart(self, window: float) -> None:
        """Begin a round and leave the next flight out: its quick answers come first, and would look fast alone."""
        self._begin()
        self._to_skip = window

    def rebase(self, baseline: Round) -> None:
        self._baseline = baseline
        self._begin()

    def _begin(self) -> None:
        self._round, self._next_look = Round(), 0.0

    def _judge(self, this: Round, baseline: Round) -> RoundResult | None:
        rise, doubt = this.mean - baseline.mean, self._doubt(this, baseline)
        threshold, is_long = self._threshold(baseline), this.count >= _MAX_ROUND
        if rise > threshold:
            # So sharp that a trial can tell the rise from none, too.
            if rise < 2 * _SURE * self._doubt(this, this) and not is_long:
                return None
            self._begin()
            return RoundResult(this, math.exp(rise), is_raised=True)
        if rise < -max(threshold / 2, _SURE * doubt):
            self._baseline = this
        elif rise < doubt or is_long:
            self._baseline = baseline + this
        elif _SURE * doubt > threshold:
            return None
        self._begin()
        return RoundResult(this, math.exp(rise))

    def _compare(self, this: Round, baseline: Round, trial: LoadTrial) -> RoundResult | None:
        reference = trial.reference
        change, expected = this.mean - reference.mean, trial.expected(this, baseline)
        is_long = this.count >= max(_LEAST_ROUND, reference.count)
        if abs(change - expected / 2) < _SURE * self._doubt(this, reference) and not is_long:
            return None
        self._begin()
        is_load = change < expected / 2 if expected < 0 else change > expected / 2
        return RoundResult(this, math.exp(this.mean - baseline.mean), is_load=is_load)

    def _doubt(self, one: Round, other: Round) -> float:
        return self._spread * math.sqrt(1 / one.count + 1 / other.count)

    def _threshold(self, baseline: Round) -> float:
        return math.log(max(_RAISED, 1 + _NOISE_SECONDS / baseline.seconds))

    @property
    def _spread(self) -> float:
        """Return the deviation around a drifting mean, from steps between neighbours (J. von Neumann, 1941)."""
        return max(_LEAST_SPREAD, self._mean_step * math.sqrt(math.pi) / 2)
