"""`scrapy plan URL`: estimates a crawl from a few pages of the site, without a call of the model."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from time import monotonic
from typing import Any

from scrapy import signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler

from llmcrawler.commands import WithLog, config_errors_as_usage, show, wrong_usage

_SPIDER = "explore"
# Seconds from one word of progress to the next: on a terminal, where they take each other's place, and elsewhere.
_TERMINAL_SECONDS, _LOG_SECONDS = 0.5, 5.0
_LOOK_ONLY: dict[str, Any] = {
    "SCHEDULER": "llmcrawler.pipelines.plan_sampling.SamplingScheduler",
    "ITEM_PIPELINES": {
        "llmcrawler.pipelines.plan_sampling.SampledLinks": 50,
        "llmcrawler.pipelines.stages.ContentPipeline": 100,
        "llmcrawler.pipelines.plan_sampling.SamplingPipeline": 300,
    },
    "LLM_PROVIDER": "none",
    "LLM_MAX_COST_USD": 0,
    "TEMPLATES_FILE": "",
    "JOBDIR": None,
    "FEEDS": {},
    "PAGE_STAGES": [],
    "PROGRESS": "off",
    "STATS_DUMP": False,
}


class Command(WithLog, BaseRunSpiderCommand):
    """Exits as `scrapy crawl` does: 0, 1 an error of the crawler itself, 2 wrong usage, 3 stopped, 4 no page came."""

    usage = "[options] <url>"
    summary = "Tell what a crawl would take: pages, time, LLM calls, money"
    details = (
        "Fetch a few pages of a site, as politely as a crawl, and tell what a crawl of it would come to. No model is"
        " asked, and no key is needed. -a and -s are those of the crawl; with -s JOBDIR=FOLDER the plan is kept there,"
        " for scrapy status. Exit status: 0, 2 wrong usage, 3 stopped before its end, 4 no page could be fetched."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--sample", type=int, default=100, metavar="N", help="pages to fetch (100)")
        parser.add_argument(
            "--models",
            default="",
            metavar="A,B",
            help="compare models by their names; none: without a model",
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise wrong_usage("name one url: scrapy plan [options] https://example.com")
        if opts.sample < 1:
            raise wrong_usage("--sample is at least 1")
        # What is imported from here on takes a second.
        sys.stderr.write(f"Looking at up to {opts.sample:,} pages of {args[0]}; no model is used\n")
        sys.stderr.flush()
        super().process_options(args, opts)
        from llmcrawler.crawl.arguments import ExploreOptions
        from llmcrawler.crawl.configuration import SAMPLE_PAGES, JobSettings
        from llmcrawler.crawl.plan_terms import NO_MODEL, plan_terms
        from llmcrawler.crawl.start_checks import check

        assert self.settings is not None
        names = [name.strip() for name in opts.models.split(",") if name.strip()]
        without_model = self.settings.copy()  # which may lack a key
        without_model.set("LLM_PROVIDER", NO_MODEL, priority="cmdline")
        with config_errors_as_usage():
            options = ExploreOptions.of({**opts.spargs, "url": args[0]})
            check(without_model, options, _SPIDER)
            self._jobdir, self._url = JobSettings.of(self.settings).jobdir, options.urls[0]
            self._terms = [plan_terms(self.settings, options, name) for name in names or [""]]
        self.settings.setdict({**_LOOK_ONLY, SAMPLE_PAGES: opts.sample}, priority="cmdline")
        if not opts.loglevel:
            self.settings.set("LOG_LEVEL", "ERROR", priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.reporting.exit_status import ExitStatus, exit_status_of
        from llmcrawler.core.reporting.planning.estimate import make_plans
        from llmcrawler.core.reporting.planning.site_sample import Sampler
        from llmcrawler.core.reporting.terminal_tables import no_page, plan_tables
        from llmcrawler.crawl.context import find_crawl
        from llmcrawler.crawl.job import keep_plan
        from llmcrawler.extensions.progress_reports import read_hosts

        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(_SPIDER)
        self._progress = _Progress(crawler, opts.sample)  # signals hold no receivers
        self.crawler_process.crawl(crawler, **{**opts.spargs, "url": args[0]})
        self.crawler_process.start()
        crawl = find_crawl(crawler)
        sampler = (None if crawl is None else crawl.sampler) or Sampler()
        sample = sampler.sample()
        assert crawler.stats is not None
        self.exitcode, why = exit_status_of(crawler.stats.get_stats(), max_errors_share=1)
        if all(page.error is not None for page in sample.pages):
            sys.stderr.write(f"{no_page(args[0], sampler.failures, why)}\n")
            self.exitcode = self.exitcode or ExitStatus.UNREACHABLE
            return
        if self.exitcode:
            sys.stderr.write(f"This plan is based on the pages fetched so far: {why}\n")
        # A Crawl-delay in robots.txt is known by now.
        gap = max((host.gap_seconds for host in read_hosts(crawler)), default=0.0)
        terms = [replace(one, gap_seconds=max(one.gap_seconds, gap)) for one in self._terms]
        plan = make_plans(self._url, sample, terms)
        if self._jobdir is not None:
            keep_plan(self._jobdir, plan)
        show(plan, plan_tables(plan), as_json=opts.json)


class _Progress:
    def __init__(self, crawler: Crawler, most_pages: int) -> None:
        self._crawler = crawler
        self._most_pages = most_pages
        self._is_terminal = sys.stderr.isatty()
        crawler.signals.connect(self.start, signals.spider_opened)
        crawler.signals.connect(self.stop, signals.spider_closed)

    def start(self) -> None:
        self._started = monotonic()
        self._telling = asyncio.ensure_future(self._go_on_telling())

    def stop(self) -> None:
        self._telling.cancel()
        self._tell()
        sys.stderr.write("\n" * self._is_terminal)

    async def _go_on_telling(self) -> None:
        # Not Scrapy's looping call: uvloop wakes it up to half a millisecond early, and it calls dozens of times then.
        while True:
            await asyncio.sleep(_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS)
            self._tell()

    def _tell(self) -> None:
        from llmcrawler.core.reporting.terminal_tables import sampling_line
        from llmcrawler.crawl.context import crawl_of

        sampler = crawl_of(self._crawler).sampler
        assert sampler is not None
        line = sampling_line(sampler.page_count, self._most_pages, sampler.url_count, monotonic() - self._started)
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()
