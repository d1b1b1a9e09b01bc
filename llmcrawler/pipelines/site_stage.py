"""Runs stages that learn over the pages of a site: where workers share a crawl, one of them does it for all."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.distributed.page_json import RESULTS, page_of_json, page_to_json, results_to_json
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stage import Stage, StageRules

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession


class SiteStage(Stage):
    """Runs here if this worker owns the page's site, else at the one that does. `session` is None in one process."""

    def __init__(self, rules: StageRules, sites: SiteRegistry, session: DistributedSession | None = None) -> None:
        super().__init__(rules)
        self._sites = sites
        self._session = session
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        if session is not None:
            session.answer(self.name, self._answer)

    @abstractmethod
    async def run_here(self, page: Page) -> PageError | None:
        """Do the stage's work with what this process knows of the site. Returns and raises as `run` does."""

    async def run(self, page: Page) -> PageError | None:
        """Work here or at the site's owner. Raises WorkGivenBack when this worker leaves while it waits."""
        if self._session is None:
            return await self.run_here(page)
        site, with_html = self._sites.of(page.url).name, self.name == "record"
        leads, answer = await self._session.desk.ask(site, self.name, lambda: page_to_json(page, with_html=with_html))
        if leads:
            return await self._run_alone(page)
        for name in RESULTS:
            setattr(page, name, answer[name])
        return PageError(**answer["error"]) if answer["error"] else None

    async def _run_alone(self, page: Page) -> PageError | None:
        """Do the stage's work on one page of a url at a time: a page whose lease was lost may come from two workers."""
        lock = self._locks.setdefault(page.id, asyncio.Lock())
        async with lock:
            return await self.run_here(page)

    async def _answer(self, body: Any) -> dict[str, Any]:
        page = page_of_json(body)
        error = await self._run_alone(page)
        return results_to_json(page, None if error is None else asdict(error))
