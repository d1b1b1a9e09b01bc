"""Opens the source of a report: a JOBDIR (its crawl may still run), a feed in JSON Lines (also gzipped) or those of
several workers; and tells which template each page has now.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from llmcrawler.core import content
from llmcrawler.core.storage import StoredSite, TemplatesFile
from llmcrawler.core.storage.job_file import JobConnection, Run, read_runs
from llmcrawler.core.storage.job_status import JobStatus, job_status, open_snapshot
from llmcrawler.core.storage.ledger import read_lines, read_page
from llmcrawler.core.understanding.extraction.corrections import (
    Correction,
    correction_of,
    described_templates,
    read_corrections,
)
from llmcrawler.core.understanding.extraction.learner import Learner, Variant, read_learners
from llmcrawler.core.urls import site_name
from llmcrawler.errors import ConfigError

FeedItem = Mapping[str, Any]

MAX_STEPS = 100_000  # of work on one page: a tenth of a second
_MAX_CHARS = 400_000  # of HTML
_ITEMS_AT_ONCE = 200
_TEMPLATE = re.compile(r'"kind": ?"template"')

_GAPS = (
    "Requests in flight, 429 and 503 answers, and what bounded the crawl: a feed has only the pages that came of it.",
    "Tokens and cost of the model: a feed has only the calls for learning a template.",
    "What waits in the queue, and earlier runs.",
    "The HTML of the pages: which element of a page each value comes from.",
)
_CURE = "With -s JOBDIR=FOLDER a crawl keeps these, and scrapy report FOLDER shows them."


@dataclass(slots=True)
class _LearnedSite:
    """`entries` are for people; what is `stored` for crawls is unpacked with the site's first page."""

    stored: StoredSite | None = None
    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    learners: Sequence[Learner] = ()
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    def now(self, template: str) -> str:
        return self.aliases.get(template, template)


class LearnedSites:
    """Learned templates, by site."""

    def __init__(self) -> None:
        self._sites: dict[str, _LearnedSite] = {}
        self.problems: list[str] = []

    def add(self, site: str, entries: Sequence[Mapping[str, Any]], stored: StoredSite | None = None) -> None:
        """Add what a feed, or the people's part of a file, says of templates. `stored` has the rest of the file."""
        known = self._sites.setdefault(site, _LearnedSite())
        known.stored = stored
        for one in entries:
            known.entries[str(one.get("template"))] = one
            known.aliases |= {str(alias): str(one.get("template")) for alias in one.get("aliases") or ()}

    @property
    def templates(self) -> list[dict[str, Any]]:
        """Return the entries of all templates, each with its `site`."""
        return [{**one, "site": name} for name, site in self._sites.items() for one in site.entries.values()]

    def now(self, item: FeedItem) -> FeedItem:
        """Return a page's line with the template that its own was merged into."""
        template, site = item.get("template"), self._sites.get(site_of(str(item.get("url"))))
        if site is None or not isinstance(template, str):
            return item
        return {**item, "template": site.now(template)}

    def variants(self, url: str, template: str, page_type: str, *, of_others: bool = False) -> list[Variant]:
        """Return the extractors of a template; where it has none, and `of_others`, those of the site's other templates
        of the page type.
        """
        site = self._site(url)
        some = [one for one in site.learners if one.key.page_type == page_type] if site is not None else []
        own = [one for one in some if one.key.template == template]
        found = [variant for learner in own or (some if of_others else ()) for variant in learner.variants]
        correction = correction_of(site.corrections, template, site.now) if site is not None else None
        return found if correction is None else correction.variants(found)

    def _site(self, url: str) -> _LearnedSite | None:
        name = site_of(url)
        site = self._sites.get(name)
        if site is not None and site.stored is not None:
            stored, site.stored = site.stored, None
            try:
                site.corrections = read_corrections(stored.corrections)
                state = stored.state()
                if "records" in state:
                    site.learners = read_learners(name, state["records"])
            except (ValueError, KeyError) as error:
                problem = f"What was learned of {name} is damaged ({error}): pages are shown as their lines say."
                self.problems.append(problem)
        return site


def is_readable(html: str) -> bool:
    """Tell whether a stored page costs little to read: strangers wrote it, and nobody may have to wait for it."""
    return len(html) <= _MAX_CHARS and content.is_cheap(html)


def site_of(url: str) -> str:
    """Return the site of a url, "" where it is invalid: anyone may have written a feed."""
    try:
        return site_name(url)
    except ValueError:
        return ""


@dataclass(slots=True)
class ReportSource:
    """A job or a feed. `items` are its pages with the templates that theirs were merged into, to be iterated once.
    `html_of` a url gives the stored page, None where it is not kept. `status` and `runs` are a job's. `gaps` tells what
    is missing, `cure` what helps.
    """

    name: str
    items: Iterable[FeedItem]
    learned: LearnedSites
    html_of: Callable[[str], str | None] = lambda _url: None
    status: JobStatus | None = None
    runs: Sequence[Run] = ()
    gaps: list[str] = field(default_factory=list)
    cure: str = ""

    @property
    def is_job(self) -> bool:
        return self.status is not None


def open_source(path: Path, now: float) -> AbstractContextManager[ReportSource]:
    """Open a JOBDIR or a feed. Raises ConfigError, also while its items are read, where it is neither."""
    return _open_job(path, now) if path.is_dir() else _open_feeds(path)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[FeedItem]]:
    """Give the lines of a JOBDIR or a feed as they are, to be iterated once. Raises ConfigError as `open_source`."""
    if path.is_dir():
        with open_snapshot(path) as connection:
            yield _job_items(connection)
        return
    yield _feed_lines(_feeds(path), may_be_empty=False)


