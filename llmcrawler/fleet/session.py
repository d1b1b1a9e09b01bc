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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from secrets import token_hex
from typing import Any, Final

from llmcrawler.core.frontier import Lease
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

logger = logging.getLogger(__name__)

_ACK_SECONDS: Final = 0.05
_CLOSING_SECONDS: Final = 10.0  # that a Redis that is away is waited for at the end
_LAG_SECONDS: Final = 0.25  # from a heartbeat's answer until the worker acts on it
_LOG_SECONDS: Final = 10.0  # between two times that sites are logged
_LOG_SITES: Final = 5  # in a line


class OwnershipLog:
    """Gathers what becomes of sites until `write` is called and some seconds have passed since it wrote last.

    `counts` has how many sites were `taken`, how many of them were `taken_over` from another worker, and how many were
    `given_up`.
    """

    def __init__(self, worker: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._worker = worker
        self._clock = clock
        self._written: float | None = None
        self._taken: list[str] = []
        self._taken_over: list[str] = []
        self._given_up: list[str] = []

    def note_taken(self, site: str, before: str, *, is_known: bool) -> None:
        """Note a site that is this worker's from now on; `before` names its last owner ("": none)."""
        self.counts["taken"] += 1
        if before in ("", self._worker):
            self._taken.append(site)
            return
        self.counts["taken_over"] += 1
        self._taken_over.append(f"{site} from {before}{' with what was learned of it' if is_known else ''}")

    def note_given_up(self, site: str) -> None:
        self.counts["given_up"] += 1
        self._given_up.append(site)

    def write(self, *, at_end: bool = False) -> None:
        """Log what was gathered; `at_end` whenever that was done last."""
        now = self._clock()
        if not at_end and self._written is not None and now < self._written + _LOG_SECONDS:
            return
        if self._taken:
            logger.info("This worker took %s", _listed(self._taken))
        if self._taken_over:
            logger.info("This worker took over %s", _listed(self._taken_over))
        if self._given_up:
            logger.info("This worker gave up %s: another one has less to do", _listed(self._given_up))
        if self._taken or self._taken_over or self._given_up:
            self._written = now
        self._taken, self._taken_over, self._given_up = [], [], []


def _listed(names: Sequence[str]) -> str:
    others = len(names) - _LOG_SITES
    return ", ".join(names[:_LOG_SITES]) + (f" and {others:,} more" if others > 0 else "")


async def take_turn(connection: RedisConnection, host: str, gap_seconds: float, *, is_guest: bool) -> None:
    """Wait until a request to a host may go out that several workers ask, a guest and the owner of its site; the next
    one follows after the gap at the earliest.
    """
    wait = 1.0
    while wait > 0:
        wait = float(await connection.run("take_turn", host, gap_seconds, int(is_guest), _LAG_SECONDS))
        await asyncio.sleep(wait)


@dataclass(frozen=True, slots=True)
class KeptSite:
    """What earlier owners have kept of a site: what was learned, with the `origin` that the site was asked at, and by
    host what the throttle knew `age_seconds` ago. `before` is the owner before this one; `number` tells a site that
    nothing was learned of from others.
    """

    learned: Mapping[str, Any] | None = None
    origin: str = ""
    throttle: Mapping[str, Mapping[str, float]] | None = None
    age_seconds: float = 0.0
    before: str = ""
    number: int = 0


class SiteOwnership:
    """Reads and writes what belongs to sites. Only what this worker owns is written."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._kept: dict[str, tuple[int, str]] = {}  # by site: hash of the learned, throttle state
        self._origins: dict[str, str] = {}

    async def read(self, site: str, origin: str = "") -> KeptSite:
        """Read what is kept of a site, which is to be asked at an origin from now on; as before where none is given."""
        self._kept.pop(site, None)
        packed, throttle, age, before, number = await self._connection.run("read_site", site)
        learned = None if packed is None else await asyncio.to_thread(_unpacked, packed)
        origin_before = "" if learned is None else learned.pop("origin")
        self._origins[site] = origin or origin_before
        return KeptSite(
            learned,
            self._origins[site],
            json.loads(throttle) if throttle else None,
            float(age),
            before.decode(),
            int(number),
        )

    async def keep(
        self, learned: Mapping[str, Any], throttle: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    ) -> None:
        """Write what has changed: `learned` has dataclasses, `throttle` the state of its hosts, both by site."""
        parts: list[str | bytes] = []
        for site in {**learned, **(throttle or {})}:
            known, said = self._kept.get(site, (0, ""))
            packed, now = b"", known
            if site in learned:
                packed, now = await asyncio.to_thread(_packed, learned[site], self._origins.get(site, ""), known)
            told = json.dumps(throttle[site]) if throttle and site in throttle else said
            if packed or told != said:
                parts += [site, packed, told if told != said else ""]
                self._kept[site] = now, told
        if parts:
            await self._connection.run("keep_sites", self._connection.worker, *parts)

    async def free(self, site: str) -> None:
        """Let another worker own the site."""
        self._kept.pop(site, None)
        await self._connection.run("free_site", self._connection.worker, site)


def _packed(learned: Any, origin: str, known: int) -> tuple[bytes, int]:
    """Return what was learned of a site as it is kept, or nothing where its hash is the known one; and that hash."""
    text = json.dumps({"origin": origin, **asdict(learned)}).encode()
    digest = hash(text)
    return b"" if digest == known else zlib.compress(text, 1), digest


def _unpacked(packed: bytes) -> dict[str, Any]:
    learned: dict[str, Any] = json.loads(zlib.decompress(packed))
    return learned


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's report of itself. `pages_a_minute` are those of the last minute; `rights`: its pages by their marks
    (core/storage/rights_marks.py).
    """

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
    """The answer to a heartbeat. `is_member` is False where the others took this worker for gone: its sites are theirs.
    `gone` names workers to inherit, `leaving` the sites that this one is to give up; `silent` counts workers that may
    be gone; to the sites of the `widening` urls start urls were redirected; `guests` are hosts that others ask too;
    `counts` and `last_added` are for the frontier. Of a crawl that `is_paused` nothing is leased.
    """

    is_member: bool = True
    gone: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    silent: int = 0
    widening: tuple[str, ...] = ()
    guests: frozenset[str] = frozenset()
    counts: tuple[int, ...] = ()
    last_added: int = 0
    is_paused: bool = False


class WorkerHeartbeats:
    """Keeps the membership: a worker without a heartbeat for `gone_seconds` is gone."""

    def __init__(self, connection: RedisConnection, gone_seconds: float) -> None:
        self._connection = connection
        self._gone_seconds = gone_seconds
        self._widened = 0  # urls that have widened the scope and are known here

    async def beat(self, report: WorkerReport, *, joins: bool = False) -> Membership:
        is_member, *said = await self._connection.run(
            "beat", report.worker, json.dumps(asdict(report)), self._gone_seconds, int(joins), self._widened
        )
        if not is_member:
            return Membership(is_member=False)
        gone, leaving, silent, widening, guests, counts, last_added, is_paused = said
        self._widened += len(widening)
        names = [tuple(map(bytes.decode, some)) for some in (gone, leaving, widening, guests)]
        return Membership(
            is_member=True,
            gone=names[0],
            leaving=names[1],
            silent=silent,
            widening=names[2],
            guests=frozenset(names[3]),
            counts=tuple(counts),
            last_added=last_added,
            is_paused=bool(is_paused),
        )

    async def widen(self, url: str) -> None:
        """Have all workers take in the site of a url, to which a start url was redirected."""
        await self._connection.run("widen", url)

    async def inherit(self, gone: str) -> tuple[dict[str, bytes], list[str]] | None:
        """Take over the lines of a worker that is gone and free its sites. Return the lines packed, by url, and the
        finished sites of which it has learned something; None where another worker did it, or it is not gone after all.
        """
        found = await self._connection.run("inherit", self._connection.worker, gone, self._gone_seconds)
        if found is None:
            return None
        flat, finished = found
        lines = {url.decode(): line for url, line in zip(flat[::2], flat[1::2], strict=True)}
        return lines, [site.decode() for site in finished]

    async def drop_lines(self, urls: Iterable[str]) -> None:
        """Drop lines that are in a closed feed by now."""
        name, wanted = f"{self._connection.prefix}:lines:{self._connection.worker}", list(urls)
        if wanted:
            await self._connection.call(lambda: self._connection.client.hdel(name, *wanted))

    async def leave(self, report: WorkerReport) -> None:
        """Give up all sites and be no member any more."""
        await self._connection.run("leave", report.worker, json.dumps(asdict(report)))


class DistributedSession:
    """The connection to a crawl's Redis and what is kept there: urls, who owns which site, what was learned, who works.

    `take_site` is called with a url of a site that this worker owns from then on, and with what its earlier owners have
    kept of it; `widen` with a url whose site all workers are to crawl from then on. `unsafe_of` returns those of some
    urls whose lines a death of this process would take away; `on_kept` is told when these are in Redis. `on_failure` is
    called when Redis stays away.
    """

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        rules: SessionRules,
        spec: JobSpec,
        max_pages: int,
        *,
        unsafe_of: Callable[[Iterable[str]], Collection[str]],
        on_kept: Callable[[Iterable[str]], None],
        take_site: Callable[[str, KeptSite], None],
        widen: Callable[[str], object],
        on_failure: Callable[[StorageFailed], None],
    ) -> None:
        self.rules = rules
        # Unique, so that a pod that was started again does not overwrite its own feed.
        self.worker = f"{socket.gethostname()[:40]}-{token_hex(4)}"
        self.connection = RedisConnection(
            rules.url, rules.crawl_id, self.worker, grace_seconds=rules.lease_seconds, on_failure=on_failure
        )
        self.frontier = RedisFrontier(
            self.connection,
            max_leases=rules.max_leases,
            max_pages=max_pages,
            ack_seconds=_ACK_SECONDS,
            confirm=self.confirm,
            make_safe=unsafe_of,
            on_kept=on_kept,
            on_site=self._take_up,
        )
        self.ownership = SiteOwnership(self.connection)
        self.ownership_log = OwnershipLog(self.worker)
        self.membership = Membership()
        self.safe_lines: list[str] = []  # urls
        self.report = WorkerReport(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._take_site = take_site
        self._widen = widen
        self._workers = WorkerHeartbeats(self.connection, rules.lease_seconds)
        self._spec = spec
        self._sure_until = 0.0  # monotonic seconds; before that nobody can have taken this worker for gone
        self._beaten = asyncio.Event()

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where another one of its name was begun meanwhile."""
        await self.connection.call(lambda: self.connection.client.sadd(CRAWLS, self.rules.crawl_id))
        known = await self.connection.run("begin_crawl", _spec_text(self._spec), token_hex(8), FORMAT)
        identity = _check_known(known, self._spec, self.rules.crawl_id)
        self.connection.identity = identity.decode()
        await self.frontier.open()
        await self.beat(joins=True)

    async def beat(self, *, joins: bool = False, **activity: Any) -> Membership:
        """Tell the others what this worker does, and hear of them. `activity` has fields of WorkerReport. Where this
        worker is no member any more it has lost all of its sites, and has to join again.
        """
        self.report, started = replace(self.report, **activity), time.monotonic()
        try:
            self.membership = await self._workers.beat(self.report, joins=joins)
        finally:
            self._beaten.set()  # who waits is to see a failure, too
        for url in self.membership.widening:
            self._widen(url)
        if self.membership.is_member:
            self._sure_until = started + self.rules.lease_seconds
            await self.frontier.take_counts(self.membership.counts, self.membership.last_added)
        return self.membership

    async def may_start(self, host: str, lease: Lease | None, gap_seconds: float) -> bool:
        """Return whether a request may go out, with its lease or without one: not where other workers may have taken
        over what this one owns, after a silence. Then it waits, and for its turn where other workers ask the host too;
        the next request follows after the gap. Raises StorageFailed where Redis stays away.
        """
        await self.confirm()
        if lease is not None and not self.frontier.holds(lease.url):
            return False
        is_guest = site_of(host) not in self.frontier.sites
        if is_guest or host in self.membership.guests:
            await take_turn(self.connection, host, gap_seconds, is_guest=is_guest)
        return lease is None or self.frontier.holds(lease.url)

    async def confirm(self) -> None:
        """Wait until no other worker can have taken over what this one owns, which may be so after a silence. Raises
        StorageFailed where Redis stays away.
        """
        while time.monotonic() >= self._sure_until:
            self._beaten.clear()
            self.check()
            await self._beaten.wait()

    async def widen(self, url: str) -> None:
        """Have all workers crawl the site of a url, to which a start url was redirected."""
        await self._workers.widen(url)

    async def inherit(self) -> list[dict[str, Any]]:
        """Take over workers that are gone: free their sites, and return their lines that no feed has. What they have
        learned of sites that are finished is for this worker to write.
        """
        packed: list[bytes] = []
        for gone in self.membership.gone:
            if (left := await self._workers.inherit(gone)) is None:
                continue
            lines, finished = left
            logger.warning("Worker %s is gone; what it had comes back", gone)
            packed += lines.values()
            for site in finished:
                kept = await self.ownership.read(site)
                self._take_site(f"{kept.origin}/", kept)
                self.frontier.sites.add(site)
        return [json.loads(zlib.decompress(line)) for line in packed]

    async def keep(self, learned: Mapping[str, SiteState]) -> None:
        """Keep what was learned with its sites, also where the caller does not wait for it to the end."""
        await asyncio.shield(self.connection.post(self.ownership.keep(learned)))

    async def drop_lines(self) -> None:
        """Drop the `safe_lines`, which are in a closed feed by now."""
        urls, self.safe_lines = self.safe_lines, []
        await self._workers.drop_lines(urls)

    async def give_up(self, site: str) -> None:
        """Let another worker own a site, of which nothing is under way here and all is kept."""
        self.frontier.sites.discard(site)
        await self.ownership.free(site)
        self.ownership_log.note_given_up(site)

    def resume_command(self) -> str:
        """Return the command that has a crawl go on that was paused."""
        return f"scrapy workers resume {shown(self.rules.url)} {self.rules.crawl_id}"

    def leave(self) -> None:
        """Begin to end: do not wait long for a Redis that is away."""
        self.connection.stop_waiting(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raise StorageFailed where nothing can be acknowledged any more."""
        self.connection.check()

    async def close(self, reason: str) -> None:
        """Leave the crawl. All of this worker's urls have come back by now."""
        self.ownership_log.write(at_end=True)
        await self._workers.leave(self.report)
        if reason == "finished":
            await self.connection.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()

    async def _take_up(self, url: str) -> None:
        site = site_name(url)
        kept = await self.ownership.read(site, origin_of(url))
        self._take_site(url, kept)
        self.ownership_log.note_taken(site, kept.before, is_known=kept.learned is not None)


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
