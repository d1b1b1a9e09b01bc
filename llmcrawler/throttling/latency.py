"""A host's latency against its baseline: how much of a rise is load, and how much may be luck.

Latencies are compared by their logarithms, so that a rise is a ratio and one slow page weighs little. A round of
answers goes on until it can tell a rise of 20% from noise: a handful of answers of a steady host, hundreds of a noisy
one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from llmcrawler.throttling.rounds import Round, Spread
from llmcrawler.throttling.trial import Trial

_RAISED = 1.2  # latency over its baseline that takes a step down
_STEADY = 1.095  # a step up from here may raise it
_FIRST_ROUND = 4  # the baseline comes from the warm-up, when hardly anything is in flight
_LEAST_ROUND = 6
_SURE = 2.0  # standard errors
_NOISE_SECONDS = 0.005  # some milliseconds are the noise of this machine, however fast the host is
_MAX_ROUND = 400  # answers: a round that cannot tell by then is taken as it is
_WEAK_BASELINE = 4  # times the answers of the baseline: then the doubt is the baseline's, and this round mends it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a round came to. `ratio` is its latency over the baseline.

    `is_raised`: by 20% and more, and not by luck. `is_load`: what a trial's round says, None without a trial.
    """

    round: Round
    ratio: float
    is_raised: bool = False
    is_load: bool | None = None

    @property
    def seconds(self) -> float:
        return self.round.seconds

    @property
    def is_steady(self) -> bool:
        return self.ratio < _STEADY

    @property
    def knee(self) -> float:
        """Where latency is half way to being raised, if the rise is load: what is too much waits, in proportion."""
        return self.round.in_flight * math.sqrt(_RAISED) / min(self.ratio, 2.0)


class LatencyWatch:
    """`baseline` is the latency of a host that has no more in flight than it can work on.

    It takes in what is like it as far as noise goes, and gives way to what is faster: a baseline that followed the load
    would let the load creep up without end.
    """

    def __init__(self) -> None:
        self.typical: float | None = None  # seconds, of the last answers
        self._spread = Spread()
        self._baseline: Round | None = None
        self._round = Round()
        self._next_look = 0.0
        self._to_skip = 0.0
        self.trial: Trial | None = None

    @property
    def baseline(self) -> float | None:
        return None if self._baseline is None else self._baseline.seconds

    def add(self, seconds: float, in_flight: int, window: float) -> Verdict | None:
        """The verdict on a round of at least `window` answers, when this answer ends it."""
        answer = Round(1, math.log(max(seconds, 1e-4)), math.log(max(in_flight, 1)))
        self._spread.add(answer.mean)
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
        elif self.trial is not None:
            return self._compare(self._round, self._baseline, self.trial)
        else:
            return self._judge(self._round, self._baseline)
        return None

    def is_slow(self, seconds: float) -> bool:
        """Whether one answer is slower than noise makes it."""
        if self._baseline is None or seconds <= 0:
            return False
        rise = math.log(seconds) - self._baseline.mean
        return rise > max(self._threshold(self._baseline), 2 * self._spread.value)

    def restart(self, window: float) -> None:
        """Circumstances changed: forget the round so far, and leave the next flight out. Its quick answers come first,
        and a round of them alone would look fast."""
        self._begin()
        self._to_skip = window

    def rebase(self, baseline: Round) -> None:
        self._baseline = baseline
        self._begin()

    def was_not_load(self, raised: Round) -> None:
        """The baseline goes half of the way: a verdict may be wrong, and the next trial goes on from there."""
        if self._baseline is not None:
            half_way = (self._baseline.mean + raised.mean) / 2
            self._baseline = replace(self._baseline, mean=half_way)

    def _begin(self) -> None:
        self._round, self._next_look = Round(), 0.0

    def _judge(self, this: Round, baseline: Round) -> Verdict | None:
        rise, doubt = this.mean - baseline.mean, self._doubt(this, baseline)
        threshold, is_long = self._threshold(baseline), this.count >= _MAX_ROUND
        if rise > threshold:
            # So sharp that a trial can tell the rise from none, too.
            if rise < 2 * _SURE * self._doubt(this, this) and not is_long:
                return None
            self._begin()
            return Verdict(this, math.exp(rise), is_raised=True)
        if rise < -max(threshold / 2, _SURE * doubt):
            self._baseline = this
        elif rise < doubt or is_long:
            self._baseline = baseline + this
        elif _SURE * doubt > threshold:
            if this.count < _WEAK_BASELINE * baseline.count:
                return None
            self._baseline = baseline + this
        self._begin()
        return Verdict(this, math.exp(rise))

    def _compare(self, this: Round, baseline: Round, trial: Trial) -> Verdict | None:
        """Is the change nearer to that of load, or to none?"""
        reference = trial.reference
        change, expected = this.mean - reference.mean, trial.expected(this, baseline)
        is_long = this.count >= max(_LEAST_ROUND, reference.count)
        if abs(change - expected / 2) < _SURE * self._doubt(this, reference) and not is_long:
            return None
        self._begin()
        is_load = change < expected / 2 if expected < 0 else change > expected / 2
        return Verdict(this, math.exp(this.mean - baseline.mean), is_load=is_load)

    def _doubt(self, one: Round, other: Round) -> float:
        """The standard error of the difference of two rounds' means."""
        return self._spread.value * math.sqrt(1 / one.count + 1 / other.count)

    def _threshold(self, baseline: Round) -> float:
        return math.log(max(_RAISED, 1 + _NOISE_SECONDS / baseline.seconds))
