"""`scrapy templates FILE`: what was learned, as a table."""

from __future__ import annotations

import argparse

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, show, wrong_usage


class Command(Offline, ScrapyCommand):
    """Exit status: 0, or 2 when there is no such file or it is none of ours."""

    usage = "[options] <file>"
    summary = "Show the templates that crawls have learned"
    details = "Show the templates in a TEMPLATES_FILE, or in a JOBDIR: their pages, and the selectors of their fields."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--site", metavar="HOST", help="only this site")
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.api.public_api import learned_file
        from llmcrawler.core.reporting.terminal_tables import templates_tables
        from llmcrawler.core.understanding.extraction.corrections import described_templates

        if len(args) != 1:
            raise wrong_usage("name one file: scrapy templates [--site HOST] [--json] FILE")
        with config_errors_as_usage():
            file = learned_file(args[0], "FILE")
            sites = {site: described_templates(file, site, stored) for site, stored in file.load().items()}
        if opts.site is not None:
            host, known = opts.site.lower().removeprefix("www."), ", ".join(sites) or "none"
            sites = {site: one for site, one in sites.items() if host in (site, site.rpartition(":")[0])}
            if not sites:
                raise wrong_usage(f"--site {host}: not in the file; there are: {known}")
        show(sites, templates_tables(sites), as_json=opts.json)
