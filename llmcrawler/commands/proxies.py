"""`scrapy proxies check URL`: which of the proxies of the settings work."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings

from llmcrawler.commands import Offline, config_errors_as_usage
from llmcrawler.errors import ConfigError, NoProxy

if TYPE_CHECKING:
    from llmcrawler.core.politeness.proxies import ProxyCheck


class Command(Offline, ScrapyCommand):
    """Exit status: 0 when one works at least, 1 when none does, 2 wrong usage."""

    usage = "[options] check <url>"
    summary = "Tell which of the proxies of the settings work"
    details = "Fetch a url through each proxy that PROXIES, PROXIES_FILE or PROXY_PROVIDER gives, and print a table."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="for one try (10)")
        parser.add_argument("--attempts", type=int, default=2, metavar="N", help="tries of each proxy (2)")
        parser.add_argument("--at-once", type=int, default=50, metavar="N", help="proxies tried at a time (50)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.urls import normalise

        assert self.settings is not None
        url = normalise(args[1]) if len(args) == 2 else None
        if url is None or args[0] != "check":
            raise UsageError("say what to fetch: scrapy proxies check https://example.com/", print_help=False)
        if opts.timeout <= 0 or opts.attempts < 1 or opts.at_once < 1:
            raise UsageError("--timeout, --attempts and --at-once are more than 0", print_help=False)
        try:
            with config_errors_as_usage():
                checks = asyncio.run(_check(self.settings, url, opts))
        except NoProxy as error:
            sys.stderr.write(f"{error}\n")
            self.exitcode = 1
            return
        sys.stdout.write(as_table(checks))
        self.exitcode = 0 if any(check.works for check in checks) else 1


async def _check(settings: BaseSettings, url: str, opts: argparse.Namespace) -> list[ProxyCheck]:
    from llmcrawler.core.politeness.proxies import check_proxies
    from llmcrawler.core.politeness.proxy_sources import resolve_proxies

    provider = resolve_proxies(settings, os.environ)
    if provider is None:
        raise ConfigError("there are no proxies: set PROXIES, PROXIES_FILE or PROXY_PROVIDER")
    return await check_proxies(
        await provider.load(), url, timeout_seconds=opts.timeout, attempts=opts.attempts, concurrency=opts.at_once
    )


def as_table(checks: Sequence[ProxyCheck]) -> str:
    """Return one line a proxy, in the order given, and a sum."""
    width = max((len(check.proxy.address) for check in checks), default=0)
    lines = [
        f"{check.proxy.address:<{width}}  {check.proxy.country:<2}  {check.seconds:6.2f} s  {check.error or 'works'}"
        for check in checks
    ]
    return "\n".join([*lines, f"{sum(check.works for check in checks)} of {len(checks)} work", ""])
