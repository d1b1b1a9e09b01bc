"""A file that many processes make and use at the same time."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from llmcrawler.core.storage.shared_file import connect_shared

SCHEMA = "CREATE TABLE IF NOT EXISTS rows (value);"


def test_whoever_comes_at_the_same_moment_opens_the_file_that_one_of_them_makes(tmp_path: Path) -> None:
    together = Barrier(8)

    def opened(path: Path) -> int:
        together.wait()
        connection = connect_shared(path, SCHEMA, busy_seconds=30, application=77)
        try:
            return int(connection.execute("PRAGMA application_id").fetchone()[0])
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            assert list(pool.map(opened, [tmp_path / f"{number}.sqlite"] * 8)) == [77] * 8


def test_the_file_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    connect_shared(tmp_path / "file", SCHEMA, busy_seconds=1, application=77).close()
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(sqlite3.DatabaseError, match="something else"):
        connect_shared(tmp_path / "file", SCHEMA, busy_seconds=1, application=78)
    assert (tmp_path / "file").read_bytes() == before
