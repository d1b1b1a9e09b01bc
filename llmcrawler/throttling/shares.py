"""Whether refusals answer to our load: if they do, fewer requests in flight, or a second, must make them rarer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, log2

_ENOUGH = 3  # refusals on each side
_ALIKE = 2.5
_MUCH_MORE = 3.5
_MEMORY = 500  # answers
_LATELY = 40  # likewise


@dataclass(slots=True)
class _Answers:
    served: float = 0.0
    refused: float = 0.0

    @property
    def share(self) -> float:
        return self.refused / (self.refused + self.served)


class RefusalShares:
    """Of a host that fails at random, as many are refused of a hundred that come one by one as of a hundred that come
    together. To give way to that has no end and helps nobody.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.most = 0.0  # the largest window that was refused
        self.noise = 0.0  # the share that is refused whatever the window is; 0: none is known
        self._lately = 0.0
        self._by_level: dict[int, _Answers] = {}  # by the binary logarithm of the window

    def served(self, window: float) -> None:
        if self.most:  # what was served before the first refusal says how long the crawl was
            self._at(window).served += 1
            self._lately -= self._lately / _LATELY

    def refused(self, window: float) -> None:
        if self.most:
            self._at(window).refused += 1
            self._lately += (1 - self._lately) / _LATELY
        self.most = max(self.most, window)
        if not self.noise:
            self.noise = self._lately = self._found_noise()
        elif self._lately > _MUCH_MORE * self.noise:
            self.forget()

    def _found_noise(self) -> float:
        """Half the window, or less, must have changed nothing."""
        if sum(answers.served + answers.refused for answers in self._by_level.values()) > _MEMORY:
            self._by_level = {at: _Answers(one.served / 2, one.refused / 2) for at, one in self._by_level.items()}
        levels = sorted(self._by_level)
        for split in levels[1:]:
            below = self._sum(level for level in levels if level < split)
            above = self._sum(level for level in levels if level >= split)
            is_known = below.refused >= _ENOUGH and above.refused >= _ENOUGH
            if is_known and above.share / _ALIKE <= below.share <= above.share * _ALIKE:
                return self._sum(levels).share
        return 0.0

    def _at(self, window: float) -> _Answers:
        return self._by_level.setdefault(floor(log2(window)), _Answers())

    def _sum(self, levels: Iterable[int]) -> _Answers:
        some = [self._by_level[level] for level in levels]
        return _Answers(sum(one.served for one in some), sum(one.refused for one in some))
