"""Joins a crawl that several workers share through Redis (REDIS_URL, CRAWL_ID)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.core.frontier.protocol import Lease
from llmcrawler.core.storage import SiteState
from llmcrawler.core.storage.job_spec import JobSpec, SessionRules, check_same
from llmcrawler.core.urls import origin_of, site_name, site_of
from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.fleet.connection import (
    CRAWLS,
    FORMAT,
    TIMEOUT_SECONDS,
    RedisConnection,
    check_format,
    check_redis,
    key_prefix,
    redis_address,
    shown,
)
from llmcrawler.fleet.redis_frontier import RedisFrontier

if TYPE_CHECKING:
    from llmcrawler.fleet.safe_lines import SafeLines

logger = logging.getLogger(__name__)

_ACK_SECONDS: Final = 0.05
_CLOSING_SECONDS: Final = 10.0  # that a Redis that is away is waited for at the end
_LAG_SECONDS: Final = 0.25  # from a heartbeat's answer until the worker acts on it


@dataclass(frozen=True, slots=True)
class KeptSite:
    """State of a site that earlier owners have stored: what was `learned`, and the throttle state of hosts,
    `age_seconds` old. `before` is the last owner; `number` tells a site that nothing was learned of from others.
    """

    learned: Mapping[str, Any] | None = None
    origin: str = ""
    throttle: Mapping[str, Mapping[str, float]] | None = None
    age_seconds: float = 0.0
    before: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A report of a worker; `rights` are its pages by their marks (core/storage/rights_marks.py)."""

    worker: str
    machine: str
    pid: int
    started: float
    pages: int = 0
    pages_a_minute: float = 0.0
    leases: int = 0
    in_flight: int = 0
    llm_calls: int = 0
    tokens: int = 0
    rights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | bytes) -> WorkerReport:
        value: Mapping[str, Any] = json.loads(text)
        return cls(**{name: value[name] for name in cls.__slots__ if name in value})


@dataclass(frozen=True, slots=True)
class Membership:
    """The answer to a heartbeat: whether the others still take this worker for a member; workers to inherit (`gone`),
    sites to give up (`leaving`), how many workers are `silent`, and hosts that others ask too (`guests`).
    """

    is_member: bool = True
    gone: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    silent: int = 0
    guests: frozenset[str] = frozenset()
    is_paused: bool = False


