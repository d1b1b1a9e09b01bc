"""The only place that touches names which Scrapy, Twisted and scrapy-playwright keep to themselves.

Each private method that the project overrides has a base class here that gives it a public name; each private
attribute that it reads has a function or a property. tests/adapters/engine/compat holds them against the
installed versions, so an upgrade fails there. `execution` is about the running engine, `components` about middlewares,
extensions and the downloader, `http11` about HTTP connections, `rendering_handler` about scrapy-playwright.
"""

from llmcrawler.engine.compat.execution import (
    SpiderControl,
    close_spider_soon,
    end_with_failure,
    ignore_echo,
    is_closing,
    let_unopened_close,
    observe_scraping,
    on_stop,
    process_item,
    settle_scraper,
    wake_engine,
)
