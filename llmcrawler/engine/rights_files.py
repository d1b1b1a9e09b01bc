"""Downloads the small files in which hosts say something of rights, as politely as pages and with robots.txt obeyed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http.request import NO_CALLBACK

from llmcrawler.core.politeness.rights import MAX_FILE_BYTES
from llmcrawler.engine.downloader import HostPaused
from llmcrawler.engine.request_context import CONTEXT, RequestContext

_META: Final = {
    "max_retry_times": 0,
    "redirect_ttl": 3,
    "download_timeout": 10.0,  # pages may wait for it
    "download_maxsize": MAX_FILE_BYTES,
    "autothrottle_dont_adjust_delay": True,
}
_PRIORITY: Final = 1000  # as that of a robots.txt: before pages


@dataclass(frozen=True, slots=True)
class RightsFiles:
    """Asks for each file once. One that is not there, too large or cannot be had now says nothing."""

    crawler: Crawler

    async def __call__(self, url: str, base: str) -> bytes | None:
        """Return the body. Raises HostPaused where the host is left alone for now."""
        assert self.crawler.engine is not None
        assert self.crawler.stats is not None
        meta = {**_META, CONTEXT: RequestContext(found_at=base)}
        self.crawler.stats.inc_value("llmcrawler/rights/files")
        try:
            response = await self.crawler.engine.download_async(
                Request(url, priority=_PRIORITY, meta=meta, callback=NO_CALLBACK)
            )
        except HostPaused:
            raise
        except Exception:  # noqa: BLE001 (whatever a download may raise)
            return None
        return response.body if response.status == 200 else None
