"""What several shards have all together, each of them seen at another moment."""

from __future__ import annotations

from llmcrawler.core.frontier import Counts
from llmcrawler.crawl.agreed_counts import AgreedCounts

NONE, ONE, DONE = Counts(), Counts(leased=1), Counts(done=1)


def agreed(shards: int, *looks: tuple[int, float, float, Counts]) -> AgreedCounts:
    """Each look: shard, when it was asked, when it answered, what it said."""
    now = 0.0
    counts = AgreedCounts(shards, lambda: now)
    for shard, asked_at, answered_at, said in looks:
        now = answered_at
        counts.note(shard, asked_at, said)
    return counts


def test_one_shard_is_right_whenever_it_is_asked():
    counts = agreed(1, (0, 5, 6, DONE))
    assert counts.hold_since(4, DONE)
    assert not counts.hold_since(5, DONE)  # it may have changed since it was asked
    assert not counts.hold_since(4, NONE)


def test_several_are_right_when_two_rounds_say_the_same():
    looks = [(0, 1, 2, DONE), (1, 1, 3, NONE), (0, 4, 5, DONE), (1, 4, 6, NONE)]
    assert not agreed(2, *looks[:2]).hold_since(0, DONE)
    assert not agreed(2, *looks[:3]).hold_since(-1, DONE)
    assert agreed(2, *looks).hold_since(-1, DONE)
    assert not agreed(2, *looks).hold_since(0, DONE)


def test_a_link_that_goes_from_one_shard_to_another_between_two_looks_is_not_overlooked():
    """The second shard is asked before the link comes, the first one after the page that has it was acknowledged."""
    unseen = [(1, 1, 2, NONE), (0, 1, 3, DONE)]
    seen = [(1, 4, 5, Counts(queued=1)), (0, 4, 6, DONE)]
    assert not agreed(2, *unseen, *seen).hold_since(-1, DONE)
    again = [(1, 7, 8, Counts(done=1)), (0, 7, 9, DONE), (1, 10, 11, Counts(done=1)), (0, 10, 12, DONE)]
    assert agreed(2, *unseen, *seen, *again).hold_since(5, Counts(done=2))


def test_a_look_that_began_before_its_round_is_of_the_round_before():
    slow = [(0, 1, 2, NONE), (1, 1, 3, NONE), (1, 2.5, 4, NONE), (0, 4, 5, NONE)]
    assert not agreed(2, *slow).hold_since(-1, NONE)
