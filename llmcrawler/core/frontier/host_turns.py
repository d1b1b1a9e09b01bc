"""Chooses whose turn it is among the queues of many hosts, without looking at all of them each time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from llmcrawler.core.frontier.protocol import FIRST

Host = TypeVar("Host", bound=Hashable)
Group = TypeVar("Group", bound=Hashable)
Place = tuple[int, int]  # priority, and what orders urls of one priority


class HostTurns(Generic[Host, Group]):
    """Knows the first url's place in each queue, one for each host and group, and the priorities of groups.

    Each host has a heap of its queues, and all hosts a heap of their best ones. Entries of the heaps that no longer
    hold are dropped when they come up. Hosts without room stand aside until a look finds that they have some.
    """

    def __init__(self) -> None:
        self.priorities: dict[Group, int] = {}
        self._heads: dict[Host, dict[Group, Place]] = {}
        self._hosts_of: dict[Group, set[Host]] = {}
        self._queues: dict[Host, list[tuple[int, Place, Group]]] = {}
        self._turns: list[tuple[int, Place, Host]] = []
        self._aside: set[Host] = set()
        # Of the present look:
        self._room: Callable[[Host], int]
        self._worst: int | None = None
        self._left: dict[Host, int] = {}

    def hosts(self) -> list[Host]:
        """Return the hosts that have urls. May be called from another thread."""
        return list(self._heads)

    def put(self, host: Host, group: Group, place: Place | None) -> None:
        """Set the place of a queue's first url; None: it is empty."""
        if place is None:
            self._drop(host, group)
            return
        self._heads.setdefault(host, {})[group] = place
        self._hosts_of.setdefault(group, set()).add(host)
        self._push(host, group, place)

    def note(self, host: Host, group: Group, place: Place) -> None:
        """A url of a queue has this place, which may be before the first one's."""
        head = self._heads.get(host, {}).get(group)
        if head is None or place < head:
            self.put(host, group, place)

    def set_priorities(self, priorities: Mapping[Group, int]) -> None:
        self.priorities.update(priorities)
        for group in priorities:
            for host in self._hosts_of.get(group, ()):
                self._push(host, group, self._heads[host][group])

    def look(self, room: Callable[[Host], int], worst: int | None) -> None:
        """Begin to hand out urls, none worse than `worst`; `room` says how many of a host there may be in this look."""
        self._room, self._worst, self._left = room, worst, {}
        for host in [host for host in self._aside if room(host) > 0]:
            self._aside.discard(host)
            self._push_host(host)
        if len(self._turns) > 64 + 4 * len(self._heads):  # most of them do not hold any more
            self._turns = [turn for host in self._heads if (turn := self._turn_of(host)) and host not in self._aside]
            heapify(self._turns)

    def next(self) -> tuple[Host, Group, int] | None:
        """Return the queue with the best url, and how many more of its host there may be; None: no more at all."""
        while self._turns:
            order, place, host = self._turns[0]
            if host in self._aside or self._turn_of(host) != (order, place, host):
                heappop(self._turns)
                continue
            if self._worst is not None and order > self._worst:
                return None
            if host not in self._left:
                self._left[host] = self._room(host)
            if self._left[host] > 0:
                return host, self._queues[host][0][2], self._left[host]
            self._aside.add(host)
        return None

    def took(self, host: Host) -> None:
        """One url of a host was handed out."""
        self._left[host] -= 1

    def _drop(self, host: Host, group: Group) -> None:
        heads, hosts = self._heads.get(host, {}), self._hosts_of.get(group, set())
        heads.pop(group, None)
        hosts.discard(host)
        if not hosts:
            self._hosts_of.pop(group, None)
        if heads:
            self._push_host(host)
        else:
            self._heads.pop(host, None)
            self._queues.pop(host, None)
            self._aside.discard(host)

    def _order(self, group: Group, place: Place) -> int:
        return place[0] if place[0] <= FIRST else self.priorities.get(group, 0)

    def _push(self, host: Host, group: Group, place: Place) -> None:
        heappush(self._queues.setdefault(host, []), (self._order(group, place), place, group))
        self._push_host(host)

    def _push_host(self, host: Host) -> None:
        turn = None if host in self._aside else self._turn_of(host)
        if turn is not None:
            heappush(self._turns, turn)

    def _turn_of(self, host: Host) -> tuple[int, Place, Host] | None:
        """Return the best turn of a host, and drop what is no longer in its heap."""
        queues, heads = self._queues.get(host), self._heads.get(host, {})
        while queues:
            order, place, group = queues[0]
            if heads.get(group) == place and self._order(group, place) == order:
                return order, place, host
            heappop(queues)
        return None
