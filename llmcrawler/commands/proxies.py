"""`scrapy proxies check URL`: which of the proxies of the settings work."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
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
        parser.add_argument("--attempts", type=int, default=2, metavar="N", help="attempts per proxy (2)")
        parser.add_argument("--at-once", type=int, default=50, metavar="N", help="proxies tried in parallel (50)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.politeness.proxies import check_proxies
        from llmcrawler.core.politeness.proxy_sources import resolve_proxies
        from llmcrawler.core.urls import normalise

        assert self.settings is not None
        url = normalise(args[1]) if len(args) == 2 else None
        if url is None or args[0] != "check":
            raise wrong_usage("say what to fetch: scrapy proxies check https://example.com/")
        if opts.timeout <= 0 or opts.attempts < 1 or opts.at_once < 1:
            raise wrong_usage("--timeout, --attempts and --at-once are more than 0")
        limits = {"timeout_seconds": opts.timeout, "attempts": opts.attempts, "concurrency": opts.at_once}
        try:
            with config_errors_as_usage():
                provider = resolve_proxies(self.settings, os.environ)
                if provider is None:
                    raise ConfigError("there are no proxies: set PROXIES, PROXIES_FILE or PROXY_PROVIDER")

                async def check() -> list[ProxyCheck]:
                    return await check_proxies(await provider.load(), url, **limits)

                checks = asyncio.run(check())
        except NoProxy as error:
            sys.stderr.write(f"{error}\n")
            self.exitcode = 1
            return
        width = max((len(one.proxy.address) for one in checks), default=0)
        for one in checks:
            told = f"{one.proxy.country:<2}  {one.seconds:6.2f} s  {one.error or 'works'}"
            sys.stdout.write(f"{one.proxy.address:<{width}}  {told}\n")
        working = sum(not one.error for one in checks)
        sys.stdout.write(f"{working} of {len(checks)} work\n")
        self.exitcode = 0 if working else 1
