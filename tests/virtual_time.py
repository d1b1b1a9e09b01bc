"""An asyncio event loop whose clock jumps to the next timer: minutes of waiting pass in no time, in the same order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class _JumpingSelector(selectors.SelectSelector):
    now = 0.0
    _turns_at_once = 0

    def select(self, timeout: float | None = None) -> Any:
        self._turns_at_once = 0 if timeout else self._turns_at_once + 1
        # No clock stands still: a timer for less than the clock's last digit would come at once for ever.
        self.now += max(0.0, timeout or 0.0) + (1e-9 if self._turns_at_once > 1000 else 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` is the virtual time in seconds. Nothing but timers may be waited for: no sockets, no threads."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_fast(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
