"""What tests of several files look at."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest


class Exchange(NamedTuple):
    started: float  # monotonic seconds
    answered: float
    status: int


class Exchanges(list[Exchange]):
    """In the order of their starts."""

    @property
    def gaps(self) -> list[float]:
        return [later.started - earlier.started for earlier, later in pairwise(self)]


@pytest.fixture
def exchanges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Exchanges]:
    """Of a crawl with the settings WITH_REQUEST_TIMES."""
    file = tmp_path / "request-times"
    monkeypatch.setenv("REQUEST_TIMES", str(file))

    def read() -> Exchanges:
        rows = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
        return Exchanges(sorted(Exchange(float(one), float(other), int(status)) for one, other, status in rows))

    return read
