"""Proxies: where they come from, which one takes a request, and which are banned or dead."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.politeness.proxy_sources import ANYWHERE, Proxy, ProxyProvider, load_http_client
from llmcrawler.errors import NoProxy

logger = logging.getLogger(__name__)

_WITNESSES = 3  # proxies that served other pages and refuse this one


@dataclass(frozen=True, slots=True)
class PoolRules:
    """Limits of a pool. After `max_faults` in a row a proxy that has worked is dropped, a new one after the first. So
    many `max_switches` are tried before a refused page is believed. `countries` are those of requests that name none;
    empty: the proxies of "*", else all.
    """

    max_faults: int = 3
    cooldown_seconds: float = 10.0
    max_switches: int = 10
    sticky: bool = False
    countries: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class PoolProxy:
    """A proxy and what became of its requests. `label` names it without its credentials."""

    proxy: Proxy
    label: str
    requests: int = 0
    pages: int = 0
    failures: Counter[str] = field(default_factory=Counter)  # by kind, the suspected too
    faults: int = 0  # since its last page
    suspicions: int = 0  # likewise
    suspected_of: str = ""
    in_flight: int = 0
    cools_down_until: float = 0.0
    dropped: str = ""  # why
    last_used: int = 0

    @property
    def account(self) -> str:
        parts = [f"{self.requests} requests", f"{self.pages} pages"]
        parts += [f"{count} {kind}" for kind, count in sorted(self.failures.items())]
        return ", ".join(parts) + (f"; dropped: {self.dropped}" if self.dropped else "")


class ProxyPool:
    """The proxies of one provider, for one event loop. `clock` is monotonic, in seconds."""

    def __init__(self, provider: ProxyProvider, rules: PoolRules, *, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._provider = provider
        self._clock = clock
        self._opening = asyncio.Lock()
        self._records: dict[str, PoolProxy] = {}
        self._failure: NoProxy | None = None
        self._turn = 0
        self._sessions: dict[str, str] = {}
        self.hosts: frozenset[str] = frozenset()

    async def open(self) -> None:
        """Ask the provider, once. Raises NoProxy."""
        async with self._opening:
            if self._failure is not None:
                raise self._failure
            if self._records:
                return
            try:
                proxies = await self._provider.load()
                if not proxies:
                    raise NoProxy("the provider returned no proxies")
            except NoProxy as error:
                self._failure = error
                raise
            seen: Counter[str] = Counter()
            for proxy in dict.fromkeys(proxies):
                seen[proxy.address] += 1
                # A rotating service has one address for many accounts.
                label = proxy.address + (f" #{seen[proxy.address]}" if seen[proxy.address] > 1 else "")
                self._records[label] = PoolProxy(proxy, label)
            self.hosts = frozenset(proxy.host.strip("[]") for proxy in proxies)
            logger.info("%d proxies", len(self._records))

    def take(
        self, tried: Sequence[str] = (), countries: Sequence[str] = (), session: str | None = None
    ) -> PoolProxy | None:
        """Return a proxy for a request that `tried` others, None while all cool down. Raises NoProxy."""
        now = self._clock()
        awake = [record for record in self._alive(countries) if record.cools_down_until <= now]
        if not awake:
            return None
        kept = None if session is None else self._sessions.get(session)
        chosen = next((record for record in awake if record.label == kept and kept not in tried), None)
        if chosen is None:
            # A request that was unlucky twice gets a proxy that is known to work, where there is one.
            careful = len(tried) >= 2
            chosen = min(
                awake,
                key=lambda one: (
                    tried.count(one.label),
                    careful and not one.pages,
                    not one.pages and (one.suspicions > 0 or one.in_flight > 0),  # one trial at a time
                    one.last_used,
                ),
            )
        if session is not None:
            self._sessions[session] = chosen.label
        self._turn += 1
        chosen.last_used = self._turn
        chosen.requests += 1
        chosen.in_flight += 1
        return chosen

    def seconds_to_wait(self, countries: Sequence[str] = ()) -> float:
        """Return how long until a proxy has cooled down. Raises NoProxy when none is left."""
        return max(0.0, min(record.cools_down_until for record in self._alive(countries)) - self._clock())

    def give_back(self, label: str) -> None:
        """Note that a request of the proxy is over, whatever came of it."""
        self._records[label].in_flight -= 1

    def is_proven(self, label: str) -> bool:
        """Tell whether the proxy has given a page."""
        return self._records[label].pages > 0

    def fail(self, label: str, kind: str) -> None:
        """Note a failure that is the proxy's fault for certain."""
        record = self._records[label]
        record.failures[kind] += 1
        self._fault(record, kind)

    def suspect(self, label: str, kind: str, suspects: Sequence[str] = ()) -> bool:
        """Note that the proxy or the page is at fault, after earlier `suspects`; return whether to try another one."""
        record = self._records[label]
        record.failures[kind] += 1
        record.suspected_of = kind
        if label not in suspects:
            record.suspicions += 1
            # Nothing but suspicions, one after the other, on different pages: then the site refuses all of us.
            if record.suspicions >= self.rules.max_faults * _WITNESSES:
                record.suspicions = 0
                self._fault(record, kind)
        suspects = [*suspects, label]
        proven = sum(self.is_proven(one) for one in suspects)
        if proven < _WITNESSES and len(suspects) < self.rules.max_switches:
            return True
        if proven:  # the page is forbidden to proxies that work: the others are no worse for that
            for one in map(self._records.__getitem__, set(suspects)):
                one.suspicions = one.suspicions if one.pages else max(0, one.suspicions - 1)
        return False

    def succeed(self, label: str, suspects: Iterable[str] = (), *, is_page: bool = True) -> None:
        """Note that the suspects are at fault. Only a page, looked at more closely than robots.txt, shows that one
        works.
        """
        if is_page:
            record = self._records[label]
            record.pages += 1
            record.faults = record.suspicions = 0
            record.cools_down_until = 0.0
        for convicted in map(self._records.__getitem__, set(suspects) - {label}):
            self._fault(convicted, convicted.suspected_of)

    def figures(self) -> dict[str, int]:
        """Count the proxies: all, and by what became of them."""
        records = self._records.values()
        dropped = Counter(record.dropped for record in records if record.dropped)
        now = self._clock()
        return {
            "total": len(records),
            "used": sum(record.requests > 0 for record in records),
            "resting": sum(not record.dropped and record.cools_down_until > now for record in records),
            "dropped": dropped.total(),
            **{f"dropped/{kind}": count for kind, count in sorted(dropped.items())},
        }

    def accounts(self) -> dict[str, str]:
        """Return a line about each proxy that was used, by its label."""
        return {record.label: record.account for record in self._records.values() if record.requests}

    def _alive(self, countries: Sequence[str]) -> list[PoolProxy]:
        allowed = countries or self.rules.countries
        alive = [record for record in self._records.values() if not record.dropped]
        if not alive:
            raise NoProxy(f"no proxy is left: {self._losses()}")
        there = {record.proxy.country for record in self._records.values()}
        if not there.intersection(allowed):
            # A country that has none of its own takes the default ones; so does a request that names no country.
            if ANYWHERE not in there and allowed:
                raise NoProxy(f"there is no proxy in {' or '.join(allowed)}", is_final=not countries)
            allowed = (ANYWHERE,) if ANYWHERE in there else ()
        fit = [record for record in alive if not allowed or record.proxy.country in allowed]
        if not fit:
            raise NoProxy(f"no proxy is left in {' or '.join(allowed)}: {self._losses()}", is_final=not countries)
        return fit

    def _losses(self) -> str:
        lost = Counter(record.dropped for record in self._records.values() if record.dropped)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(lost.items()))
        return f"{lost.total()} of {len(self._records)} dropped ({kinds})"

    def _fault(self, record: PoolProxy, kind: str) -> None:
        now = self._clock()
        if record.dropped or record.cools_down_until > now:
            return  # several requests were on their way; one fault is one
        record.faults += 1
        country = record.proxy.country
        alive = [one for one in self._records.values() if not one.dropped and one.proxy.country == country]
        is_last = alive == [record]
        patience = self.rules.max_faults if record.pages or is_last else 1
        if record.faults >= patience:
            record.dropped = kind
            logger.info("Proxy %s is dropped: %s", record.label, kind)
        else:
            seconds = self.rules.cooldown_seconds * 2 ** (record.faults - 1)
            record.cools_down_until = now + seconds
            logger.info("Proxy %s cools down for %g s: %s", record.label, seconds, kind)


