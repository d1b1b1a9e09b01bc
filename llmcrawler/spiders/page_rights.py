"""Writes into pages what was said of their rights, and takes out what was read where that forbids the purpose."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from scrapy.http import Response

from llmcrawler.core.politeness.rights import (
    HEADERS,
    OFF,
    Signal,
    SiteRights,
    content_signals,
    header_signals,
    licence_files,
    noai_signals,
    refusal_of,
    rights_of,
    signals_of,
)
from llmcrawler.core.storage import Ledger
from llmcrawler.engine.downloader import HostPaused
from llmcrawler.engine.refusals import RefusalKind
from llmcrawler.engine.request_context import attempts_of
from llmcrawler.engine.rights_files import RightsFiles
from llmcrawler.items import Page, PageError


@dataclass(frozen=True, slots=True)
class PageRights:
    """Judges pages by what their hosts say and what they say themselves."""

    rights: SiteRights
    files: RightsFiles
    ledger: Ledger | None = None

    async def settle(self, page: Page, response: Response) -> None:
        """Give a page its rights when all that its host says is known. One that forbids the purpose loses what was read
        of it, where the crawl respects that.
        """
        if self.rights.policy.mode == OFF:
            return
        purpose = self.rights.policy.refusing_purpose
        with suppress(HostPaused):
            if purpose is not None:  # of a stored page nobody has asked the host
                self.rights.ask(response.url, self.files)
            await self.rights.answers(response.url)
        signals = await self._signals(page, response)
        self._write(page, signals)
        refusal = None if purpose is None else refusal_of(signals, purpose)
        if refusal is None:
            return
        page.withhold()
        page.content = page.html = None
        page.error = page.error or PageError("fetch", RefusalKind.RIGHTS, refusal, attempts_of(response.request))
        if self.ledger is not None:
            await self.ledger.forget_body(page.id)

    def note_failure(self, page: Page) -> None:
        """Give a page that could not be fetched what its host is known to say."""
        if self.rights.policy.mode != OFF:
            self._write(page, self.rights.signals_for(page.final_url or page.url))

    def _write(self, page: Page, signals: list[Signal]) -> None:
        page.rights = rights_of(signals, self.rights.policy.purpose)

    async def _signals(self, page: Page, response: Response) -> list[Signal]:
        said = self.rights.signals_for(response.url)
        if page.rights is not None:  # of an earlier run; what the host says may have changed since
            kept = (one for one in signals_of(page.rights) if not self.rights.is_file_of(response.url, one.where))
            return [*said, *kept]
        headers = {
            name: b", ".join(response.headers.getlist(name)).decode("latin-1")
            for name in HEADERS
            if name in response.headers
        }
        said += header_signals(response.status, headers)
        if page.content is not None:
            said += content_signals(page.content)
        said += noai_signals(headers, page.content, page.robots)
        for named in licence_files(headers, page.content):
            with suppress(HostPaused):
                said += await self.rights.licence_signals(response.url, named, self.files)
        return said
