"""Tells what an answer to the question for a robots.txt means (RFC 9309, 2.3.1)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

MAX_REDIRECTS: Final = 10  # in a row; five are the least (2.3.1.2)
# Not for the robots.txt alone: the host has no time now. To all else with 4xx there is no such file.
_TOO_MANY_REQUESTS: Final = 429


class RobotsAnswer(Enum):
    FILE = auto()
    ABSENT = auto()  # everything is allowed, whatever the body says
    UNREACHABLE = auto()  # nothing is allowed


def robots_answer(status: int) -> RobotsAnswer:
    """Judge a status. A redirect that is judged leads nowhere, or on and on: there is no file (2.3.1.2). What is no
    status of HTTP counts as 5xx (RFC 9110, 15).
    """
    if 200 <= status < 300:
        return RobotsAnswer.FILE
    is_absent = 300 <= status < 500 and status != _TOO_MANY_REQUESTS
    return RobotsAnswer.ABSENT if is_absent else RobotsAnswer.UNREACHABLE
