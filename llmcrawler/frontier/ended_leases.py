"""Leases that came to their end, and wait to be acknowledged in Redis together."""

from __future__ import annotations

import json
import zlib
from asyncio import Future
from dataclasses import dataclass

from llmcrawler.storage import Outcome


@dataclass(frozen=True, slots=True)
class EndedLease:
    """`lease` is its name in Redis; `losses` are those of its worker when it ended."""

    lease: str
    url: str
    outcome: Outcome | None
    losses: int
    was_held: Future[bool]

    def parts(self, *, with_line: bool) -> tuple[str | int | bytes, ...]:
        """Return what the script that acknowledges it wants to know (frontier/redis_scripts.py)."""
        outcome = self.outcome
        line = None if outcome is None else outcome.line
        error = (line or {}).get("error")
        return (
            self.lease,
            0 if outcome is None else 1 if outcome.is_dead else 2 * outcome.is_duplicate,
            f"{error['stage']}/{error.get('kind', '')}" if error else "",
            zlib.compress(json.dumps(line).encode(), 1) if with_line and line is not None else "",
            self.url,
        )
