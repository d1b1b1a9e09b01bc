"""A host's latency against its baseline, in rounds of some answers each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_FIRST_ROUND = 4  # the baseline comes from the warm-up, when hardly anything is in flight
_LEAST_ROUND = 6
# Under the median: a new connection or a heavy page slows some answers down, load slows all of them.
_QUANTILE = 0.35


@dataclass
class LatencyWatch:
    """`baseline` is the latency of a host that has no more in flight than it can work on.

    It falls with faster answers. It rises by no more than noise explains, or by `rebase`: a baseline that followed the
    load would let the load creep up without end.
    """

    baseline: float | None = None
    typical: float | None = None  # of the last round; of the first answer before that
    _round: list[float] = field(default_factory=list)
    _spread: float = 0.0  # standard deviation of an answer's latency, as a share of it
    _least: float = 0.0  # that the baseline has been

    def add(self, seconds: float, window: float) -> float | None:
        """The typical latency of a round of at least `window` answers when this one ends it, else None."""
        if self.typical is None:
            self.typical = seconds
        self._round.append(seconds)
        if len(self._round) < (_FIRST_ROUND if self.baseline is None else max(_LEAST_ROUND, window)):
            return None
        ordered = sorted(self._round)
        self.typical = ordered[int(_QUANTILE * len(ordered))]
        self._spread += (_spread(ordered) - self._spread) / 3
        self._round.clear()
        if self.baseline is None:
            self.rebase(self.typical)
        else:
            self._move_baseline(self.baseline, self.typical, self.noise(window))
        return self.typical

    def noise(self, window: float) -> float:
        """Two standard errors of a round's typical latency, as a share of it."""
        return 2 * 1.25 * self._spread / math.sqrt(max(_LEAST_ROUND, window))

    def restart(self) -> None:
        """Forget the answers of a round that began under other circumstances."""
        self._round.clear()

    def rebase(self, seconds: float) -> None:
        self.baseline = self._least = seconds

    def _move_baseline(self, baseline: float, typical: float, noise: float) -> None:
        """A part of the way down, as a round may be lucky; and up again as far as luck may have had to do with it."""
        if typical < baseline * (1 + noise):
            moved = baseline + (typical - baseline) / 5
            self.baseline = moved if typical < baseline else max(baseline, min(moved, self._least * (1 + noise)))
            self._least = min(self._least, self.baseline)

    def is_raised(self, seconds: float, factor: float) -> bool:
        # Some milliseconds are the noise of this machine, however fast the host is.
        return self.baseline is not None and seconds > max(factor * self.baseline, self.baseline + 0.005)


def _spread(ordered: list[float]) -> float:
    """The relative standard deviation, from the quartiles: outliers have no say."""
    quarter = len(ordered) // 4
    median = ordered[len(ordered) // 2]
    return (ordered[-1 - quarter] - ordered[quarter]) / (1.35 * median) if median > 0 else 0.0
