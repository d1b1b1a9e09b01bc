"""Requests and replies between workers: each site has one owner, which groups its pages, asks the model and learns.

So a site is learned once, however many workers fetch its pages. The ownership is a lock with a lease: when the owner is
gone or leaves, the next worker with a request for the site takes it over, with what was learned so far.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.errors import StorageFailed, WorkGivenBack

if TYPE_CHECKING:
    from llmcrawler.distributed.connection import RedisConnection

logger = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = 1.0
_ASK_AGAIN_SECONDS: Final = 15.0  # a request or its reply is lost with a connection, or in a failover
_AGAIN: Final = object()

_OWN: Final = """
local name = KEYS[1] .. ':owner:' .. ARGV[1]
local owner = redis.call('GET', name)
if owner then return owner end
redis.call('SET', name, ARGV[2], 'EX', ARGV[3])
return ARGV[2]
"""


@dataclass(frozen=True, slots=True)
class _Request:
    site: str
    owner: str
    told: asyncio.Future[Any]


class SiteRequests:
    """Sends requests to the owners of sites, and serves those for the sites that this worker owns.

    `handlers` serve requests by their kind; `take_site` is awaited before the first request for a site that this worker
    owns from then on. The sites of a worker without a heartbeat for `gone_seconds` are free.
    """

    def __init__(
        self, connection: RedisConnection, take_site: Callable[[str], Awaitable[None]], gone_seconds: int
    ) -> None:
        self._gone_seconds = gone_seconds
        self.handlers: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self._connection = connection
        self._take_site = take_site
        self._owners: dict[str, str] = {}
        self._owned: dict[str, asyncio.Task[None]] = {}
        self._number = count()
        self._requests: dict[int, _Request] = {}
        self._serving: dict[asyncio.Task[None], tuple[str, int]] = {}  # and (worker, its number of the request)
        self._listening: asyncio.Task[None] | None = None
        self._is_leaving = self._is_retired = self._is_closed = False

    @property
    def sites(self) -> list[str]:
        """Return the sites that this worker owns."""
        return list(self._owned)

    def open(self) -> None:
        self._listening = asyncio.ensure_future(self._listen())

    async def ask(self, site: str, kind: str, body: Callable[[], Any]) -> tuple[bool, Any]:
        """Return (True, None) where this worker owns the site and has to do the work itself, else (False, the owner's
        reply). Raises WorkGivenBack when this worker leaves.
        """
        while not self._is_leaving:
            owner = await self._owner(site)
            if owner == self._connection.worker:
                await asyncio.shield(self._owned[site])
                return True, None
            number = next(self._number)
            request = _Request(site, owner, asyncio.get_running_loop().create_future())
            self._requests[number] = request
            head = {"from": self._connection.worker, "number": number, "kind": kind, "site": site}
            try:
                while not request.told.done():
                    await self._send(owner, head, body())
                    await asyncio.wait([request.told], timeout=_ASK_AGAIN_SECONDS)
                answer = request.told.result()
            finally:
                del self._requests[number]
            if answer is not _AGAIN:
                if "failure" in answer:
                    raise RuntimeError(f"the site's owner failed: {answer['failure']}")
                return False, answer
        raise WorkGivenBack

    def leave(self) -> None:
        """Give up own requests, whose pages are requeued; those of other workers are still served."""
        self._is_leaving = True
        for request in self._requests.values():
            if not request.told.done():
                request.told.set_result(_AGAIN)

    def retire(self) -> None:
        """Serve no more requests. They wait for close(), before which what was learned is handed over."""
        self._is_retired = True
        for task in self._serving:
            task.cancel()

    def note_membership(self, alive: Collection[str], lost_sites: Collection[str]) -> None:
        """Drop the sites that other workers own now, and send requests to workers that are gone to the new owners."""
        for site in lost_sites:
            logger.info("Another worker owns %s now", site)
            self._owned.pop(site, None)
            self._owners.pop(site, None)
        for site, owner in list(self._owners.items()):
            if owner not in alive and owner != self._connection.worker:
                del self._owners[site]
        for task, (asker, _number) in self._serving.items():
            if asker not in alive:
                task.cancel()
        for request in self._requests.values():
            if request.owner not in alive and not request.told.done():
                request.told.set_result(_AGAIN)

    async def close(self) -> list[str]:
        """Stop, and return the sites that were owned here. Waiting requests go to the next owner."""
        self._is_closed = True
        tasks = [*self._serving, *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self.sites

    async def _owner(self, site: str) -> str:
        owner = self._owners.get(site)
        if owner is None:
            owner = (await self._connection.run(_OWN, site, self._connection.worker, self._gone_seconds)).decode()
            self._owners[site] = owner
        if owner == self._connection.worker and site not in self._owned:
            self._owned[site] = self._connection.post(self._take_site(site))
        return owner

    async def _send(self, worker: str, head: Mapping[str, Any], body: Any) -> None:
        packed = zlib.compress(json.dumps([head, body]).encode(), 1)
        await self._connection.call(
            lambda: self._connection.client.rpush(f"{self._connection.prefix}:inbox:{worker}", packed)
        )

    async def _listen(self) -> None:
        # A connection of its own: it is held while it waits.
        client = self._connection.new_client(_LISTEN_SECONDS + 10)
        name = f"{self._connection.prefix}:inbox:{self._connection.worker}"
        try:
            while not self._is_closed:  # redis-py may take a cancellation for a timeout
                found = await self._connection.call(lambda: client.blpop([name], timeout=_LISTEN_SECONDS))
                if found and not self._is_closed:
                    self._take(*json.loads(zlib.decompress(found[1])))
        except StorageFailed:  # the crawl is being closed, and logs why
            return
        finally:
            await client.aclose()

    def _take(self, head: Mapping[str, Any], body: Any) -> None:
        if head["kind"] == "answer":
            request = self._requests.get(head["number"])
            if request is not None and not request.told.done():
                request.told.set_result(_AGAIN if body is None else body)
                if body is None:
                    self._owners.pop(request.site, None)
            return
        asked = head["from"], head["number"]
        if asked in self._serving.values():
            return
        task = asyncio.ensure_future(self._serve(head, body))
        self._serving[task] = asked
        task.add_done_callback(self._serving.pop)

    async def _serve(self, head: Mapping[str, Any], body: Any) -> None:
        """Serve a request, and reply; a reply of None tells the sender to ask another worker."""
        answer = None
        try:
            if self._is_retired:
                await asyncio.Event().wait()  # for close(), which cancels it
            if head["site"] in self._owned:
                await asyncio.shield(self._owned[head["site"]])
                answer = await self.handlers[head["kind"]](body)
        except StorageFailed:  # the crawl is being closed, and logs why
            return
        except WorkGivenBack:  # this worker is being stopped
            await asyncio.Event().wait()  # see above
        except Exception as error:  # a bug must not have the other worker ask for ever
            logger.exception("Error on a request of %s", head["from"])
            answer = {"failure": f"{type(error).__name__}: {error}"}
        finally:
            with suppress(StorageFailed):  # the crawl is being closed, and logs why
                await self._send(head["from"], {"kind": "answer", "number": head["number"]}, answer)