@contextmanager
def _open_job(folder: Path, now: float) -> Iterator[ReportSource]:
    status = job_status(folder, now)
    with open_snapshot(folder) as connection:
        runs = read_runs(connection)
        if any(item.get("kind") == "url" for _seq, item in read_lines(connection, 0, 2**62, 1)):
            raise ConfigError(f"{folder}: it is the job of a map, which has urls and no pages: its feed lists them")
        learned = _learned(folder, runs)
        if not runs:
            learned.problems.append("The crawl has not written its history yet; it does so every 5 seconds.")

        def html_of(url: str) -> str | None:
            body = read_page(connection, url).body
            if body is None or not body.body:
                return None
            return content.decode_page(body.body, body.header("content-type"))

        items = map(learned.now, _job_items(connection))
        yield ReportSource(str(folder), items, learned, html_of, status, runs, learned.problems)


def _job_items(connection: JobConnection) -> Iterator[FeedItem]:
    last = 0
    while some := read_lines(connection, last, 2**62, _ITEMS_AT_ONCE):
        last = some[-1][0]
        yield from (item for _seq, item in some)


def _learned(folder: Path, runs: Sequence[Run]) -> LearnedSites:
    named = runs[-1].figures.get("settings", {}).get("TEMPLATES_FILE") if runs else None
    path = Path(named).expanduser() if named else folder / "templates.json"
    learned = LearnedSites()
    file = TemplatesFile(path, "TEMPLATES_FILE" if named else "JOBDIR")
    try:
        sites = file.load()
    except ConfigError as error:
        learned.problems.append(f"What was learned of the templates cannot be read: {error}.")
        return learned
    if not sites:
        what = f"No file of learned templates ({path.name}): there are no schemas and selectors to show."
        learned.problems.append(what)
    for site, stored in sites.items():
        try:
            learned.add(site, described_templates(file, site, stored), stored)
        except ConfigError as error:
            learned.problems.append(f"{error}.")
    return learned


def _feeds(path: Path) -> list[Path]:
    """Return a feed, or those that a pattern like pages-*.jsonl is of, the one that was written last at the end."""
    found = [] if path.exists() else [one for one in path.parent.glob(path.name) if one.is_file()]
    return sorted(found, key=lambda one: (one.stat().st_mtime, one)) or [path]


@contextmanager
def _open_feeds(path: Path) -> Iterator[ReportSource]:
    learned, feeds = LearnedSites(), _feeds(path)
    for feed in feeds:
        with _open_feed(feed) as file:
            _add_templates(learned, file)
    items = map(learned.now, _feed_lines(feeds, may_be_empty=bool(learned.templates)))
    yield ReportSource(path.name, items, learned, gaps=[*_GAPS], cure=_CURE)


@contextmanager
def _open_feed(path: Path) -> Iterator[IO[str]]:
    """Open a feed; raises ConfigError, also while it is read, where it cannot be."""
    if not path.exists():
        raise ConfigError(f"{path}: there is no such folder or file")
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8-sig") if is_packed else path.open(encoding="utf-8-sig") as lines:
            yield lines
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is damaged, or not a feed in JSON Lines ({error})") from error


def _add_templates(learned: LearnedSites, file: IO[str]) -> None:
    """Add the templates of a feed; one comes again when it changes. Lines that are none are left to `_feed_lines`."""
    for text in filter(_TEMPLATE.search, file):
        with suppress(ValueError, RecursionError):
            item = json.loads(text)
            if isinstance(item, dict) and item.get("kind") == "template" and isinstance(item.get("template"), str):
                examples = item.get("examples")
                urls = [url for url in examples if isinstance(url, str)] if isinstance(examples, list) else []
                learned.add(site_of(urls[0]) if urls else "", [item])


def _feed_lines(feeds: Sequence[Path], *, may_be_empty: bool) -> Iterator[FeedItem]:
    """Yield the pages of feeds. Of several feeds some may be empty, and each url comes once: after a worker's death
    another may have repeated it.
    """
    are_several, found = len(feeds) > 1, False
    seen: set[int] = set()
    for feed in feeds:
        with _open_feed(feed) as file:
            for item in _pages(file, feed, may_be_cut=may_be_empty or are_several):
                key = hash(item["url"])
                if key not in seen:
                    found = True
                    seen.update([key] * are_several)
                    yield item
    if not found and not may_be_empty:
        if are_several:
            raise ConfigError(f"{feeds[0]} and {len(feeds) - 1} more: there is no page in them")
        how = "a report needs a JOBDIR or a feed in JSON Lines"
        raise ConfigError(f"{feeds[0]}: there is no page in it; {how}")


def _pages(file: IO[str], path: Path, *, may_be_cut: bool) -> Iterator[FeedItem]:
    """Yield the pages of a feed, whose last line may be cut: the crawl is writing it, or was ended there."""
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        problem = "is not a line of a feed"
        try:
            item = json.loads(text)
        except (ValueError, RecursionError) as error:
            item, problem = None, f"is not JSON ({error}); a report needs a feed in JSON Lines"
        if not isinstance(item, dict):
            if may_be_cut and not text.endswith("\n"):
                return
            raise ConfigError(f"{path}: line {number} {problem}")
        if item.get("kind") == "page" and isinstance(item.get("url"), str):
            may_be_cut = True
            yield item
