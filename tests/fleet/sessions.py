"""Makes a worker's session of a crawl in a real Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmcrawler.core.storage.job_spec import JobSpec, SessionRules
from llmcrawler.fleet.session import DistributedSession
from tests.adapters.stubs import stub


def _ignore(*_: object) -> None:
    pass


def session_at(
    url: str, crawl_id: str, worker: str = "", lease_seconds: float = 10, **callbacks: Any
) -> DistributedSession:
    """`worker`: a name that the test knows. A page's line is kept in Redis until a feed has it."""
    given = {"take_site": _ignore, "widen_here": _ignore, "on_failure": _ignore, **callbacks}
    lines: Any = stub(unsafe=list, set_kept=_ignore)
    made = DistributedSession(SessionRules(url, crawl_id, lease_seconds), JobSpec("explore", {}), 1_000, lines, **given)
    if worker:
        made.worker = made.connection.worker = worker
        made.report = replace(made.report, worker=worker)
    return made
