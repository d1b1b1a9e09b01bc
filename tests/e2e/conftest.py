"""Set up what the tests of crawls share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here: each runs a crawl or another command in a process of its own."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.server)


@pytest.fixture
def site() -> Iterator[MockSite]:
    """Return a small shop with a blog, for one test: it counts what it was asked."""
    with MockSite().in_thread() as site:
        yield site


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    (tmp_path / "redis").mkdir()
    with RedisServer(tmp_path / "redis") as server:
        yield server
