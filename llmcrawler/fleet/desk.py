"""One worker leads each site: it groups its pages, asks the model and learns. The others ask it.

So a site is learned once, however many workers fetch its pages. The lead is a lock with a lease: when its holder is
gone or leaves, the next one who has a question takes it, with what was learned so far.
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
    from llmcrawler.fleet.link import RedisLink

logger = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = 1.0
_ASK_AGAIN_SECONDS: Final = 15.0  # a question or its answer is lost with a connection, or in a failover
_AGAIN: Final = object()

_LEAD: Final = """
local name = KEYS[1] .. ':lead:' .. ARGV[1]
local holder = redis.call('GET', name)
if holder then return holder end
redis.call('SET', name, ARGV[2], 'EX', ARGV[3])
return ARGV[2]
"""


@dataclass(frozen=True, slots=True)
class _Question:
    site: str
    holder: str
    told: asyncio.Future[Any]


class Desk:
    """`handlers` do what is asked, by its kind; `take_lead` is awaited before the first question of a site that this
    worker leads from then on. The lead of a worker that is not heard of for `gone_seconds` is free.
    """

    def __init__(self, link: RedisLink, take_lead: Callable[[str], Awaitable[None]], gone_seconds: int) -> None:
        self._gone_seconds = gone_seconds
        self.handlers: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        self._link = link
        self._take_lead = take_lead
        self._holders: dict[str, str] = {}
        self._leading: dict[str, asyncio.Task[None]] = {}
        self._number = count()
        self._questions: dict[int, _Question] = {}
        self._answering: dict[asyncio.Task[None], tuple[str, int]] = {}  # and who has asked, by which number
        self._listening: asyncio.Task[None] | None = None
        self._is_leaving = self._is_retired = self._is_closed = False

    @property
    def sites(self) -> list[str]:
        """Those that this worker leads."""
        return list(self._leading)

    def open(self) -> None:
        self._listening = asyncio.ensure_future(self._listen())

    async def ask(self, site: str, kind: str, body: Callable[[], Any]) -> tuple[bool, Any]:
        """(True, None) where this worker leads the site, and may answer by itself; else (False, the leader's answer).
        Raises WorkGivenBack when this worker leaves.
        """
        while not self._is_leaving:
            holder = await self._holder(site)
            if holder == self._link.worker:
                await asyncio.shield(self._leading[site])
                return True, None
            number = next(self._number)
            question = _Question(site, holder, asyncio.get_running_loop().create_future())
            self._questions[number] = question
            head = {"from": self._link.worker, "number": number, "kind": kind, "site": site}
            try:
                while not question.told.done():
                    await self._send(holder, head, body())
                    await asyncio.wait([question.told], timeout=_ASK_AGAIN_SECONDS)
                answer = question.told.result()
            finally:
                del self._questions[number]
            if answer is not _AGAIN:
                if "failure" in answer:
                    raise RuntimeError(f"the site's leader failed: {answer['failure']}")
                return False, answer
        raise WorkGivenBack

    def leave(self) -> None:
        """What was asked goes back with its page; what others have asked is still answered."""
        self._is_leaving = True
        for question in self._questions.values():
            if not question.told.done():
                question.told.set_result(_AGAIN)

    def retire(self) -> None:
        """Nothing more is answered here. Who asks waits for close(): what was learned is handed over before that."""
        self._is_retired = True
        for task in self._answering:
            task.cancel()

    def note_roll(self, alive: Collection[str], lost_sites: Collection[str]) -> None:
        """Questions to workers that are gone go to who leads now."""
        for site in lost_sites:
            logger.info("Another worker leads %s now", site)
            self._leading.pop(site, None)
            self._holders.pop(site, None)
        for site, holder in list(self._holders.items()):
            if holder not in alive and holder != self._link.worker:
                del self._holders[site]
        for task, (asker, _number) in self._answering.items():
            if asker not in alive:
                task.cancel()
        for question in self._questions.values():
            if question.holder not in alive and not question.told.done():
                question.told.set_result(_AGAIN)

    async def close(self) -> list[str]:
        """The sites that it has led. Who has asked this worker asks the next leader."""
        self._is_closed = True
        tasks = [*self._answering, *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self.sites

    async def _holder(self, site: str) -> str:
        holder = self._holders.get(site)
        if holder is None:
            holder = (await self._link.run(_LEAD, site, self._link.worker, self._gone_seconds)).decode()
            self._holders[site] = holder
        if holder == self._link.worker and site not in self._leading:
            self._leading[site] = self._link.post(self._take_lead(site))
        return holder

    async def _send(self, worker: str, head: Mapping[str, Any], body: Any) -> None:
        packed = zlib.compress(json.dumps([head, body]).encode(), 1)
        await self._link.call(lambda: self._link.client.rpush(f"{self._link.prefix}:inbox:{worker}", packed))

    async def _listen(self) -> None:
        # A connection of its own: it is held while it waits.
        client = self._link.new_client(_LISTEN_SECONDS + 10)
        name = f"{self._link.prefix}:inbox:{self._link.worker}"
        try:
            while not self._is_closed:  # redis-py may take a cancellation for a timeout
                found = await self._link.call(lambda: client.blpop([name], timeout=_LISTEN_SECONDS))
                if found and not self._is_closed:
                    self._take(*json.loads(zlib.decompress(found[1])))
        except StorageFailed:  # the crawl is being closed, and says why
            return
        finally:
            await client.aclose()

    def _take(self, head: Mapping[str, Any], body: Any) -> None:
        if head["kind"] == "answer":
            question = self._questions.get(head["number"])
            if question is not None and not question.told.done():
                question.told.set_result(_AGAIN if body is None else body)
                if body is None:
                    self._holders.pop(question.site, None)
            return
        asked = head["from"], head["number"]
        if asked in self._answering.values():
            return
        task = asyncio.ensure_future(self._serve(head, body))
        self._answering[task] = asked
        task.add_done_callback(self._answering.pop)

    async def _serve(self, head: Mapping[str, Any], body: Any) -> None:
        """None for an answer: ask somebody else."""
        answer = None
        try:
            if self._is_retired:
                await asyncio.Event().wait()  # for close(), which cancels it
            if head["site"] in self._leading:
                await asyncio.shield(self._leading[head["site"]])
                answer = await self.handlers[head["kind"]](body)
        except StorageFailed:  # the crawl is being closed, and says why
            return
        except Exception as error:  # a bug of ours must not have the other ask for ever
            logger.exception("Error on a question of %s", head["from"])
            answer = {"failure": f"{type(error).__name__}: {error}"}
        finally:
            with suppress(StorageFailed):  # the crawl is being closed, and says why
                await self._send(head["from"], {"kind": "answer", "number": head["number"]}, answer)
