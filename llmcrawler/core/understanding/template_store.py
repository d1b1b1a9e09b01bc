"""Reads the templates of a crawl's sites, with all that is learned of them, from a file and keeps them in it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from llmcrawler.core.storage import Ledger, SiteState, StoredSite, TemplatesFile
from llmcrawler.core.understanding.extraction.corrections import Correction, correction_of, read_corrections
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.core.urls import origin_of, relative_url, site_name
from llmcrawler.errors import ConfigError, StorageFailed

logger = logging.getLogger(__name__)

SAVE_SECONDS: Final = 5.0
_SAVE_SHARE: Final = 20  # at most a twentieth of the time goes into it
_GROUPING: Final = "grouping"
# Reads (site, value, origin); raises ValueError for a value that it cannot read.
Reader = Callable[[str, Any, str], Any]


class LearnedPart(Protocol):
    """Component that gives what it has learned of a site as plain JSON; `restore` raises ValueError for anything else,
    `describe` tells what a person may want to know of a template.
    """

    def to_json(self, site: str) -> Any: ...

    def restore(self, site: str, value: Any, origin: str) -> None: ...

    def describe(self, site: str, template: str) -> Mapping[str, Any]: ...


class TemplateStore:
    """Opens the templates of each site, and saves them with what `parts` (by their names in the file) have learned.

    Without a file everything is learned anew and nothing is saved. `ledger` of a job notes up to which page the file
    knows all. What is in `forgotten` (names of parts, or "grouping" for all) is not read from the file. `keep` shares
    what is learned with the other workers of the crawl; such a crawl opens its sites with `take_up`.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        file: TemplatesFile | None,
        parts: Mapping[str, LearnedPart],
        *,
        ledger: Ledger | None = None,
        forgotten: Collection[str] = (),
        keep: Callable[[Mapping[str, SiteState]], Awaitable[None]] | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._keep = keep
        self._forgotten = forgotten
        self._file = file
        self._parts = parts
        self._save_seconds = save_seconds
        self._stored = file.load() if file else {}
        self._by_host = names_by_host(self._stored)
        ids = [one["template"] for stored in self._stored.values() for one in stored.templates]
        # What the ids of each site's templates begin with; "" stands for sites of the file that are not open.
        self._prefixes = dict.fromkeys((re.sub(r"\d+\Z", "", template) for template in ids), "")
        self._prefix_number = 0
        self._groupers: dict[str, Callable[[], TemplateGrouper]] = {}
        self._others: dict[str, dict[str, Any]] = {}  # parts of the file that this crawl does not have, by site
        self._corrections: dict[str, dict[str, Correction]] = {}
        self._saves = file is not None or keep is not None
        self.is_on_hold = False  # nothing is saved just now
        self._has_changed = False
        self._closing = asyncio.Event()
        self._saver: asyncio.Task[None] | None = None

    def knows(self, urls: Collection[str]) -> bool:
        """Tell whether earlier crawls have learned templates of all sites of these urls; False where there are none."""
        sites = set(map(site_name, urls))
        return bool(sites) and all(find_site(self._stored, site, self._by_host) is not None for site in sites)

    def open(self, url: str) -> TemplateGrouper:
        """Return the templates of the url's site, before its first page. Raises ConfigError where the file is damaged
        there.
        """
        site = site_name(url)
        stored = find_site(self._stored, site, self._by_host)
        if stored is not None and _GROUPING in self._forgotten and not stored.corrections:
            stored = None  # else its templates stay, as a person has spoken of them by their ids
        grouper = self._restored(site, stored, origin_of(url)) if stored else None
        if grouper is None:
            # Its ids begin as no other site's of the file do: a later crawl may have several of them.
            while (prefix := f"s{self._prefix_number}t" if self._prefix_number else "t") in self._prefixes:
                self._prefix_number += 1
            grouper = TemplateGrouper(prefix)
        return self._opened(site, grouper)

    def take_up(self, url: str, state: SiteState | None, prefix: str) -> TemplateGrouper:
        """Return the templates of a site that this worker begins to own, by what earlier owners have kept; `prefix`
        begins the ids where it is new.
        """
        if state is None:
            grouper = self.open(url)
            if not grouper.learned_groups():
                grouper = self._opened(site_name(url), TemplateGrouper(prefix))
            return grouper
        site, values = site_name(url), dict(state.state)
        grouper = TemplateGrouper.from_json(values.pop(_GROUPING), origin_of(url))
        grouper.go_on()
        self._correct(site, find_site(self._stored, site, self._by_host))
        for name, part in self._parts.items():
            if name in values:
                part.restore(site, values.pop(name), origin_of(url))
        return self._opened(site, grouper)

    def leave(self, site: str, grouper_of: Callable[[], TemplateGrouper]) -> None:
        """Ask for the templates of a site that was opened when they are needed: another one keeps them from now on."""
        self._groupers[site] = grouper_of

    def forget(self, site: str) -> None:
        self._groupers.pop(site, None)

    def keep_nothing(self) -> None:
        """Save nothing from here on, as where one page is only shown."""
        self._saves = False

    def state_of(self, site: str) -> SiteState:
        grouper = self._groupers[site]()
        parts = {name: part.to_json(site) for name, part in self._parts.items()}
        others = self._others.get(site, {})
        corrections = {template: one.to_json() for template, one in self._corrections.get(site, {}).items()}
        return SiteState(self._describe(site, grouper), {_GROUPING: grouper.to_json(), **parts, **others}, corrections)

    def correction_of(self, site: str, template: str) -> Correction | None:
        """Return what a person has corrected of a template of an open site, before this crawl began."""
        corrections = self._corrections.get(site)
        return correction_of(corrections, template, self._groupers[site]().resolve) if corrections else None

    def note_change(self) -> None:
        """Save soon, whatever becomes of the crawl: something was learned that has cost a call."""
        self._has_changed = True
        if self._saves and self._saver is None and not self._closing.is_set():
            self._saver = asyncio.ensure_future(self._save_from_time_to_time())

    def note_progress(self) -> None:
        """Save soon where progress is noted: a page is done, and its template is known."""
        if self._ledger is not None or self._keep is not None:
            self.note_change()

    async def close(self) -> None:
        """Save what was learned. If the disk takes no more, the log says so and the file is as it was."""
        self._closing.set()
        if self._saver is not None:
            await self._saver
        if self._saves and self._groupers and not self.is_on_hold:
            await self._save(logging.ERROR, "this crawl has learned")

    async def _save_from_time_to_time(self) -> None:
        pause = self._save_seconds
        while not self._closing.is_set():
            try:
                await asyncio.wait_for(self._closing.wait(), pause)
            except TimeoutError:
                if self._has_changed and not self.is_on_hold:
                    started = time.monotonic()
                    self._has_changed = False
                    await self._save(logging.WARNING, "was learned so far")
                    # A large site takes its time, which is not to be all of the crawl's.
                    pause = max(self._save_seconds, _SAVE_SHARE * (time.monotonic() - started))

    async def _save(self, level: int, what: str) -> None:
        """Save all; a failure is logged at the level, and `what` was not saved."""
        try:
            # Pages that end meanwhile may be in the states, which does no harm.
            seq = await self._ledger.last_seq() if self._ledger is not None else 0
            states = {site: self.state_of(site) for site in self._groupers}
            if self._keep is not None:
                await self._keep(states)
            if self._file is not None:
                await asyncio.to_thread(self._file.save, states)  # packing and the disk
            if self._ledger is not None:
                await self._ledger.note_learned(seq)
        except (OSError, ConfigError, StorageFailed) as error:
            where = "" if self._file is None else f" in {self._file.path}"
            logger.log(level, "What %s could not be kept%s: %s", what, where, error)

    def _opened(self, site: str, grouper: TemplateGrouper) -> TemplateGrouper:
        self._groupers[site] = lambda: grouper
        self._prefixes[grouper.prefix] = site
        return grouper

    def _restored(self, site: str, stored: StoredSite, origin: str) -> TemplateGrouper | None:
        assert self._file is not None
        try:
            state = stored.state()
            grouper = TemplateGrouper.from_json(state.pop(_GROUPING), origin)
            if (self._prefixes.get(grouper.prefix) or site) != site:
                logger.warning("The templates of %s have ids that another site of this crawl uses: learned again", site)
                return None
            for name, part in self._parts.items():
                if name in state:
                    value = state.pop(name)
                    if name not in self._forgotten and _GROUPING not in self._forgotten:
                        part.restore(site, value, origin)
            self._correct(site, stored)
        except (ValueError, KeyError) as error:
            raise damaged(self._file, site, error) from error
        self._others[site] = state
        logger.info("%d templates of %s are known from %s", len(grouper.learned_groups()), site, self._file.path)
        return grouper

    def _correct(self, site: str, stored: StoredSite | None) -> None:
        if stored is not None and stored.corrections:
            self._corrections[site] = read_corrections(stored.corrections)

    def _describe(self, site: str, grouper: TemplateGrouper) -> list[dict[str, Any]]:
        stored = self._stored.get(site) if self._others.get(site) else None
        before = {one["template"]: one for one in stored.templates} if stored else {}
        described = []
        for group in grouper.learned_groups():
            entry = {**asdict(group), "examples": [relative_url(url) for url in group.examples]}
            for part in self._parts.values():
                entry |= part.describe(site, group.template)
            described.append({**before.get(group.template, {}), **entry})
        return described


