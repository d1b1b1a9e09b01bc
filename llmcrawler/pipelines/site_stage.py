"""A stage that learns over the pages of a site: where workers share a crawl, one of them runs it for all."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.distributed.page_json import RESULTS, page_of_json, page_to_json, results_to_json
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
        """Do the stage's work, as `run`, with what this process knows of the site."""

    async def run(self, page: Page) -> PageError | None:
        """Raise WorkGivenBack when this worker leaves while it waits for the other."""
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
        """A page whose lease was lost may come from two workers; what waits for a template is known by its url."""
        lock = self._locks.setdefault(page.id, asyncio.Lock())
        async with lock:
            return await self.run_here(page)

    async def _answer(self, body: Any) -> dict[str, Any]:
        page = page_of_json(body)
        error = await self._run_alone(page)
        return results_to_json(page, None if error is None else asdict(error))
