"""Crawls bundles on the machines of a cluster: a pool on each, which the campaign's process asks turn by turn.

In a turn a pool carries out orders, waits for a moment, and tells what has happened. Lines are put into the data set
in a turn only: a pool that is cut off does not do so any more, and what it says later is not listened to. The jobs
that it saves by itself do not replace those of others that are further.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from llmcrawler.campaigns.campaign_file import StoredBundle
from llmcrawler.campaigns.machine_crawls import KILLED, CrawlEnded, CrawlEvent, CrawlLost, Crawls, LinesTaken
from llmcrawler.errors import ConfigError, require

_TURN_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 1.0  # between two looks at which machines there are
_DOUBT_SECONDS: Final = 30.0  # after which a machine whose pool has died, and that is still there, is not to blame
_CLOSE_SECONDS: Final = 10.0

Need = tuple[bool, bool]  # of a crawl: needs_browser, may_need_browser
Order = tuple[str, tuple[Any, ...]]  # a method of the crawls, and what it gets


@dataclass(frozen=True, slots=True)
class Turn:
    """What a pool tells of a turn; `room` is for what was asked about, `told` are lines for people."""

    events: tuple[CrawlEvent, ...]
    room: Mapping[Need, bool]
    told: tuple[str, ...] = ()


class PoolLost(Exception):
    """A pool has died, or cannot be reached."""


class MachinePool:
    """The crawls of one machine of a cluster, in a process there. `make` gets what takes lines for people."""

    def __init__(self, make: Callable[[Callable[[str], None]], Crawls]) -> None:
        self._told: SimpleQueue[str] = SimpleQueue()
        self._crawls = make(self._told.put)

    def turn(self, orders: Sequence[Order], needs: Sequence[Need]) -> Turn:
        for name, given in orders:
            getattr(self._crawls, name)(*given)
        events = tuple(self._crawls.wait(_TURN_SECONDS))
        room = {
            (needs_browser, may): self._crawls.has_room(needs_browser=needs_browser, may_need_browser=may)
            for needs_browser, may in needs
        }
        return Turn(events, room, tuple(self._told.get() for _ in range(self._told.qsize())))


@dataclass
class _Member:
    """A machine's pool: its present turn (`call`), `orders` for the next one, and starts by bundle."""

    name: str
    pool: Any
    call: Any = None
    orders: list[Order] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    room: Mapping[Need, bool] = field(default_factory=dict)
    has_answered: bool = False

    def order(self, name: str, *given: Any) -> None:
        if (name, given) not in self.orders:
            self.orders.append((name, given))


