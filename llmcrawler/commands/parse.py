"""`scrapy parse` for spiders whose urls are leased: the page alone is fetched, its links are shown and not followed."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.commands.parse import Command as ParseCommand
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.spider import spidercls_for_request
from twisted.internet.defer import Deferred

from llmcrawler.commands import WithLog, config_errors_as_usage


class Command(WithLog, ParseCommand):
    """Shows one page as a spider of this project sees it; for other spiders it is Scrapy's own command."""

    usage = "[options] <url>"
    summary = "Show what a spider makes of one page"
    details = (
        "Fetch one page and show the item and the links that a spider (explore, if none is named) makes of it; no link"
        " is followed. With --pipelines the item is shown as in the feed. A JOBDIR is read for what it has learned, and"
        " left as it is."
    )

    def set_spidercls(self, url: str, opts: argparse.Namespace) -> None:
        from llmcrawler.crawl.configuration import JobSettings
        from llmcrawler.crawl.start_checks import check

        assert self.crawler_process is not None
        assert self.settings is not None
        loader = self.crawler_process.spider_loader
        if not opts.spider and spidercls_for_request(loader, Request(url)) is None:
            opts.spider = "explore"
        super().set_spidercls(url, opts)
        spider_class: Any = self.spidercls
        self._is_leasing = hasattr(spider_class, "given_options")
        if not self._is_leasing:  # a spider of the user's own
            return
        opts.spargs = {**opts.spargs, "url": url, "urls": "", "depth": "0"}
        # What the crawl of a JOBDIR has learned is read, and its urls are left alone.
        templates = JobSettings.of(self.settings).templates
        if templates is not None:
            self.settings.set("TEMPLATES_FILE", str(templates.path), priority="cmdline")
        self.settings.set("JOBDIR", None, priority="cmdline")
        with config_errors_as_usage(self.settings):
            check(self.settings, spider_class.given_options(opts.spargs), spider_class.name)

    def run_callback(self, response: Response, callback: Any, cb_kwargs: dict[str, Any] | None = None) -> Deferred[Any]:
        from llmcrawler.core.frontier.protocol import Lease, UrlTask
        from llmcrawler.core.urls import Scope
        from llmcrawler.crawl.compat import PARSE_DEPTH
        from llmcrawler.crawl.context import crawl_of
        from llmcrawler.engine.request_context import update_context
        from llmcrawler.items import Page

        if not self._is_leasing:
            return super().run_callback(response, callback, cb_kwargs)
        crawl = crawl_of(self.pcrawler)
        crawl.understanding.templates.keep_nothing()
        request = response.request
        assert request is not None
        url = response.meta.get("redirect_urls", [request.url])[0]
        lease = Lease(UrlTask(url, urlsplit(url).netloc, response.meta[PARSE_DEPTH] - 1))
        update_context(request, lease=lease)
        parsed = super().run_callback(response, callback, cb_kwargs)

        def with_links(output: list[Any]) -> list[Any]:
            update_context(request, lease=None)  # no other component is to wait for its return
            links = []
            for page in output:
                if isinstance(page, Page) and page.content is not None and crawl.page_robots.follows(page.robots):
                    scope = Scope((page.url,))  # of a crawl that starts there
                    urls = [link.url for link in page.content.links]
                    links += [Request(url) for url in urls if scope.reason_to_refuse(url, page.depth + 1) is None]
            return [*output, *links]

        return parsed.addCallback(list).addCallback(with_links)

    def scraped_data(self, args: Any) -> Any:
        """Run the pipelines to their end before the items are shown. Scrapy does not wait for them; ours wait for the
        model, and change the item.
        """
        items, requests, opts, depth, spider, callback = args
        if not self._is_leasing or not opts.pipelines:
            return super().scraped_data(args)

        async def through_pipelines() -> list[Any]:
            assert self.pcrawler.engine is not None
            for item in items:
                await self.pcrawler.engine.scraper.itemproc.process_item_async(item)
            opts.pipelines = False
            shown = super(Command, self).scraped_data((items, requests, opts, depth, spider, callback))
            opts.pipelines = True
            return shown

        return deferred_from_coro(through_pipelines())
