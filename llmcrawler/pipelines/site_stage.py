"""Runs stages that learn over the pages of a site: where workers share a crawl, one of them does it for all."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.distributed.page_json import RESULTS, page_of_json, page_to_json, results_to_json
from llmcrawler.errors import STOPPED, WorkGivenBack
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stage import Stage

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession


@dataclass(eq=False)
class SiteStage(Stage):
    """Runs here if this worker owns the page's site, else at its owner. `session` is None in one process."""

    sites: SiteRegistry
    session: DistributedSession | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        if self.session is not None:
            self.session.answer(self.name, self._answer)

    @abstractmethod
    async def run_here(self, page: Page) -> PageError | None:
        """Do the stage's work with what this process knows of the site. Returns and raises as `run` does."""

    async def run(self, page: Page) -> PageError | None:
        """Work here or at the site's owner. Raises WorkGivenBack when this worker leaves while it waits."""
        if self.session is None:
            return await self.run_here(page)
        site, with_html = self.sites.of(page.url).name, self.name == "record"
        is_owner, answer = await self.session.site_requests.ask(
            site, self.name, lambda: page_to_json(page, with_html=with_html)
        )
        if is_owner:
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
        """Work on a page of another worker. Raises WorkGivenBack where this one is stopped before it is done."""
        page = page_of_json(body)
        error = await self._run_alone(page)
        if error is not None and error.kind == STOPPED:
            raise WorkGivenBack
        return results_to_json(page, None if error is None else asdict(error))
