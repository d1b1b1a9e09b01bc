"""Marks what the default run of the tests leaves out and `pytest -m nightly` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_by_night(cases: Iterable[Any], by_day: int = 1) -> list[Any]:
    """Return the cases for `parametrize`; all but the first `by_day` are marked nightly. A tuple is one case."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly if n >= by_day else ())
        for n, case in enumerate(cases)
    ]
