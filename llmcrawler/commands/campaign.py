"""`scrapy campaign sites.csv -o DIR`: crawl many sites; `scrapy campaign status DIR`: how far that is."""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from llmcrawler.commands import Offline, config_errors_as_usage, show

_HOW = "scrapy campaign [options] SITES.csv -o FOLDER, or scrapy campaign status [--json] FOLDER"
# Of the crawls: beside others, on the same cores. Those of the second row would write to the same file.
_DEFAULTS = {"CONTENT_WORKERS": "0", "PROGRESS": "log"}
_OWN = {"LOG_FILE": "", "FEEDS": "{}", "METRICS_PORT": "0", "METRICS_TEXTFILE": ""}
# In the campaign's folder, for all crawls together: what the model costs, and what sites of a platform have taught.
_SHARED = {"LLM_BUDGET_FILE": "budget.sqlite", "KNOWLEDGE_FILE": "knowledge.sqlite"}
_REFRESH_SECONDS = 2.0


class Command(Offline, ScrapyCommand):
    """Exit status: 0 all bundles are over, 1 the disk is full, 2 wrong usage, 3 stopped before, 7 it is running."""

    usage = "[options] <sites.csv> | status <folder>"
    summary = "Crawl many sites, or tell how far that is"
    details = (
        "Crawl the sites of a CSV file: a column url, and any arguments of explore in others. Sites with the same"
        " arguments share a process; as many run at once as the machine bears. The folder has the lines of each site,"
        " a manifest, and what is needed to go on: the same command does, however it ended."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-o", "--output", metavar="FOLDER", help="where the campaign and its lines are kept")
        parser.add_argument("--format", metavar="FORM", default="jsonl", help="of the lines: jsonl (default), parquet")
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE", help="an argument of all sites"
        )
        parser.add_argument("--retry", action="store_true", help="try sites again that are unreachable or given up")
        parser.add_argument("--json", action="store_true", help="of status: print JSON instead of tables")
        parser.add_argument("--html", metavar="FILE", help="of status: write a page to look at")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args[:1] == ["status"] and len(args) == 2:
            self._show_status(Path(args[1]), opts)
        elif len(args) == 1 and opts.output:
            self._crawl(Path(args[0]), Path(opts.output), opts)
        else:
            raise UsageError(f"name a list and a folder: {_HOW}", print_help=False)

    def _crawl(self, sites: Path, folder: Path, opts: argparse.Namespace) -> None:
        from llmcrawler.crawl.campaigns.campaign_file import CampaignFile
        from llmcrawler.crawl.campaigns.campaign_run import CampaignRun
        from llmcrawler.crawl.campaigns.campaign_start import prepare, retry
        from llmcrawler.crawl.campaigns.campaign_status import lock_campaign
        from llmcrawler.crawl.campaigns.place import Place
        from llmcrawler.crawl.campaigns.sites_file import read_sites
        from llmcrawler.errors import JobBusy
        from llmcrawler.reporting import ExitStatus

        assert self.settings is not None
        with config_errors_as_usage():
            rules = self._rules(opts)
            rows = read_sites(sites, _pairs("-a", opts.spargs), self._check)
            place = Place(self.settings.getint("CAMPAIGN_CRAWLS"), self.settings.getint("CAMPAIGN_BROWSERS"))
            try:
                lock = lock_campaign(folder)
            except JobBusy as busy:
                sys.stderr.write(f"{busy}\n")
                self.exitcode = ExitStatus.BUSY
                return
        try:
            with lock, config_errors_as_usage(), CampaignFile(folder) as file:
                if opts.retry:
                    retry(file, folder)
                most_sites = self.settings.getint("CAMPAIGN_BUNDLE_SITES")
                _tell(prepare(file, folder, rows, form=opts.format, cores=place.cores, most_sites=most_sites))
                is_over = CampaignRun(folder, file, place, rules, _tell).run()
        except (OSError, sqlite3.Error) as error:
            sys.stderr.write(f"{folder}: {error}. What was written before is kept: run the same command again\n")
            self.exitcode = ExitStatus.ERROR
            return
        self._show_status(folder, opts, is_brief=True)
        if not is_over:
            _tell("Stopped before its end: the same command goes on")
            self.exitcode = ExitStatus.INTERRUPTED

    def _rules(self, opts: argparse.Namespace) -> Any:
        """Raise ConfigError for what no crawl of the campaign could be started with."""
        from llmcrawler.crawl.campaigns.campaign_run import CampaignRules
        from llmcrawler.crawl.campaigns.site_lines import FORMATS
        from llmcrawler.crawl.start_checks import check_numbers
        from llmcrawler.errors import ConfigError
        from llmcrawler.storage.feeds.feed_checks import require

        assert self.settings is not None
        if opts.format not in FORMATS:
            raise ConfigError(f"--format {opts.format}: it is one of {', '.join(FORMATS)}")
        require(opts.format)
        given = _pairs("-s", opts.set)
        for name in ("JOBDIR", "REDIS_URL"):
            if given.get(name):
                raise ConfigError(f"{name}: each bundle of a campaign has a JOBDIR of its own: leave it out")
        check_numbers(self.settings)
        shared = {name: str(Path(opts.output, file)) for name, file in _SHARED.items()}
        return CampaignRules(
            form=opts.format,
            settings={**_DEFAULTS, **shared, **given, **_OWN},
            retries=self.settings.getint("CAMPAIGN_RETRIES"),
            retry_seconds=self.settings.getfloat("CAMPAIGN_RETRY_SECONDS"),
            stop_seconds=self.settings.getfloat("STOP_SECONDS"),
        )

    def _check(self, options: Any) -> None:
        from llmcrawler.crawl.start_checks import check

        assert self.settings is not None
        settings = self.settings.copy()
        settings.set("FEEDS", {}, priority="cmdline")
        check(settings, options, "explore")

    def _show_status(self, folder: Path, opts: argparse.Namespace, *, is_brief: bool = False) -> None:
        """Show how far it is: on a terminal, while it runs, again and again."""
        from llmcrawler.crawl.campaigns.campaign_status import campaign_status
        from llmcrawler.crawl.campaigns.campaign_tables import campaign_tables

        with config_errors_as_usage():
            status = campaign_status(folder)
            if opts.html:
                self._write_page(Path(opts.html), status)
                return
            if status["is_running"] and not is_brief and not opts.json and sys.stdout.isatty():
                status = _follow(folder)
            show(status, campaign_tables(status, time.time(), is_brief=is_brief), as_json=opts.json)

    def _write_page(self, target: Path, status: dict[str, Any]) -> None:
        from llmcrawler import __version__
        from llmcrawler.crawl.campaigns.campaign_tables import campaign_view
        from llmcrawler.reporting.html.render import render_campaign

        try:
            target.write_bytes(render_campaign(campaign_view(status), __version__, time.time()))
        except OSError as error:
            sys.stderr.write(f"{target} cannot be written: {error.strerror or error}\n")
            self.exitcode = 1
        else:
            sys.stdout.write(f"{target}: {len(status['sites']):,} sites\n")


def _follow(folder: Path) -> dict[str, Any]:
    """Show the campaign until it ends, or Ctrl-C; return how far it is then."""
    from contextlib import suppress

    from rich.console import Group
    from rich.live import Live

    from llmcrawler.crawl.campaigns.campaign_status import campaign_status
    from llmcrawler.crawl.campaigns.campaign_tables import campaign_tables

    with suppress(KeyboardInterrupt), Live(auto_refresh=False, transient=True) as live:
        while (status := campaign_status(folder))["is_running"]:
            live.update(Group(*campaign_tables(status, time.time(), is_brief=True)), refresh=True)
            time.sleep(_REFRESH_SECONDS)
    return campaign_status(folder)


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict. Raises ConfigError for one that is none."""
    from llmcrawler.errors import ConfigError

    pairs = [one.partition("=") for one in given]
    for name, mark, value in pairs:
        if not name or not mark:
            raise ConfigError(f"{option} {name}{mark}{value}: it is NAME=VALUE")
    return {name: value for name, _mark, value in pairs}


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()
