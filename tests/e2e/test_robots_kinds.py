"""What a crawl fetches of hosts whose robots.txt is of each kind, as the server saw it (RFC 9309, 2.3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.crawling import Outcome, explore
from tests.servers.robots_kinds import ALLOWS, FORBIDS, HOLDS, HOSTS, KINDS, OPEN, SHUT, UNREACHABLE, robots_server

QUICK = {"THROTTLE_BREAKER_REST_SECONDS": 0.2, "DOWNLOAD_TIMEOUT": 6, "RETRY_TIMES": 0, "CONCURRENT_REQUESTS": 100}
# What is fetched, and the kinds of errors, for each meaning.
EXPECTED: Mapping[str, tuple[set[str], list[str]]] = {
    HOLDS: ({OPEN}, ["robots"]),
    ALLOWS: ({OPEN, SHUT}, []),
    FORBIDS: (set(), ["robots", "robots"]),
    UNREACHABLE: (set(), ["robots_unreachable", "robots_unreachable"]),
}
REASONS: Mapping[str, str] = {
    "500": "500 Internal Server Error",
    "503-retry-after": "503 Service Unavailable",
    "reset": "connection (",
    "cut": "truncated (",
    "drip": "timeout (",
    "gzip-cut": "body (the compressed body is truncated)",
    "redirect-to-503": "503 Service Unavailable",
    "redirect-to-private": "it leads to http://10.0.0.1/robots.txt: private_address (",
    "redirect-to-no-host": "it leads to http://no-such-host.invalid/robots.txt: dns (",
}


@dataclass
class KindsCrawl:
    outcome: Outcome
    visits: Counter[str]
    origins: Mapping[str, str]

    def result(self, name: str) -> tuple[set[str], list[str]]:
        fetched = {path for path in (OPEN, SHUT) if self.visits[self.origins[name] + path]}
        return fetched, [kind for kind, _ in self._errors(name)]

    def warnings(self, name: str) -> int:
        return self.outcome.log.count(f"WARNING: {self.origins[name]}/robots.txt")

    def message(self, name: str) -> str:
        (message,) = {message for _, message in self._errors(name)}
        return message

    def _errors(self, name: str) -> list[tuple[str, str]]:
        errors = (page["error"] for page in self.outcome.pages if page["url"].startswith(f"{self.origins[name]}/"))
        return [(error["kind"], error["message"]) for error in errors if error]


def crawl_all(folder: Path) -> KindsCrawl:
    with robots_server().in_thread() as server:
        origins = {name: server.origin(host) for name, host in HOSTS.items()}
        listed = folder / "urls.txt"
        listed.write_text("\n".join(origin + path for origin in origins.values() for path in (OPEN, SHUT)))
        outcome = explore(folder, f"{origins['200']}{OPEN}", QUICK, urls=listed, depth=0, max_pages=1000)
        return KindsCrawl(outcome, server.visits.copy(), origins)


@pytest.mark.nightly
def test_each_kind_of_robots_txt_means_what_the_rfc_says(tmp_path: Path) -> None:
    """All in one crawl: most of its time is waiting for those that do not come."""
    crawl = crawl_all(tmp_path)
    assert len(KINDS) > 130
    assert {name: crawl.result(name) for name in KINDS} == {
        name: EXPECTED[kind.meaning] for name, kind in KINDS.items()
    }
    # Whose robots.txt forbids everything for what it is has one warning.
    warned = {name: int(kind.meaning in (UNREACHABLE, FORBIDS)) for name, kind in KINDS.items()}
    assert {name: crawl.warnings(name) for name in KINDS} == warned
    for name, reason in REASONS.items():
        assert "its robots.txt cannot be fetched, which forbids everything; it was requested" in crawl.message(name)
        assert reason in crawl.message(name)
    assert crawl.visits[f"{crawl.origins['501']}/robots.txt"] >= 4  # a status that is not tried again at once
    assert crawl.outcome.exit_status == 0
