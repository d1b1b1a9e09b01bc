"""`scrapy templates FILE`: what was learned, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from llmcrawler.commands import Offline, config_errors_as_usage, show


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
        from llmcrawler.core.reporting.terminal_tables import templates_tables

        if len(args) != 1:
            raise UsageError("name one file: scrapy templates [--site HOST] [--json] FILE", print_help=False)
        sites = _chosen(_read(Path(args[0])), opts.site)
        show(sites, templates_tables(sites), as_json=opts.json)


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    from llmcrawler.core.storage import TemplatesFile

    path = path / "templates.json" if path.is_dir() else path
    if not path.exists():
        raise UsageError(f"{path}: no such file", print_help=False)
    with config_errors_as_usage():
        return {site: stored.templates for site, stored in TemplatesFile(path, "FILE").load().items()}


def _chosen(sites: dict[str, Any], requested: str | None) -> dict[str, Any]:
    if requested is None:
        return sites
    requested = requested.lower().removeprefix("www.")
    chosen = {site: one for site, one in sites.items() if requested in (site, site.rpartition(":")[0])}
    if not chosen:
        there_are = ", ".join(sites) or "none"
        raise UsageError(f"--site {requested}: not in the file; there are: {there_are}", print_help=False)
    return chosen