@dataclass
class ClusterCrawls:
    """Crawls on the machines of a cluster, as these come and go. `tell` gets lines for people."""

    cluster: RayCluster
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _members: dict[str, _Member] = field(default_factory=dict)
    _doubted: list[tuple[float, _Member]] = field(default_factory=list)  # dead pools, and since when
    _faulty: set[str] = field(default_factory=set)  # machines on which no pool could be made
    _orphans: list[tuple[StoredBundle, str]] = field(default_factory=list)  # given up, for any pool to take their lines
    _needs: set[Need] = field(default_factory=set)
    _looked: float | None = None

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool:
        """Tell whether a pool has said so, and nothing was started there since."""
        need = (needs_browser, may_need_browser)
        self._needs.add(need)
        return self._with_room(need) is not None

    def start(self, one: StoredBundle) -> None:
        needs_browser = one.bundle.is_rendered
        found = self._with_room((needs_browser, one.bundle.may_render))
        assert found is not None
        found.room = {}
        for member in self._members.values():  # where it ended badly before
            member.starts.pop(one.number, None)
        found.starts[one.number] = one.starts
        found.order("start", one)

    def finish(self, one: StoredBundle, failure: str) -> None:
        for member in self._members.values():
            if member.starts.get(one.number) == one.starts:
                member.order("finish", one, failure)
                return
        # Else its machine may have gone since it told of the end, which `wait` is about to say.
        if all(member.starts.get(one.number) != one.starts for _since, member in self._doubted):
            self._orphans.append((one, failure))

    def wait(self, seconds: float) -> list[CrawlEvent]:
        events = self._look()
        for member in self._members.values():
            if self._orphans and member.has_answered:
                one, failure = self._orphans.pop()
                member.starts[one.number] = one.starts
                member.order("finish", one, failure)
            self._ask(member)
        self._needs.clear()
        for member in self._answered(0.0 if events else min(seconds, _LOOK_SECONDS)):
            events += self._take(member)
        return events

    def stop(self) -> None:
        for member in self._members.values():
            member.order("stop")

    def kill(self) -> None:
        for member in self._members.values():
            member.order("kill")

    def close(self) -> None:
        """End all pools: orderly where they answer."""
        deadline = self.clock() + _CLOSE_SECONDS
        waited = [member for member in self._members.values() if member.has_answered]
        for member in waited:
            member.order("close")
        while waited and self.clock() < deadline:
            for member in waited:
                self._ask(member)
            for member in self._answered(_TURN_SECONDS):
                member.call = None
            waited = [member for member in waited if member.call is not None or member.orders]
        for member in self._members.values():
            self.cluster.end(member.pool)
        self.cluster.close()

    def _ask(self, member: _Member) -> None:
        if member.call is None:
            member.call = self.cluster.ask(member.pool, member.orders, sorted(self._needs))
            member.orders = []

    def _answered(self, seconds: float) -> list[_Member]:
        calls = {member.call: member for member in self._members.values() if member.call is not None}
        return [calls[call] for call in self.cluster.answered([*calls], seconds)]

    def _with_room(self, need: Need) -> _Member | None:
        found = [member for member in self._members.values() if member.room.get(need)]
        return min(found, key=lambda member: len(member.starts), default=None)

    def _look(self) -> list[CrawlEvent]:
        """Make pools on new machines; tell what was lost on those that have gone."""
        now = self.clock()
        if self._looked is not None and now - self._looked < _LOOK_SECONDS:
            return []
        self._looked = now
        machines = self.cluster.machines()
        if not machines and self._members:
            self.tell(
                "The cluster has no machine left with free cores for crawls; a machine that joins gets a worker pool"
            )
        events: list[CrawlEvent] = []
        for member in [*self._members.values()]:
            if member.name not in machines:
                self._lose(member, "has gone")
        for since, member in [*self._doubted]:
            if member.name not in machines:
                events += [CrawlLost(number, start) for number, start in member.starts.items()]
            elif now - since > _DOUBT_SECONDS or not member.starts:
                reason = "the process of its pool has ended"
                lost = member.starts.items()
                events += [CrawlEnded(number, start, KILLED, reason, was_lost=True) for number, start in lost]
            else:
                continue
            self._doubted.remove((since, member))
        known = self._members.keys() | self._faulty | {member.name for _since, member in self._doubted}
        for name, cores in machines.items():
            if name not in known:
                self._members[name] = _Member(name, self.cluster.open(name, cores))
        return events

    def _take(self, member: _Member) -> list[CrawlEvent]:
        call, member.call = member.call, None
        try:
            turn = self.cluster.answer(call)
        except PoolLost as error:
            self._lose(member, f"has lost its pool: {error}")
            if not member.has_answered and member.name in self.cluster.machines():
                self._faulty.add(member.name)
                if not self._members:
                    raise ConfigError(f"no machine of the cluster can crawl: {error}") from error
            return []
        if not member.has_answered:
            member.has_answered = True
            self.tell(f"Machine {member.name} crawls")
        for line in turn.told:
            self.tell(f"{line} (machine {member.name})")
        # What was ordered since it answered may take the room.
        member.room = {} if member.orders else turn.room
        for event in turn.events:
            if isinstance(event, LinesTaken):
                del member.starts[event.number]
        return [*turn.events]

    def _lose(self, member: _Member, why: str) -> None:
        """Listen no more to a pool. What it crawled is told of when it is known whether its machine is gone."""
        del self._members[member.name]
        self._doubted.append((self.clock(), member))
        self.cluster.end(member.pool)
        self.tell(f"Machine {member.name} {why}")


_MAX_REASON: Final = 300


class RayCluster:
    """The machines of a cluster by names, and a pool on each, made by `make` with its name and cores. Raises
    ConfigError where there is no cluster at `address`, as `ray.init` takes it.
    """

    def __init__(self, address: str, make: Callable[[str, int, Callable[[str], None]], Crawls]) -> None:
        if address.startswith("ray://"):
            raise ConfigError(
                f"--ray {address}: start the campaign on a machine of the cluster, or by `ray job submit`"
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        require("ray", "ray", "--ray")
        import ray  # only those who have a cluster have it

        try:
            ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is the usual one
            hint = "by its address, a cluster that `ray start` has given a token wants RAY_AUTH_MODE=token"
            raise ConfigError(f"--ray {address}: no cluster can be reached: {error} ({hint})") from error
        self._ray: Any = ray
        self._make = make

    def machines(self) -> Mapping[str, int]:
        """Return the cores of each machine that is there and has some."""
        found = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]}
        return {name: cores for name, cores in found.items() if cores}

    def open(self, machine: str, cores: int) -> Any:
        """Begin to make a pool on a machine; return what stands for it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node_id=machine, soft=False)
        # It is not restarted by itself: its crawls end with it, and what they were is known here.
        actor = self._ray.remote(MachinePool).options(num_cpus=cores, max_restarts=0, scheduling_strategy=there)
        return actor.remote(partial(self._make, machine, cores))

    def ask(self, pool: Any, orders: Sequence[Order], needs: Sequence[Need]) -> Any:
        """Begin a turn of a pool; return the call."""
        return pool.turn.remote(orders, needs)

    def answered(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        """Wait until one of the calls is answered, so long at most; return all that are."""
        if not calls:
            time.sleep(seconds)
            return ()
        self._ray.wait(calls, timeout=seconds)
        ready, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        return tuple(ready)

    def answer(self, call: Any) -> Turn:
        """Return the answer to a call. Raises PoolLost, and what the turn has raised."""
        errors = self._ray.exceptions
        try:
            turn: Turn = self._ray.get(call)
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise PoolLost(f"{lines[0]} {lines[-1]}"[:_MAX_REASON] if lines[1:] else lines[0][:_MAX_REASON]) from error
        return turn

    def end(self, pool: Any) -> None:
        """End a pool at once, if it can be reached, and with it its crawls."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(pool)

    def close(self) -> None:
        self._ray.shutdown()
