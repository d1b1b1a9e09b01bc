"""`scrapy templates FILE`: what was learned, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from llmcrawler.errors import ConfigError
from llmcrawler.reporting.table import stdout_console
from llmcrawler.reporting.templates_table import templates_tables
from llmcrawler.storage import TemplatesFile


class Command(ScrapyCommand):
    """Exit status: 0, or 2 when there is no such file or it is none of ours."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "[options] <file>"

    def short_desc(self) -> str:
        return "Show the templates that crawls have learned"

    def long_desc(self) -> str:
        return "Show the templates in a TEMPLATES_FILE, or in a JOBDIR: their pages, and the selectors of their fields."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--site", metavar="HOST", help="only this site")
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one file: scrapy templates [--site HOST] [--json] FILE", print_help=False)
        sites = _chosen(_read(Path(args[0])), opts.site)
        if opts.json:
            sys.stdout.write(json.dumps(sites, indent=2, ensure_ascii=False) + "\n")
            return
        console = stdout_console()
        for number, (site, templates) in enumerate(sites.items()):
            if number:
                console.print()
            for part in templates_tables(site, templates):
                console.print(part)


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    path = path / "templates.json" if path.is_dir() else path
    if not path.exists():
        raise UsageError(f"{path}: no such file", print_help=False)
    try:
        return {site: stored.templates for site, stored in TemplatesFile(path, "FILE").load().items()}
    except ConfigError as error:
        raise UsageError(str(error), print_help=False) from error


def _chosen(sites: dict[str, Any], wanted: str | None) -> dict[str, Any]:
    if wanted is None:
        return sites
    wanted = wanted.lower().removeprefix("www.")
    chosen = {site: one for site, one in sites.items() if wanted in (site, site.rpartition(":")[0])}
    if not chosen:
        raise UsageError(f"--site {wanted}: not in the file; there are: {', '.join(sites) or 'none'}", print_help=False)
    return chosen
