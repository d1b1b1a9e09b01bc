"""`scrapy campaign sites.csv -o PLACE`: crawl many sites; `scrapy campaign status PLACE`: how far that is."""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, show, wrong_usage
from llmcrawler.errors import ConfigError, JobBusy

# Of the crawls: beside others, on the same cores. Those of the second row would write to the same file.
_DEFAULTS = {"CONTENT_WORKERS": "0", "PROGRESS": "log"}
_OWN = {"LOG_FILE": "", "FEEDS": "{}", "METRICS_PORT": "0", "METRICS_TEXTFILE": ""}


class Command(Offline, ScrapyCommand):
    """Exit status: 0 all bundles are over, 1 the disk is full, 2 wrong usage, 3 stopped before, 7 it is running."""

    usage = "[options] <sites.csv> | status <place>"
    summary = "Crawl many sites, or tell how far that is"
    details = (
        "Crawl the sites of a CSV file: a column url, and any arguments of explore in others. Sites with the same"
        " arguments share a process; as many run at once as the machine bears. The place has the lines of each site,"
        " a manifest, and what is needed to go on: the same command does, however it ended."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument
        add("-o", "--output", metavar="PLACE", help="where the campaign and its lines are kept: a folder, or s3://...")
        add("--work", metavar="FOLDER", help="on this machine's disk, to work in where PLACE is elsewhere")
        add("--ray", metavar="ADDRESS", help="crawl on the machines of a Ray cluster: auto, HOST:PORT or local")
        add("--format", metavar="FORM", default="jsonl", help="of the lines: jsonl (default), parquet")
        add("-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE", help="an argument of all sites")
        add("--retry", action="store_true", help="retry sites that are unreachable or were given up")
        add("--json", action="store_true", help="of status: print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args[:1] == ["status"] and len(args) == 2:
            self._show_status(args[1], opts)
        elif len(args) == 1 and opts.output:
            self._crawl(Path(args[0]), opts)
        else:
            how = "scrapy campaign [options] SITES.csv -o PLACE, or scrapy campaign status [--json] PLACE"
            raise wrong_usage(f"name a list and a folder: {how}")

    def _crawl(self, sites: Path, opts: argparse.Namespace) -> None:
        from llmcrawler.campaigns.campaign_storage import storage_at
        from llmcrawler.campaigns.sites_file import read_sites
        from llmcrawler.campaigns.stored_campaign import work_folder
        from llmcrawler.core.reporting.exit_status import ExitStatus

        assert self.settings is not None
        with config_errors_as_usage():
            rules = self._rules(opts)
            rows = read_sites(sites, _pairs("-a", opts.spargs), self._check)
            if "://" not in opts.output:
                opts.output = str(Path(opts.output).absolute())
            storage = storage_at(opts.output)
            # What all machines of a cluster reach may be no disk for SQLite's files.
            default = work_folder(opts.output) if opts.ray or "://" in opts.output else Path(opts.output)
            folder = Path(opts.work) if opts.work else default
            try:
                is_over = self._run(rows, rules, folder, storage, opts)
            except JobBusy as busy:
                sys.stderr.write(f"{busy}\n")
                self.exitcode = ExitStatus.BUSY
                return
            except (OSError, sqlite3.Error) as error:
                sys.stderr.write(f"{folder}: {error}. What was written before is kept: run the same command again\n")
                self.exitcode = ExitStatus.ERROR
                return
        self._show_status(opts.output, opts, is_brief=True)
        if not is_over:
            _tell("Stopped before the end: run the same command again to continue")
            self.exitcode = ExitStatus.INTERRUPTED

    def _run(self, rows: Any, rules: Any, folder: Path, storage: Any, opts: argparse.Namespace) -> bool:
        """Crawl until all is over; False: it was stopped before. Raises JobBusy where another process does already."""
        from llmcrawler.campaigns.campaign_file import CampaignFile
        from llmcrawler.campaigns.campaign_run import CampaignRun, prepare, retry
        from llmcrawler.campaigns.campaign_status import lock_campaign
        from llmcrawler.campaigns.stored_campaign import StoredCampaign, read_owner
        from llmcrawler.crawl.configuration import CampaignSettings

        assert self.settings is not None
        is_here = storage.is_at(folder)
        if is_here and read_owner(storage) is not None:
            raise ConfigError(f"{folder}: this campaign is being worked on in another folder: name one with --work")
        crawls, cores = self._crawls(folder, storage, opts)
        stored = StoredCampaign(folder, storage, _tell) if not is_here else None
        with lock_campaign(folder), stored or nullcontext(), closing(CampaignFile(folder)) as file:
            if opts.retry:
                retry(file, folder, storage)
            most_sites = CampaignSettings.of(self.settings).campaign_bundle_sites
            _tell(prepare(file, folder, rows, form=opts.format, cores=cores, most_sites=most_sites))
            if stored is not None:
                stored.save()  # the numbers of bundles, before anything is saved by them
            is_over = CampaignRun(folder, file, crawls, rules, _tell).run()
        if stored is not None and stored.is_lost:
            raise JobBusy(f"{storage}: another driver has taken this campaign over: `scrapy campaign status` shows it")
        return is_over

    def _rules(self, opts: argparse.Namespace) -> Any:
        from llmcrawler.campaigns.campaign_run import CampaignRules
        from llmcrawler.campaigns.site_lines import FORMATS
        from llmcrawler.core.storage.feeds.feed_checks import require_format
        from llmcrawler.crawl.configuration import CampaignSettings, LimitSettings
        from llmcrawler.crawl.start_checks import check_settings

        assert self.settings is not None
        if opts.format not in FORMATS:
            raise ConfigError(f"--format {opts.format}: it is one of {', '.join(FORMATS)}")
        require_format(opts.format)
        given = _pairs("-s", opts.set)
        for name in ("JOBDIR", "REDIS_URL"):
            if given.get(name):
                raise ConfigError(f"{name}: each bundle of a campaign has its own JOBDIR: leave it out")
        check_settings(self.settings)
        campaign = CampaignSettings.of(self.settings)
        return CampaignRules(
            retries=campaign.campaign_retries,
            retry_seconds=campaign.campaign_retry_seconds,
            stop_seconds=LimitSettings.of(self.settings).stop_seconds,
        )

    def _crawls(self, folder: Path, storage: Any, opts: argparse.Namespace) -> tuple[Any, int]:
        from llmcrawler.campaigns.cluster_crawls import ClusterCrawls, RayCluster
        from llmcrawler.campaigns.machine_crawls import crawls_of_machine
        from llmcrawler.campaigns.stored_campaign import BUDGET_FILE
        from llmcrawler.crawl.configuration import CampaignSettings, ModelSettings

        assert self.settings is not None
        given = {**_DEFAULTS, **_pairs("-s", opts.set), **_OWN}
        campaign, model = CampaignSettings.of(self.settings), ModelSettings.of(self.settings)
        if opts.ray:
            model.check_for_many_machines()
        elif not model.llm_budget_url:
            given = {"LLM_BUDGET_FILE": str(folder / BUDGET_FILE), **given}
        make = partial(crawls_of_machine, storage=storage, form=opts.format, settings=given, campaign=campaign)
        if opts.ray:
            cluster = RayCluster(opts.ray, partial(make, opts.work))
            return ClusterCrawls(cluster, _tell), sum(cluster.machines().values()) or 1
        crawls = make(folder, "", 0, _tell)
        return crawls, crawls.pool.cores

    def _check(self, options: Any) -> None:
        from llmcrawler.crawl.start_checks import check

        assert self.settings is not None
        settings = self.settings.copy()
        settings.set("FEEDS", {}, priority="cmdline")
        check(settings, options, "explore")

    def _show_status(self, place: str, opts: argparse.Namespace, *, is_brief: bool = False) -> None:
        from llmcrawler.campaigns.campaign_status import campaign_tables
        from llmcrawler.campaigns.campaign_storage import storage_at
        from llmcrawler.campaigns.stored_campaign import status_at

        with config_errors_as_usage():
            status = status_at(storage_at(place), time.time())
            show(status, campaign_tables(status, time.time(), is_brief=is_brief), as_json=opts.json)


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    for name, mark, value in pairs:
        if not name or not mark:
            raise ConfigError(f"{option} {name}{mark}{value}: it is NAME=VALUE")
    return {name: value for name, _mark, value in pairs}


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()
