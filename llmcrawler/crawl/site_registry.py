"""Keeps the sites of a crawl, with what is learned over the pages of each, and regroups their pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llmcrawler.classification import Classifier
from llmcrawler.content import Boilerplate
from llmcrawler.crawl.template_store import TemplateStore
from llmcrawler.extraction import Records
from llmcrawler.storage import SiteState
from llmcrawler.templates import Changes, TemplateGrouper, recluster
from llmcrawler.urls import site_name

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession

logger = logging.getLogger(__name__)


@dataclass
class Site:
    """The templates and the boilerplate of one host. `regroupings` counts the changes of its groups."""

    name: str
    url: str
    grouper: TemplateGrouper
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    regroupings: int = 0
    clustering: asyncio.Lock = field(default_factory=asyncio.Lock)

    def adopt(self, grouper: TemplateGrouper) -> None:
        """Go on with the templates that another worker has learned."""
        self.grouper = grouper
        self.regroupings += 1


@dataclass(eq=False)
class SiteRegistry:
    """Opens sites by url. Where workers share the crawl (`session`), one of them learns each site's templates."""

    templates: TemplateStore
    classifier: Classifier
    records: Records
    session: DistributedSession | None = None
    _sites: dict[str, Site] = field(default_factory=dict, init=False)

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites.values())

    def of(self, url: str) -> Site:
        """Return the site of a url, which is opened if it is new; www.example.com and example.com are one."""
        name = site_name(url)
        if name not in self._sites:
            grouper = TemplateGrouper() if self.session is not None else self.templates.open(url)
            self._sites[name] = Site(name, url, grouper)
        return self._sites[name]

    def own(self) -> list[Site]:
        """Return the sites that this worker learns."""
        names = self._sites if self.session is None else self.session.site_requests.sites
        return [self._sites[name] for name in names if name in self._sites]

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

    def split(self, name: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        """Part a template whose samples (url -> label) disagree; None where nothing tells them apart."""
        site = self._sites[name]
        changes = site.grouper.split_by(template, labels)
        self.records.regroup(name, changes.aliases, changes.moved)
        site.regroupings += 1
        return changes if changes.moved or changes.splits else None

    async def take_site(self, name: str) -> None:
        """Go on with what the earlier owners of the site have learned: this worker owns it from now on."""
        assert self.session is not None
        shared, site = self.session.sites, self._sites[name]
        learned = await shared.fetch(name)
        state = None if learned is None else SiteState(learned["templates"], learned["state"])
        number = await shared.number() if learned is None else 0
        site.adopt(self.templates.take_up(site.url, state, f"s{number}t" if number else "t"))
        logger.info("This worker owns %s%s", name, "" if learned is None else ", with what was learned of it so far")
