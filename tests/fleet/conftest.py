"""The Redis of the tests of a module, which nobody stops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server
