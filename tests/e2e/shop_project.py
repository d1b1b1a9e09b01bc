"""A Scrapy project of somebody else's, with spiders and items of its own, that this project's add-ons go into."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, environment
from tests.e2e.killing import wait_until
from tests.servers.many_pages import ManyPages

# As `scrapy startproject shop` writes it, but for what only slows tests down.
_SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"
ADDONS = {addons!r}
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 5
DOWNLOAD_DELAY = 0
FEED_EXPORT_ENCODING = "utf-8"
TELNETCONSOLE_ENABLED = False
"""


@dataclass
class ShopProject:
    """`spiders` is the text of the one module with spiders."""

    folder: Path
    addons: dict[str, int]
    spiders: str

    def __post_init__(self) -> None:
        package = self.folder / "shop"
        (package / "spiders").mkdir(parents=True)
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        (package / "__init__.py").touch()
        (package / "spiders" / "__init__.py").touch()
        (package / "settings.py").write_text(_SETTINGS.format(addons=self.addons))
        self.write_spiders(self.spiders)

    def write_spiders(self, text: str) -> None:
        (self.folder / "shop" / "spiders" / "shop.py").write_text(text)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def run(self, *arguments: Any) -> int:
        """Run `scrapy ARGUMENTS` to its end; return the exit status."""
        with self.running(*arguments) as process:
            pass
        return process.returncode

    @contextmanager
    def running(self, *arguments: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Give the process of `scrapy ARGUMENTS`, for a test to do things to; it is waited for."""
        parts = [sys.executable, "-m", "scrapy", *map(str, arguments)]
        paths = os.pathsep.join((str(self.folder), str(ROOT)))
        kept = {**environment(), "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(
                parts, cwd=self.folder, env=kept, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                yield process
                process.wait(TIMEOUT_SECONDS)
            finally:
                process.kill()
                process.wait()

    def run_until(self, pages: ManyPages, count: int, *arguments: Any, number: int = signal.SIGKILL) -> int:
        """Send a signal when the site was asked for `count` pages; the exit status."""
        with self.running(*arguments) as process:
            wait_until(lambda: len(pages.requested) >= count, pages, process)
            process.send_signal(number)
        return process.returncode

    def items(self, feed: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / feed).read_text(encoding="utf-8").splitlines()]