def check(file: TemplatesFile, urls: Iterable[str], readers: Mapping[str, Reader]) -> None:
    """Raise ConfigError for a file that a crawl of these urls could not read or could not write."""
    stored = file.load()
    for url in urls:
        site = find_site(stored, site_name(url))
        if site is None:
            continue
        try:
            state = site.state()
            TemplateGrouper.from_json(state[_GROUPING], origin_of(url))
            read_corrections(site.corrections)
            for name, reader in readers.items():
                if name in state:
                    reader(site_name(url), state[name], origin_of(url))
        except (ValueError, KeyError) as error:
            raise damaged(file, site_name(url), error) from error
    file.check_writable()


def names_by_host(stored: Iterable[str]) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for name in stored:
        found.setdefault(_host(name), []).append(name)
    return found


def find_site(
    stored: Mapping[str, StoredSite], site: str, by_host: Mapping[str | None, Sequence[str]] | None = None
) -> StoredSite | None:
    """Return the site itself, else the only one on the same host with another port: a staging server moves about."""
    if site in stored:
        return stored[site]
    others = (names_by_host(stored) if by_host is None else by_host).get(_host(site), ())
    return stored[others[0]] if len(others) == 1 else None


def damaged(file: TemplatesFile, site: str, error: Exception) -> ConfigError:
    return file.refusal(f"is damaged in the part about {site} ({error})")


def _host(site: str) -> str | None:
    return urlsplit(f"//{site}").hostname
