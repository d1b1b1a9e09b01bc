"""Adds page type, record and text to items of other projects' spiders."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, Self

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler

from llmcrawler.core.content import decode_page
from llmcrawler.core.understanding.site_reader import FetchedPage
from llmcrawler.crawl.configuration import ItemSettings, JobSettings
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.errors import ConfigError, ContentError
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stages import ClassifyPipeline, ContentPipeline, RecordPipeline, StageRules

# What an item may be told of its page: names of the lines of our feed.
RESULTS: Final = (  # in their order
    "page_type confidence decided_by template record record_by error title lang text content_hash robots".split()
)

logger = logging.getLogger(__name__)


class ItemUnderstanding:
    """Runs the stages of a page for each item with a `url` and its `html`; others pass. An item may wait here for its
    batch or its template; other items go on.

    `fields` maps what is found (see RESULTS) to the item's fields. An item of a declared type gets those that it has.
    """

    def __init__(
        self, rules: StageRules, crawl: CrawlContext, fields: Mapping[str, str], *, keeps_html: bool = True
    ) -> None:
        unknown = sorted(fields.keys() - set(RESULTS))
        if unknown or not fields:
            told = f"{unknown[0]!r} is nothing" if unknown else "it is empty: there is nothing"
            raise ConfigError(f"UNDERSTANDING_FIELDS: {told} of a page; there are: {', '.join(RESULTS)}")
        known = self._known = crawl.understanding
        self._robots = crawl.page_robots
        self._fields = fields
        self._keeps_html = keeps_html
        self._stages = (
            ContentPipeline(rules, known.sites, known.reader),
            ClassifyPipeline(rules, known.sites, known.classifier),
            RecordPipeline(rules, known.sites, known.classifier, known.records),
        )
        self._under_way: set[str] = set()
        self._has_seen_a_page = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl, items = crawl_of(crawler), ItemSettings.of(crawler.settings)
        assert crawler.stats is not None
        return cls(
            StageRules(crawler.stats, JobSettings.of(crawler.settings).stage_timeout_seconds, stop=crawl.stop),
            crawl,
            items.understanding_fields,
            keeps_html=items.understanding_keep_html,
        )

    async def open_spider(self) -> None:
        self._known.check_model(())

    async def process_item(self, item: Any) -> Any:
        adapter = ItemAdapter(item)
        url, html = adapter.get("url"), adapter.get("html")
        if not isinstance(url, str) or not isinstance(html, str | bytes):
            return item
        self._has_seen_a_page = True
        targets = self._targets(adapter)
        page = await self._understood(url, html if isinstance(html, str) else decode_page(html))
        await self._known.wait_for_check()
        for name, field in targets.items():
            value = getattr(page, name)
            adapter[field] = asdict(value) if isinstance(value, PageError) else value
        if not self._keeps_html:
            del adapter["html"]
        return item

    async def close_spider(self) -> None:
        if not self._has_seen_a_page:
            logger.warning("No item had a `url` and the page's `html`, so no page was classified")
        await self._known.close()

    def _targets(self, adapter: ItemAdapter) -> Mapping[str, str]:
        if isinstance(adapter.item, dict):
            return self._fields
        declared = set(adapter.field_names())
        targets = {name: field for name, field in self._fields.items() if field in declared}
        if not targets:
            raise ConfigError(
                f"{type(adapter.item).__name__} has no field for the results: declare some of "
                f"{', '.join(self._fields.values())}, or name yours in UNDERSTANDING_FIELDS"
            )
        return targets

    async def _understood(self, url: str, html: str) -> Page:
        page = Page(url)
        # The stages know what waits by its id, and two items may be of one url.
        names = (f"{url}#{number}" if number else url for number in count())
        page.id = next(name for name in names if name not in self._under_way)
        self._under_way.add(page.id)
        try:
            site = self._known.sites.of(url)
            fetched = FetchedPage(html, url, url)
            found = await self._known.reader.read(site, fetched, with_features=False, with_main=True)
            page.content, page.main = found.content, found.main
            page.html = html
            page.robots = self._robots.directives(datetime.now(UTC), (), page.content.robots)
            for stage in self._stages:
                page = await stage.process_item(page)
        except ContentError as error:
            page.error = PageError("content", error.kind, str(error))
        finally:
            self._under_way.discard(page.id)
        return page
