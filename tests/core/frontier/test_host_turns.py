"""Whose turn it is among the queues of many hosts, beside a look at all of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from llmcrawler.core.frontier.host_turns import HostTurns

HOSTS, GROUPS = [f"{number}.test" for number in range(12)], ["", "lists", "things"]
Heads = dict[tuple[str, str], tuple[int, int]]


def turns_of_all(
    heads: Heads, priorities: dict[str, int], room: dict[str, int], worst: int | None
) -> list[tuple[str, str]]:
    """The queues in the order of their turns, each taken once: a look at all of them."""

    def order(queue: tuple[str, str]) -> tuple[Any, ...]:
        place = heads[queue]
        return (place[0] if place[0] <= -1 else priorities.get(queue[1], 0), *place)

    chosen, left = [], dict(room)
    for queue in sorted(heads, key=order):
        if worst is not None and order(queue)[0] > worst:
            break
        if left[queue[0]] > 0:
            chosen.append(queue)
            left[queue[0]] -= 1
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_turns_are_those_that_a_look_at_all_queues_finds(seed):
    random = Random(seed)
    turns: HostTurns[str, str] = HostTurns()
    heads: Heads = {}
    priorities: dict[str, int] = {}
    for arrival in range(300):
        host, group = random.choice(HOSTS), random.choice(GROUPS)
        deed = random.random()
        if deed < 0.5:
            place = (random.choice([-1, 0, 0, 3]), arrival)
            if (host, group) not in heads or place < heads[host, group]:
                heads[host, group] = place
            turns.note(host, group, place)
        elif deed < 0.6:
            priorities[group] = random.randrange(4)
            turns.set_priorities({group: priorities[group]})
        else:
            room = {one: random.choice([0, 0, 1, 2]) for one in HOSTS}
            worst = random.choice([None, 0, 2])
            turns.look(room.__getitem__, worst)
            found: list[tuple[str, str]] = []
            while (turn := turns.next()) is not None:
                assert turn[2] == room[turn[0]] - sum(one[0] == turn[0] for one in found)
                found.append(turn[:2])
                turns.took(turn[0])
                turns.put(*turn[:2], None)
            assert found == turns_of_all(heads, priorities, room, worst)
            for queue in found:
                del heads[queue]
    turns.look(lambda _host: 999, None)
    rest = []
    while (turn := turns.next()) is not None:
        rest.append(turn[:2])
        turns.took(turn[0])
        turns.put(*turn[:2], None)
    assert rest == turns_of_all(heads, priorities, dict.fromkeys(HOSTS, 999), None)


def test_a_look_asks_about_the_room_of_a_few_hosts_and_once_each():
    turns: HostTurns[str, str] = HostTurns()
    for number in range(1000):
        turns.put(f"{number}.test", "", (0, number))
    asked: list[str] = []

    def room(host: str) -> int:
        asked.append(host)
        return 0 if host.startswith(("0.", "1.", "2.")) else 1

    turns.look(room, None)
    assert [turns.next(), turns.next()] == [("3.test", "", 1)] * 2
    assert asked == ["0.test", "1.test", "2.test", "3.test"]
    turns.took("3.test")
    assert turns.next() == ("4.test", "", 1)