# A page that asks for a proof of being human says little else. With more words it is an article about such pages, or
# a form that has a captcha beside its fields.
_MAX_CHARS = 100_000
_MAX_WORDS = 120
_MAX_BARE_CHARS = 5_000
_MAX_BARE_WORDS = 50
# Texts in the source of the great bot walls' pages, and of no page behind them.
_VENDOR_MARKS = (
    "cf-challenge-running",
    "cf_chl_opt",
    "captcha-delivery.com/captcha",
    "px-captcha",
    "_incapsula_resource",
    "awswafintegration.",
    "/_sec/cp_challenge/",
    "errors.edgesuite.net",
)
_HEADING = re.compile(r"<(?:title|h1|h2)\b[^>]{0,300}>(.{0,300}?)</", re.DOTALL | re.IGNORECASE)
_ASKS = re.compile(
    r"captcha|are you (a )?(human|robot|bot)\b|not a robot|you are (a )?human|verify (that )?you|human verification"
    r"|security check|unusual traffic|just a moment|access (to this page has been )?denied|pardon our interruption"
    r"|attention required|request blocked|you have been blocked|bot (detection|check)",
    re.IGNORECASE,
)
_REDIRECT_MARKS = ("captcha", "/sorry/", "are-you-human", "areyouhuman")