@dataclass(eq=False)
class DistributedSession:
    """A worker's membership of a crawl in Redis, and what is kept there. Without a heartbeat for `rules.lease_seconds`
    it is gone. `take_site` is called with a url of a site that it owns from then on, and with what earlier owners have
    kept; `widen_here` with a url whose site all workers are to crawl; `on_failure` when Redis stays away.
    """

    rules: SessionRules
    spec: JobSpec
    max_pages: int
    lines: SafeLines
    _: KW_ONLY
    take_site: Callable[[str, KeptSite], None]
    widen_here: Callable[[str], object]
    on_failure: Callable[[StorageFailed], None]

    def __post_init__(self) -> None:
        rules = self.rules
        # Unique, so that a pod that was started again does not overwrite its own feed.
        self.worker = f"{socket.gethostname()[:40]}-{token_hex(4)}"
        self.connection = RedisConnection(
            rules.url, rules.crawl_id, self.worker, grace_seconds=rules.lease_seconds, on_failure=self.on_failure
        )
        self.frontier = RedisFrontier(
            self.connection,
            max_leases=rules.max_leases,
            max_pages=self.max_pages,
            ack_seconds=_ACK_SECONDS,
            confirm=self.confirm,
            make_safe=self.lines.unsafe,
            on_kept=self.lines.set_kept,
            on_site=self._take_up,
        )
        self.site_events: Counter[str] = Counter()  # sites taken, taken_over and given_up
        self.membership = Membership()
        self.safe_lines: list[str] = []  # urls
        self.report = WorkerReport(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._widened = 0  # urls that have widened the scope and are known here
        self._kept: dict[str, tuple[int, str]] = {}  # by site: hash of what was learned, throttle state
        self._origins: dict[str, str] = {}
        self._sure_until = 0.0  # monotonic seconds; before that nobody can have taken this worker for gone
        self._beaten = asyncio.Event()

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where another one of its name was begun meanwhile."""
        await self.connection.call(lambda: self.connection.client.sadd(CRAWLS, self.rules.crawl_id))
        known = await self.connection.run("begin_crawl", _spec_text(self.spec), token_hex(8), FORMAT)
        self.connection.identity = _check_known(known, self.spec, self.rules.crawl_id).decode()
        await self.frontier.open()
        await self.beat(joins=True)

    async def beat(self, *, joins: bool = False, **activity: Any) -> Membership:
        """Tell the others `activity`, fields of WorkerReport. Who is no member has lost all sites, and has to join
        again.
        """
        self.report, started = replace(self.report, **activity), time.monotonic()
        report, seconds = json.dumps(asdict(self.report)), self.rules.lease_seconds
        try:
            is_member, *said = await self.connection.run(
                "beat", self.worker, report, seconds, int(joins), self._widened, int(self.frontier.is_hungry)
            )
        finally:
            self._beaten.set()  # who waits is to see a failure, too
        if not is_member:
            self.membership = Membership(is_member=False)
            return self.membership
        gone, leaving, silent, widening, guests, has_more, is_paused, counts, last_added = said
        gone, leaving, widening, guests = (tuple(map(bytes.decode, some)) for some in (gone, leaving, widening, guests))
        self.membership = Membership(True, gone, leaving, silent, frozenset(guests), bool(is_paused))
        self._widened += len(widening)
        for url in widening:
            self.widen_here(url)
        self._sure_until = started + seconds
        if has_more:
            self.frontier.look_again()
        await self.frontier.take_counts(counts, last_added)
        return self.membership

    async def may_start(self, host: str, lease: Lease | None, gap_seconds: float) -> bool:
        """Wait for the host's turn, and return whether the request may still go out with its lease. Raises
        StorageFailed where Redis stays away.
        """
        await self.confirm()
        if lease is not None and not self.frontier.holds(lease.url):
            return False
        is_guest = site_of(host) not in self.frontier.sites
        wait_seconds = 1.0 if is_guest or host in self.membership.guests else 0.0
        while wait_seconds > 0:
            said = await self.connection.run("take_turn", host, gap_seconds, int(is_guest), _LAG_SECONDS)
            wait_seconds = float(said)
            await asyncio.sleep(wait_seconds)
        return lease is None or self.frontier.holds(lease.url)

    async def confirm(self) -> None:
        """Wait until no other worker can have taken over what this one owns. Raises StorageFailed where Redis stays
        away.
        """
        while time.monotonic() >= self._sure_until:
            self._beaten.clear()
            self.connection.check()
            await self._beaten.wait()

    async def widen(self, url: str) -> None:
        """Have all workers crawl the site of a url, to which a start url was redirected."""
        await self.connection.run("widen", url)

    async def inherit(self, gone: Iterable[str]) -> list[dict[str, Any]]:
        """Take over workers that are gone; return their lines that no feed has. Their finished sites become ours."""
        packed: list[bytes] = []
        for name in gone:
            found = await self.connection.run("inherit", self.worker, name, self.rules.lease_seconds)
            if found is None:
                continue  # another worker did it, or it is not gone after all
            lines, finished = found
            logger.warning("Worker %s is gone; its sites go back to the queue", name)
            packed += lines[1::2]  # by urls
            for site in map(bytes.decode, finished):
                kept = await self.read_site(site)
                self.take_site(f"{kept.origin}/", kept)
                self.frontier.sites.add(site)
        return [json.loads(zlib.decompress(line)) for line in packed]

    async def read_site(self, site: str, origin: str = "") -> KeptSite:
        """Read what is kept of a site, which is to be asked at an origin from now on; as before where none is given."""
        self._kept.pop(site, None)
        packed, throttle, age, before, number = await self.connection.run("read_site", site)
        learned = None if packed is None else await asyncio.to_thread(lambda: json.loads(zlib.decompress(packed)))
        self._origins[site] = origin or ("" if learned is None else learned["origin"])
        if learned is not None:
            del learned["origin"]
        known = json.loads(throttle) if throttle else None
        return KeptSite(learned, self._origins[site], known, float(age), before.decode(), int(number))

    async def keep(
        self, learned: Mapping[str, SiteState], throttle: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    ) -> None:
        """Write what has changed of own sites: what was learned, and the throttle state of their hosts, by site."""
        parts: list[str | bytes] = []
        for site in {**learned, **(throttle or {})}:
            digest, told = known = self._kept.get(site, (0, ""))
            packed = b""
            if site in learned:
                packed, digest = await asyncio.to_thread(_packed, learned[site], self._origins.get(site, ""), digest)
            if throttle and site in throttle:
                told = json.dumps(throttle[site])
            if packed or told != known[1]:
                parts += [site, packed, told if told != known[1] else ""]
                self._kept[site] = digest, told
        if parts:
            await self.connection.run("keep_sites", self.worker, *parts)

    async def keep_learned(self, learned: Mapping[str, SiteState]) -> None:
        """Keep what was learned with its sites, also where the caller does not wait for it to the end."""
        await asyncio.shield(self.connection.post(self.keep(learned)))

    async def drop_lines(self) -> None:
        """Drop the `safe_lines`, which are in a closed feed by now."""
        urls, self.safe_lines = self.safe_lines, []
        if urls:
            name = f"{self.connection.prefix}:lines:{self.worker}"
            await self.connection.call(lambda: self.connection.client.hdel(name, *urls))

    async def give_up(self, site: str) -> None:
        """Let another worker own a site, of which nothing is under way here and all is kept."""
        self.frontier.sites.discard(site)
        self._kept.pop(site, None)
        await self.connection.run("free_site", self.worker, site)
        self.site_events["given_up"] += 1
        logger.info("This worker gave up %s: another worker has less to do", site)

    def resume_command(self) -> str:
        """Return the command that has a crawl go on that was paused."""
        return f"scrapy workers resume {shown(self.rules.url)} {self.rules.crawl_id}"

    def leave(self) -> None:
        """Begin to end: do not wait long for a Redis that is away."""
        self.connection.stop_waiting(_CLOSING_SECONDS)

    async def close(self, reason: str) -> None:
        """Leave the crawl. All of this worker's urls have come back by now."""
        await self.connection.run("leave", self.worker, json.dumps(asdict(self.report)))
        if reason == "finished":
            await self.connection.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()

    async def _take_up(self, url: str) -> None:
        site = site_name(url)
        kept = await self.read_site(site, origin_of(url))
        self.take_site(url, kept)
        self.site_events["taken"] += 1
        if kept.before in ("", self.worker):
            logger.info("This worker took %s", site)
        else:
            self.site_events["taken_over"] += 1
            learned = "" if kept.learned is None else " with what was learned of it"
            logger.info("This worker took over %s from %s%s", site, kept.before, learned)


def _packed(learned: SiteState, origin: str, known: int) -> tuple[bytes, int]:
    """Return what was learned of a site as it is kept, or nothing where its hash is the known one; and that hash."""
    text = json.dumps({"origin": origin, **asdict(learned)}).encode()
    digest = hash(text)
    return b"" if digest == known else zlib.compress(text, 1), digest


def check_session(rules: SessionRules, spec: JobSpec) -> None:
    """Raise ConfigError where this worker could not join the crawl, without changing anything."""
    check_redis(rules.url, rules.crawl_id)
    with closing(redis_address(rules.url).client(TIMEOUT_SECONDS)) as client:
        known = client.hmget(f"{key_prefix(rules.crawl_id)}:meta", "spec", "format", "id")
    if known[0] is not None:
        _check_known(known, spec, rules.crawl_id)


def _spec_text(spec: JobSpec) -> str:
    return json.dumps({"spider": spec.spider, "arguments": dict(spec.arguments)}, ensure_ascii=False)


def _check_known(known: Sequence[bytes | None], spec: JobSpec, crawl_id: str) -> bytes:
    """Return the id of the crawl that Redis has, if this worker can join it."""
    text, found, identity = known
    check_format(crawl_id, None if found is None else found.decode())
    if identity is None:
        raise ConfigError(
            f"CRAWL_ID={crawl_id}: it is being deleted; if that was interrupted, go on with it by "
            f"scrapy workers delete REDIS_URL {crawl_id}, or name another CRAWL_ID"
        )
    there, given = json.loads(text or "{}"), replace(spec, arguments=json.loads(_spec_text(spec))["arguments"])
    check_same(there["spider"], there["arguments"], given, f"CRAWL_ID={crawl_id}", ("join it", "join"))
    return identity
