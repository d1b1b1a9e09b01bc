"""Runs `scrapy crawl` as a user does, in a process of its own (warm.py), and reads what came out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from tests.e2e import warm

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 300  # for what hangs: no test is about time that it is near to
# Quick, and with nothing of this machine's in it: no key, no cache of answers.
FAST = {
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "LLM_PROVIDER": "none",
    "LLM_CACHE": False,
    "STATS_DUMP": True,
    "RIGHTS_POLICY": "off",  # what is asked of a host beside its pages has tests of its own (test_rights.py)
}


@dataclass
class Outcome:
    exit_status: int
    log: str
    items: list[dict[str, Any]]

    @property
    def pages(self) -> list[dict[str, Any]]:
        return [item for item in self.items if item["kind"] == "page"]

    @property
    def templates(self) -> list[dict[str, Any]]:
        return [item for item in self.items if item["kind"] == "template"]

    def page(self, path: str) -> dict[str, Any]:
        """The one line of a path (with its query)."""
        (found,) = (page for page in self.pages if page["url"].split("/", 3)[3] == path.lstrip("/"))
        return found

    def error_kinds(self) -> Counter[str]:
        return Counter(page["error"]["kind"] for page in self.pages if page["error"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """Nothing of the machine's keys, all warnings; and Python may keep what it has compiled, as it does for users."""
    others = ("OPENAI_", "LLM_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, "PYTHONWARNINGS": "default"}


def command(
    arguments: dict[str, Any], settings: dict[str, Any], feed: Path | None, spider: str = "explore"
) -> list[str]:
    parts = [sys.executable, "-m", "scrapy", "crawl", spider]
    for name, value in arguments.items():
        parts += ["-a", f"{name}={value}"]
    for name, value in {**FAST, **settings}.items():
        parts += ["-s", f"{name}={value}"]
    return parts + (["-O", str(feed)] if feed else [])


def explore(tmp_path: Path, url: str, settings: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    return crawl("explore", tmp_path, {"url": url, **arguments}, settings or {})


def crawl(spider: str, tmp_path: Path, arguments: dict[str, Any], settings: dict[str, Any]) -> Outcome:
    feed = tmp_path / "feed.jsonl"
    done = warm.run(command(arguments, settings, feed, spider)[3:], environment(), TIMEOUT_SECONDS)
    items = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()] if feed.exists() else []
    return Outcome(done.returncode, done.stderr, items)


def scrapy(*arguments: Any, settings: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Another command than crawl."""
    given = [f"-s{name}={value}" for name, value in (FAST | (settings or {})).items()]
    return warm.run([*map(str, arguments), *given], environment(), TIMEOUT_SECONDS)


def rest_of_log(process: subprocess.Popen[str]) -> str:
    """What a process still writes to the log that a test has begun to read, and its end.

    ``communicate`` would lose what ``readline`` has read ahead.
    """
    assert process.stderr is not None
    watchdog = Timer(TIMEOUT_SECONDS, process.kill)
    watchdog.start()
    try:
        with process.stderr as log:
            return log.read()
    finally:
        process.wait()
        watchdog.cancel()
