"""Keeps the sites of a crawl, with what is learned over the pages of each, and regroups their pages."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sqlite3
import sys
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from llmcrawler.core.content import Boilerplate
from llmcrawler.core.storage import SiteState
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.extraction.records import Records
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.understanding.templates.clustering import recluster
from llmcrawler.core.understanding.templates.duplicates import DuplicateFinder
from llmcrawler.core.understanding.templates.grouping import Changes, TemplateGrouper
from llmcrawler.core.urls import site_name

MOST_AWAKE: Final = 500  # some 25 KB each, more of large sites

T = TypeVar("T")

logger = logging.getLogger(__name__)


class SiteShelf(Generic[T]):
    """Objects by the names of their sites, in the order in which these came. Beyond `most_awake` the one not asked for
    longest is put on disk until it is asked for; but none that is held elsewhere: a change there would be lost.
    """

    def __init__(self, most_awake: int) -> None:
        self._most_awake = most_awake
        self._awake: OrderedDict[str, T] = OrderedDict()
        self._names: dict[str, None] = {}
        self._file: sqlite3.Connection | None = None
        self._is_full = False

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names))

    def __setitem__(self, name: str, value: T) -> None:
        self._names[name] = None
        self._awake[name] = value
        self._awake.move_to_end(name)
        for _ in range(0 if self._is_full else min(2, len(self._awake) - self._most_awake)):  # others may all be held
            self._put_away()

    def __getitem__(self, name: str) -> T:
        if name not in self._awake:
            if name not in self._names or self._file is None:
                raise KeyError(name)
            (packed,) = self._file.execute("SELECT packed FROM sites WHERE name = ?", (name,)).fetchone()
            self[name] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by this process
        self._awake.move_to_end(name)
        return self._awake[name]

    def forget(self, name: str) -> None:
        """Let the next one of this name be new."""
        self._names.pop(name, None)
        self._awake.pop(name, None)

    def _put_away(self) -> None:
        name = next(iter(self._awake))
        self._awake.move_to_end(name)
        if sys.getrefcount(self._awake[name]) > 2:  # held by more than the shelf and the call of this function
            return
        try:
            if self._file is None:
                # The name "" gives a database of this connection alone. What does not fit its cache is in a file that
                # is never synced, and gone with the connection. Whichever thread collects the shelf closes it.
                self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._file.close)
                self._file.execute("CREATE TABLE sites (name TEXT PRIMARY KEY, packed BLOB) WITHOUT ROWID")
            packed = zlib.compress(pickle.dumps(self._awake[name], pickle.HIGHEST_PROTOCOL), 1)
            self._file.execute("INSERT OR REPLACE INTO sites VALUES (?, ?)", (name, packed))
            del self._awake[name]
        except sqlite3.Error as error:
            logger.warning("Sites are kept in memory because no temporary file can be written: %s", error)
            self._is_full = True


@dataclass
class Site:
    """The templates and the boilerplate of one host. `regroupings` counts the changes of its groups."""

    name: str
    url: str
    grouper: TemplateGrouper
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    regroupings: int = 0
    clustering: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(eq=False)
class SiteRegistry:
    """Opens sites by url; `most_awake` of them are in memory. `duplicates` is None where all pages are kept."""

    templates: TemplateStore
    classifier: Classifier
    records: Records
    duplicates: DuplicateFinder | None = None
    most_awake: int = MOST_AWAKE
    _template_counts: dict[str, int] = field(default_factory=dict, init=False)  # by site
    template_count: int = field(default=0, init=False)  # of all sites, as `count_templates` has counted them

    def __post_init__(self) -> None:
        self._sites: SiteShelf[Site] = SiteShelf(self.most_awake)

    def count_templates(self, site: Site) -> None:
        """Count the templates of a site anew, which has had a page, or whose groups have changed."""
        now = site.grouper.group_count
        self.template_count += now - self._template_counts.get(site.name, 0)
        self._template_counts[site.name] = now

    def of(self, url: str) -> Site:
        """Return the site of a url, which is opened if it is new; www.example.com and example.com are one."""
        name = site_name(url)
        if name not in self._sites:
            self._sites[name] = Site(name, url, self.templates.open(url))
            self.templates.leave(name, partial(self._grouper_of, name))
        return self._sites[name]

    def __iter__(self) -> Iterator[Site]:
        return (self._sites[name] for name in self._sites)

    def _grouper_of(self, name: str) -> TemplateGrouper:
        return self._sites[name].grouper

    async def recluster(self, site: Site) -> None:
        """Group the site's pages anew when it is time, in a thread: it takes about 30 ms."""
        if not site.grouper.due or site.clustering.locked():
            return
        async with site.clustering:
            clustering = await asyncio.to_thread(recluster, site.grouper.snapshot())
            changes = site.grouper.adopt(clustering)
            self.classifier.regroup(site.name, changes)
            self.records.regroup(site.name, changes.aliases, changes.moved)
            site.regroupings += 1
            self.count_templates(site)

    def split(self, name: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        """Part a template whose samples (url -> label) disagree; None where nothing tells them apart."""
        site = self._sites[name]
        changes = site.grouper.split_by(template, labels)
        self.records.regroup(name, changes.aliases, changes.moved)
        site.regroupings += 1
        self.count_templates(site)
        return changes if changes.moved or changes.splits else None

    def take_up(self, url: str, learned: Mapping[str, Any] | None, number: int) -> None:
        """Go on with what earlier owners of the site of a url have learned; `number` makes the ids of a new site its
        own.
        """
        name = site_name(url)
        state = None if learned is None else SiteState(learned["templates"], learned["state"])
        grouper = self.templates.take_up(url, state, f"s{number}t" if number else "t")
        self._sites[name] = Site(name, url, grouper)
        self.templates.leave(name, partial(self._grouper_of, name))
        self.count_templates(self._sites[name])

    def forget(self, name: str) -> None:
        self.template_count -= self._template_counts.pop(name, 0)
        self._sites.forget(name)
        self.templates.forget(name)
        self.records.forget(name)
