"""What a worker's log says of its sites."""

from __future__ import annotations

import logging

import pytest

from llmcrawler.fleet.ownership_log import OwnershipLog


def test_what_becomes_of_many_sites_is_a_line_of_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = OwnershipLog("me", lambda: 0.0)
    for number in range(7):
        log.note_taken(f"{number}.example", "", is_known=False)
    log.note_taken("a.example", "w1", is_known=True)
    log.note_taken("b.example", "w2", is_known=False)
    log.note_taken("mine.example", "me", is_known=True)
    log.note_given_up("c.example")
    log.write()
    assert caplog.messages == [
        "This worker took 0.example, 1.example, 2.example, 3.example, 4.example and 3 more",
        "This worker took over a.example from w1 with what was learned of it, b.example from w2",
        "This worker gave up c.example: another one has less to do",
    ]
    assert log.counts == {"taken": 10, "taken_over": 2, "given_up": 1}


def test_lines_are_some_seconds_apart_and_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    times = iter((0.0, 5.0, 10.0, 11.0))
    log = OwnershipLog("me", lambda: next(times))
    for site in ("a", "b"):
        log.note_taken(site, "", is_known=False)
        log.write()
    assert caplog.messages == ["This worker took a"]
    log.note_taken("c", "", is_known=False)
    log.write()
    assert caplog.messages[1:] == ["This worker took b, c"]
    log.note_taken("d", "", is_known=False)
    log.write(at_end=True)
    assert caplog.messages[2:] == ["This worker took d"]
