"""A Scrapy project of somebody else's, as `scrapy startproject` makes it, with a spider and items of its own."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.e2e import warm
from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, Outcome, environment
from tests.e2e.killing import wait_until
from tests.servers.many_pages import ManyPages

SPIDER = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class PagesSpider(CrawlSpider):
    name = "pages"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse_page(self, response):
        return {"url": response.url, "html": response.text}
"""
# The template asks for one request a second; and nothing of this machine's is to be in it.
QUICK: dict[str, object] = {"CONCURRENT_REQUESTS_PER_DOMAIN": 5, "DOWNLOAD_DELAY": 0, "TELNETCONSOLE_ENABLED": False}
QUICK |= {"REMOTE_CONTROL_ENABLED": False, "LLM_PROVIDER": "none", "LLM_CACHE": False, "LOG_LEVEL": "INFO"}


class StrangersProject:
    """The project `shop` in a folder. What is written into it is all that a stranger has to change."""

    def __init__(self, folder: Path, spider: str = SPIDER) -> None:
        self.folder = folder
        shutil.copytree(_started_project(), folder, dirs_exist_ok=True)
        self.write_spider(spider)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def write_spider(self, text: str) -> None:
        self.write("shop/spiders/pages.py", text)

    def set(self, *addons: str, **settings: Any) -> None:
        """Put add-ons (of llmcrawler.addons) and settings into the project's settings.py."""
        named = {f"llmcrawler.addons.{name}": number for number, name in enumerate(addons)}
        lines = [f"{name} = {value!r}\n" for name, value in {**QUICK, "ADDONS": named, **settings}.items()]
        with (self.folder / "shop" / "settings.py").open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def crawl(self, url: str) -> Outcome:
        """Run the spider `pages` from a url to its end; return its exit status, its log and its items."""
        status = self.run("crawl", "pages", "-a", f"url={url}", "-O", "items.jsonl")
        return Outcome(status, self.log, self.items("items.jsonl"))

    def run(self, *arguments: str) -> int:
        """Run `scrapy ARGUMENTS` to its end; return the exit status."""
        with self.running(*arguments) as process:
            pass
        assert process.returncode is not None
        return process.returncode

    @contextmanager
    def running(self, *arguments: str) -> Iterator[warm.Process]:
        """Give the process of `scrapy ARGUMENTS`, for a test to do things to; it is waited for."""
        with (self.folder / "log").open("wb") as log, _scrapy(*arguments, cwd=self.folder, log=log) as process:
            try:
                yield process
                process.wait(TIMEOUT_SECONDS)
            finally:
                process.kill()

    def run_until(self, pages: ManyPages, count: int, *arguments: str, number: int = signal.SIGKILL) -> int:
        """Send a signal when the site was asked for `count` pages; return the exit status."""
        with self.running(*arguments) as process:
            wait_until(lambda: len(pages.requested) >= count, pages, process)
            process.send_signal(number)
        assert process.returncode is not None
        return process.returncode

    @property
    def log(self) -> str:
        """What the last command wrote to its output and its log."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def items(self, feed: str) -> list[dict[str, Any]]:
        """Read a feed of JSON lines; one that is not there has no items."""
        path = self.folder / feed
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@functools.cache
def _started_project() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="strangers-project-")
    atexit.register(folder.cleanup)
    with _scrapy("startproject", "shop", folder.name, cwd=Path(folder.name), log=subprocess.DEVNULL) as process:
        assert process.wait(TIMEOUT_SECONDS) == 0
    return Path(folder.name)


def _scrapy(*arguments: str, cwd: Path, log: IO[bytes] | int) -> warm.Process:
    own = {name: value for name, value in environment().items() if name != "SCRAPY_SETTINGS_MODULE"}
    # A spider that is written anew within a second must not be taken from the bytecode of the one before.
    own |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return warm.start([*warm.SCRAPY, *arguments], own, log, log, cwd)
