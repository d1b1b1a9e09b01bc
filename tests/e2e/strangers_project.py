"""A Scrapy project of somebody else's, as `scrapy startproject` makes it, with a spider and items of its own."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, Outcome, environment

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
        self.write("shop/spiders/pages.py", spider)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def set(self, *addons: str, **settings: Any) -> None:
        """Put add-ons (of llmcrawler.addons) and settings into the project's settings.py."""
        named = {f"llmcrawler.addons.{name}": number for number, name in enumerate(addons)}
        lines = [f"{name} = {value!r}\n" for name, value in {**QUICK, "ADDONS": named, **settings}.items()]
        with (self.folder / "shop" / "settings.py").open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def crawl(self, url: str) -> Outcome:
        done = _scrapy("crawl", "pages", "-a", f"url={url}", "-O", "items.jsonl", cwd=self.folder)
        feed = self.folder / "items.jsonl"
        items = [json.loads(line) for line in feed.read_text("utf-8").splitlines()] if feed.exists() else []
        return Outcome(done.returncode, done.stderr, items)


@functools.cache
def _started_project() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="strangers-project-")
    atexit.register(folder.cleanup)
    _scrapy("startproject", "shop", folder.name, cwd=Path(folder.name))
    return Path(folder.name)


def _scrapy(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in environment().items() if name != "SCRAPY_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=cwd,
        env={**own, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
