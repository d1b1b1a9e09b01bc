"""Whether latency is our load: fewer in flight must make a host faster, and more of them slower again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmcrawler.throttling.rounds import Round

_LEAST_CHANGE = 0.1  # of the logarithm of the latency: less is no change
_AGAIN = 1.5  # times as many in flight as with fewer: slower again by half, where it is load


@dataclass(slots=True)
class Trial:
    """`window` is that of before, `knee` what the host can work on if it is load that made the round `raised`.

    One step down would not do: what slows a host for some seconds often ends meanwhile.
    """

    window: float
    knee: float
    raised: Round
    fewer: Round | None = None

    @property
    def window_with_fewer(self) -> int:
        return max(1, min(math.ceil(self.knee), int(self.raised.in_flight - 0.5)))

    @property
    def reference(self) -> Round:
        """What the next round is compared with."""
        return self.raised if self.fewer is None else self.fewer

    def expected(self, this: Round, baseline: Round) -> float:
        """The change of the latency's logarithm if it is load: in proportion to what is in flight, down to the baseline
        and up to what it was.
        """
        by_level = this.level - self.reference.level
        if self.fewer is None:
            return min(max(by_level, baseline.mean - self.raised.mean), -_LEAST_CHANGE)
        return max(min(by_level, self.raised.mean - self.fewer.mean), _LEAST_CHANGE)

    def window_again(self, fewer: Round) -> float:
        self.fewer = fewer
        return min(self.window, max(_AGAIN * fewer.in_flight, fewer.in_flight + 1.0))
