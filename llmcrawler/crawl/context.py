"""Builds the parts of one crawl once, from settings and arguments, for its components to take what they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser

from llmcrawler.core.content.body_limiter import BodyLimiter
from llmcrawler.core.frontier.admission import Admission, MapAdmission, MapRules
from llmcrawler.core.politeness.bot_auth import authority_of
from llmcrawler.core.politeness.robots import PageRobots, RobotsCache
from llmcrawler.core.urls import AddressGuard, NameLookup, Scope, TrapGuard, site_name
from llmcrawler.crawl import signals
from llmcrawler.crawl.arguments import ExploreOptions, MapOptions
from llmcrawler.crawl.backend import build_backend
from llmcrawler.crawl.configuration import (
    SAMPLE_PAGES,
    BotAuthSettings,
    ItemSettings,
    LimitSettings,
    PolitenessSettings,
    ProxySettings,
    RecordSettings,
    proxies_of,
    rights_of_sites,
)
from llmcrawler.crawl.credentials import Credentials
from llmcrawler.crawl.engine_state import CrawlStop, EngineWatch, active_bytes
from llmcrawler.crawl.render_choice import RenderChoice
from llmcrawler.crawl.understanding_building import Understanding

if TYPE_CHECKING:
    from llmcrawler.core.frontier.focused_crawl import FocusedCrawl
    from llmcrawler.core.politeness.proxies import ProxyPool
    from llmcrawler.core.reporting.planning.site_sample import Sampler
    from llmcrawler.fleet.session import KeptSite

_MAX_REFUSED_NAMES: Final = 10_000


class ReachableHosts:
    """Hosts that a crawl may reach. Without `is_guarded` a person chooses each url, and nothing is refused.
    `checks_names`: names are looked up here before a proxy looks them up. `refused_names` says of the names that the
    resolver refused last why it did: Twisted loses that reason on its way to the request.
    """

    def __init__(
        self,
        addresses: AddressGuard,
        proxies: ProxyPool | None,
        names: NameLookup | None = None,
        *,
        checks_names: bool,
        is_guarded: bool = True,
    ) -> None:
        self.is_guarded = is_guarded
        self.addresses = addresses
        self.names = names or NameLookup()
        self.checks_names = checks_names
        self.refused_names: dict[str, str] = {}
        self._proxies = proxies
        self._proxy_hosts: set[str] = set()  # of proxies that requests were given outside of the pool

    def add_proxy(self, address: str) -> None:
        """Remember the host of a proxy that a request goes through."""
        with suppress(ValueError):
            self._proxy_hosts.add(urlsplit(address if "//" in address else f"//{address}").hostname or "")

    def is_proxy(self, host: str) -> bool:
        return host in self._proxy_hosts or (self._proxies is not None and host in self._proxies.hosts)

    def reason_to_refuse(self, address: str, name: str) -> str | None:
        """Return why a name that resolves to this address may not be reached. What is asked of a proxy is judged
        before.
        """
        if not self.is_guarded or self.is_proxy(name):
            return None
        return self.addresses.reason_to_refuse_address(address, name)

    def add_refused_name(self, name: str, reason: str) -> None:
        if len(self.refused_names) >= _MAX_REFUSED_NAMES:
            del self.refused_names[next(iter(self.refused_names))]
        self.refused_names[name] = reason


_MOST_ARRIVING: Final = 32
_ATTRIBUTE: Final = "llmcrawler_context"


@dataclass(slots=True)
class ArrivingPages:
    """Counts the pages that are here and whose links are not in the frontier yet. They may come in faster than they can
    be read: `_MOST_ARRIVING` of them wait as bodies, and `on_room` is called when they are fewer again.
    """

    count: int = 0
    on_room: Callable[[], object] = lambda: None

    @property
    def is_full(self) -> bool:
        return self.count >= _MOST_ARRIVING

    @contextmanager
    def one(self) -> Iterator[None]:
        self.count += 1
        try:
            yield
        finally:
            was_full = self.is_full
            self.count -= 1
            if was_full and not self.is_full:
                self.on_room()


class CrawlContext:
    """Parts of one crawl, built from the crawler's settings and the `options` of its spider. `focused_crawl` is None
    for a crawl without a goal; `sampler` where it is not a plan's.

    A spider without options (one of somebody else's, or that of `scrapy shell`) gets a crawl with no start urls: its
    requests pass through, politely. Raises ConfigError where a part cannot be had.
    """

    def __init__(self, crawler: Crawler, names: NameLookup | None = None) -> None:
        settings, options = crawler.settings, getattr(crawler.spider, "options", None)
        if not isinstance(options, ExploreOptions):
            options = ItemSettings.of(settings).options()
        proxy_settings, politeness = ProxySettings.of(settings), PolitenessSettings.of(settings)
        limits = LimitSettings.of(settings)
        addresses = AddressGuard(options.urls, map(str, limits.only_hosts))
        self.options = options
        self.proxies = proxies_of(settings)
        self.signer = BotAuthSettings.of(settings).signer()
        self.admission = _admission(options, addresses)
        self.hosts = ReachableHosts(
            addresses,
            self.proxies,
            names,
            checks_names=bool(options.urls) and proxy_settings.proxy_check_names,
            is_guarded=bool(options.urls),
        )
        self.record_types = RecordSettings.of(settings).types(options)
        self.focused_crawl: FocusedCrawl | None = None
        if options.goal:
            from llmcrawler.core.frontier.focused_crawl import FocusedCrawl
            from llmcrawler.core.frontier.link_scorer import LinkScorer

            self.focused_crawl = FocusedCrawl(
                LinkScorer(options.goal),
                max_records=options.max_records,
                clock=monotonic,
                record_types=self.record_types,
            )
        self.credentials = Credentials(options.headers, options.cookies, options.urls)
        self.page_robots = PageRobots(politeness.robots_token, politeness.robots_meta_obey)
        self.robots: RobotsCache[RobotParser] = RobotsCache(monotonic)
        self.rights = rights_of_sites(settings, options)
        self.rendering = RenderChoice(options.render, presses_more=settings.getint("RENDER_SCROLLS") > 0)
        self.intake = BodyLimiter(limits.scraper_slot_max_active_size, partial(active_bytes, crawler))
        self.arriving_pages = ArrivingPages()
        self.sampler: Sampler | None = None
        if settings.getint(SAMPLE_PAGES):
            from llmcrawler.core.reporting.planning.site_sample import Sampler

            self.sampler = Sampler()

        def take_site(url: str, kept: KeptSite) -> None:
            self.understanding.sites.take_up(url, kept.learned, kept.number)
            crawler.signals.send_catch_log(signals.site_taken, site=site_name(url), kept=kept)

        self.backend = build_backend(crawler, options, take_site)
        self.frontier, self.job = self.backend.frontier, self.backend.job
        self.ledger = None if self.job is None else self.job.ledger
        self.watch = EngineWatch(crawler, is_worker=self.backend.session is not None)
        self.stop = CrawlStop(goes_on_later=self.backend.session is not None or self.job is not None)
        self.understanding = Understanding(crawler, options, self.backend, self.watch, self.focused_crawl)

    def headers_when_sent(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers that a request gets when it is sent, and that nothing keeps: the user's own and those that
        sign it; none where its host is outside of the crawl.
        """
        own = self.credentials.headers_for(url)
        if self.signer is None or not self.admission.scope.has_site_of(f"http://{authority_of(url)}/"):
            return own
        return {**own, **self.signer.headers(method, url)}

    async def close(self) -> None:
        """Keep what was learned, and end what was started, while feeds are open still."""
        self.hosts.names.close()
        await self.understanding.close()


def build_crawl(crawler: Crawler, *, names: NameLookup | None = None) -> CrawlContext:
    """Build the crawl that `crawl_of` returns for this crawler from then on. Raises ConfigError."""
    context = CrawlContext(crawler, names)
    setattr(crawler, _ATTRIBUTE, context)
    return context


def find_crawl(crawler: Crawler) -> CrawlContext | None:
    """Return the context of a crawler; None where it has not been built, or not yet."""
    context: CrawlContext | None = getattr(crawler, _ATTRIBUTE, None)
    return context


def crawl_of(crawler: Crawler) -> CrawlContext:
    """Return the context of a crawler, for the `from_crawler` of its components."""
    context = find_crawl(crawler)
    if context is None:
        raise RuntimeError("the crawl is not built: EXTENSIONS_BASE lacks llmcrawler.extensions.setup.CrawlSetup")
    return context


def _admission(options: ExploreOptions, addresses: AddressGuard) -> Admission:
    scope = Scope(
        options.urls,
        allow=options.allow,
        deny=options.deny,
        max_depth=options.depth,
        subdomains=isinstance(options, MapOptions) and options.subdomains,
    )
    traps = TrapGuard(datetime.now(UTC).date())
    if isinstance(options, MapOptions):
        return MapAdmission(scope, traps, MapRules(options.max_urls, options.match, options.depth), addresses)
    return Admission(scope, traps, addresses)
