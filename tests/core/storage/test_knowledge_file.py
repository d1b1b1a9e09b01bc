"""The file of what platforms have taught: many processes write it, and nothing in it is trusted."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.storage import KnowledgeFile
from llmcrawler.errors import ConfigError

WRITER = """
import asyncio, sys
from pathlib import Path
from llmcrawler.core.storage import KnowledgeFile

async def main(path, name, most):
    file = KnowledgeFile(Path(path))
    for number in range(int(most)):
        await file.change("Ghost", "task", "verdicts", lambda now: [*now, {"by": name, "number": number}])
        print(number, flush=True)
    print(await file.number_of("Ghost", "task", name))
    file.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def read(path: Path, part: str = "verdicts") -> list[dict[str, Any]]:
    file = KnowledgeFile(path)
    try:
        return await file.read("Ghost", "task", part)
    finally:
        file.close()


def writer(path: Path, name: str, most: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(most)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True)


def test_what_several_processes_add_is_all_there_and_each_site_has_a_number(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.sqlite"
    writers = [writer(path, f"w{n}", 20) for n in range(4)]
    numbers = [int(one.communicate(timeout=120)[0].split()[-1]) for one in writers]
    assert sorted(numbers) == [1, 2, 3, 4]
    rows = asyncio.run(read(path))
    assert sorted((row["by"], row["number"]) for row in rows) == [(f"w{n}", at) for n in range(4) for at in range(20)]


def test_a_process_that_is_killed_has_added_whole_pieces_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.sqlite"
    victim, other = writer(path, "victim", 1_000_000), writer(path, "other", 20)
    assert victim.stdout is not None
    said = [int(victim.stdout.readline()) for _ in range(5)]
    os.kill(victim.pid, signal.SIGKILL)
    with victim:
        said += [int(number) for number in victim.stdout.read().split()]  # ``communicate`` loses what is read ahead
    assert other.communicate(timeout=120)[0].split()[:20] == [str(number) for number in range(20)]
    rows = asyncio.run(read(path))
    of_victim = [row["number"] for row in rows if row["by"] == "victim"]
    assert of_victim == list(range(len(of_victim)))
    assert len(said) <= len(of_victim) <= len(said) + 1  # one may be in the file that it did not come to tell of
    assert [row["number"] for row in rows if row["by"] == "other"] == list(range(20))


async def test_a_site_keeps_its_number(tmp_path: Path) -> None:
    file = KnowledgeFile(tmp_path / "knowledge.sqlite")
    numbers = [await file.number_of("Ghost", "task", site) for site in ("a", "b", "a", "c")]
    assert numbers == [1, 2, 1, 3]
    assert await file.number_of("Ghost", "other task", "c") == 1
    file.close()


@pytest.mark.parametrize("value", [b"", b"\x00damaged", "text", None])
async def test_a_damaged_part_is_empty(tmp_path: Path, value: object) -> None:
    path = tmp_path / "knowledge.sqlite"
    file = KnowledgeFile(path)
    await file.change("Ghost", "task", "verdicts", lambda _now: [{"a": 1}])
    file.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE parts SET value = ?", ("" if value is None else value,))
    assert await read(path) == []


async def test_too_much_is_not_kept(tmp_path: Path) -> None:
    file = KnowledgeFile(tmp_path / "knowledge.sqlite")
    await file.change("Ghost", "task", "verdicts", lambda _now: [{"a": 1}])
    await file.change("Ghost", "task", "verdicts", lambda now: [*now, {"b": "x" * 5_000_000}])
    assert await file.read("Ghost", "task", "verdicts") == [{"a": 1}]
    file.close()


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine" * 1000)
    with pytest.raises(ConfigError, match=r"KNOWLEDGE_FILE=.*notes\.txt"):
        KnowledgeFile(tmp_path / "notes.txt").check()
    assert (tmp_path / "notes.txt").read_text() == "mine" * 1000
