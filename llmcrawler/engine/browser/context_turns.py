"""Browser contexts take turns: one is closed after so many pages, and with it all that its pages have left behind."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class _Context:
    name: str
    pages: int = 0
    open_pages: int = 0


class ContextTurns:
    """Gives one context to each way out (`route`: a proxy, or none). Beyond `max_open`, idle ones are closed."""

    def __init__(self, max_pages: int, max_open: int = 8) -> None:
        self._max_pages = max_pages
        self._max_open = max_open
        self._current: OrderedDict[str, _Context] = OrderedDict()
        self._retired: dict[str, _Context] = {}
        self._issued = 0

    def enter(self, route: str) -> str:
        """Return the name of the context that a page goes into."""
        context = self._current.get(route)
        if context is not None and context.pages >= self._max_pages:
            self._retired[context.name] = context
            context = None
        if context is None:
            self._issued += 1
            context = self._current[route] = _Context(f"{self._issued}")
        self._current.move_to_end(route)
        context.pages += 1
        context.open_pages += 1
        return context.name

    def leave(self, name: str) -> list[str]:
        """Note that a page of the context is closed. Return the contexts to close now."""
        for context in (*self._current.values(), *self._retired.values()):
            if context.name == name:
                context.open_pages -= 1
        done = [context.name for context in self._retired.values() if not context.open_pages]
        for retired in done:
            del self._retired[retired]
        spare = len(self._current) - self._max_open
        idle = [route for route, context in self._current.items() if not context.open_pages]
        done += [self._current.pop(route).name for route in idle[: max(0, spare)]]
        return done
