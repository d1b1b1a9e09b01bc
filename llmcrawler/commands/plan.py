"""`scrapy plan URL`: estimates a crawl from a few pages of the site, without a call of the model."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings

from llmcrawler.commands import Described, config_errors_as_usage, show

if TYPE_CHECKING:
    from llmcrawler.crawl.arguments import ExploreOptions
    from llmcrawler.reporting.planning import CrawlTerms

_SPIDER = "explore"
_EMBEDDED_NAME = "embedded"
# A remote model answers in a second or two; the embedded one on two cores (README).
_CALL_SECONDS, _EMBEDDED_CALL_SECONDS = 1.5, 6.5
_LOOK_ONLY: dict[str, Any] = {
    "SCHEDULER": "llmcrawler.engine.sampling_scheduler.SamplingScheduler",
    "ITEM_PIPELINES": {
        "llmcrawler.pipelines.plan_sampling.SampledLinks": 50,
        "llmcrawler.pipelines.page_content.ContentPipeline": 100,
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


class Command(Described, BaseRunSpiderCommand):
    """Exit status: 0, 1 when no page could be fetched, 2 wrong usage."""

    usage = "[options] <url>"
    summary = "Tell what a crawl would take: pages, time, LLM calls, money"
    details = (
        "Fetch a few pages of a site, as politely as a crawl, and tell what a crawl of it would come to. No model is"
        " asked. -a and -s are those of the crawl; with -s JOBDIR=FOLDER the plan is kept there, for scrapy status."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--sample", type=int, default=100, metavar="N", help="pages to fetch (100)")
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.reporting.planning.sampler import SAMPLE_PAGES

        super().process_options(args, opts)
        assert self.settings is not None
        if len(args) != 1:
            raise UsageError("name one url: scrapy plan [options] https://example.com", print_help=False)
        if opts.sample < 1:
            raise UsageError("--sample is at least 1", print_help=False)
        self._options, self._jobdir, self._terms = _read(self.settings, {**opts.spargs, "url": args[0]})
        self.settings.setdict({**_LOOK_ONLY, SAMPLE_PAGES: opts.sample}, priority="cmdline")
        if not opts.loglevel:
            self.settings.set("LOG_LEVEL", "ERROR", priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.crawl.context import find_crawl
        from llmcrawler.crawl.job import keep_plan
        from llmcrawler.reporting.plan_tables import plan_tables
        from llmcrawler.reporting.planning import make_plan
        from llmcrawler.reporting.planning.sampler import Sampler

        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(_SPIDER)
        self.crawler_process.crawl(crawler, **{**opts.spargs, "url": args[0]})
        self.crawler_process.start()
        crawl = find_crawl(crawler)
        sampler = None if crawl is None else crawl.sampler
        sample = (sampler or Sampler()).sample()
        if all(page.error is not None for page in sample.pages):
            errors = ", ".join(sorted({str(page.error) for page in sample.pages})) or "see the log"
            sys.stderr.write(f"No page of {args[0]} could be fetched: {errors}\n")
            self.exitcode = 1
            return
        plan = make_plan(self._options.urls[0], sample, _with_gap(self._terms, crawler))
        if self._jobdir is not None:
            keep_plan(self._jobdir, plan)
        show(plan, plan_tables(plan), as_json=opts.json)


def _read(settings: BaseSettings, arguments: dict[str, Any]) -> tuple[ExploreOptions, Path | None, CrawlTerms]:
    from llmcrawler.crawl.arguments import ExploreOptions
    from llmcrawler.crawl.start_checks import check

    with config_errors_as_usage():
        options = ExploreOptions.of(arguments)
        check(settings, options, _SPIDER)
        terms = _terms(settings, options)
    return options, Path(settings["JOBDIR"]) if settings.get("JOBDIR") else None, terms


def _terms(settings: BaseSettings, options: ExploreOptions) -> CrawlTerms:
    from llmcrawler.classification import call_tokens
    from llmcrawler.crawl.configuration import batch_rules, model_of, page_types_of, record_types_of
    from llmcrawler.extraction import annotation_tokens
    from llmcrawler.llm import resolve_provider
    from llmcrawler.reporting.planning import THOUGHT_TOKENS, CrawlTerms

    model = model_of(settings)
    terms = CrawlTerms(
        max_pages=options.max_pages,
        gap_seconds=settings.getfloat("DOWNLOAD_DELAY"),
        concurrency=settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
    )
    if model is None:
        return terms
    page_types = page_types_of(options)
    small, choice = model.is_embedded, resolve_provider(settings, os.environ)
    return replace(
        terms,
        model=_EMBEDDED_NAME if small else choice.model or choice.base_url,
        batches=batch_rules(settings, embedded=small),
        classifies=not model.is_only_for_records,
        call_seconds=_EMBEDDED_CALL_SECONDS if small else _CALL_SECONDS,
        classify_tokens=call_tokens(page_types, small_model=small),
        induce_tokens=annotation_tokens(options.wanted, small_model=small),
        thought_tokens=THOUGHT_TOKENS.get(choice.reasoning_effort or "", 0),
        price=model.budget.limits.price,
        weak_types={"listing", page_types.fallback or ""},
        record_types=record_types_of(settings, options),
        min_pages=settings.getint("RECORD_MIN_PAGES"),
        samples=settings.getint("RECORD_SAMPLES"),
        max_samples=settings.getint("RECORD_MAX_SAMPLES"),
        pages_a_training_call=1 if small else settings.getint("RECORD_MAX_SAMPLES"),
    )


def _with_gap(terms: CrawlTerms, crawler: Crawler) -> CrawlTerms:
    """Return the terms with a Crawl-delay in robots.txt, which is known by now."""
    from llmcrawler.extensions.progress_reports import read_hosts

    return replace(terms, gap_seconds=max([terms.gap_seconds, *(host.gap_seconds for host in read_hosts(crawler))]))