@dataclass(frozen=True, slots=True)
class BanRules:
    """Rules for answers that are bans."""

    statuses: frozenset[int] = frozenset({403, 407})

    def of_status(self, status: int, location: str = "") -> str | None:
        """Return the reason to call an answer a ban by its status and, of a redirect, its target."""
        if status in self.statuses:
            return f"status {status}"
        target = location.casefold()
        is_captcha = 300 <= status < 400 and any(mark in target for mark in _REDIRECT_MARKS)
        return "a redirect to a captcha" if is_captcha else None


def is_captcha_page(text: str) -> bool:
    """Tell by a page's source whether it asks for a proof of being human, and says little else."""
    if len(text) > _MAX_CHARS:
        return False
    folded = text.casefold()
    marked = any(mark in folded for mark in _VENDOR_MARKS)
    if marked or any(_ASKS.search(found[1]) for found in islice(_HEADING.finditer(text), 4)):
        return len(_visible_text(LexborHTMLParser(text)).split()) <= _MAX_WORDS
    if len(text) > _MAX_BARE_CHARS or _ASKS.search(text) is None:
        return False  # so do most pages end
    # Without such a heading it takes more: next to no words, the question among them, and nowhere to go.
    tree = LexborHTMLParser(text)
    links = len(tree.css("a[href]"))
    shown = _visible_text(tree)
    return links <= 1 and len(shown.split()) <= _MAX_BARE_WORDS and _ASKS.search(shown) is not None


def _visible_text(tree: LexborHTMLParser) -> str:
    tree.strip_tags(["script", "style", "noscript", "template"])
    return tree.body.text(separator=" ") if tree.body is not None else ""


@dataclass(frozen=True, slots=True)
class ProxyCheck:
    """The outcome of tries. `error` is empty for a proxy that works; `seconds` is what the last try took."""

    proxy: Proxy
    seconds: float
    error: str = ""


async def check_proxies(
    proxies: Iterable[Proxy], url: str, *, timeout_seconds: float = 10.0, attempts: int = 2, concurrency: int = 50
) -> list[ProxyCheck]:
    """Fetch `url` through each proxy; one works that brings an answer under 400. In the order given."""
    httpx = await load_http_client()
    # Reading the certificates takes 10 ms, which a list of a thousand proxies would pay for each of them.
    context = await asyncio.to_thread(httpx.create_ssl_context)
    room = asyncio.Semaphore(concurrency)

    async def fetch(proxy: Proxy) -> str:
        auth = (proxy.username, proxy.password) if proxy.username else None
        through = httpx.Proxy(proxy.address, auth=auth)
        try:
            # The client's timeout is for each read: a server that trickles would never reach it.
            async with (
                asyncio.timeout(timeout_seconds),
                httpx.AsyncClient(proxy=through, verify=context, trust_env=False, timeout=None) as client,
                client.stream("GET", url) as answer,
            ):
                return "" if answer.status_code < 400 else f"status {answer.status_code}"
        except TimeoutError:
            return f"no answer within {timeout_seconds:g} s"
        except (httpx.HTTPError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    async def check(proxy: Proxy) -> ProxyCheck:
        async with room:
            for _ in range(attempts):
                started = time.monotonic()
                error = await fetch(proxy)
                seconds = time.monotonic() - started
                if not error:
                    break
        return ProxyCheck(proxy, seconds, proxy.hide(error))

    return list(await asyncio.gather(*map(check, proxies)))
