"""The crawls of one machine that name the same file never spend more, nor ask faster, than one of them might."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.budget_file import FileLimits, open_budget_file
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.usage import Tokens
from llmcrawler.errors import BudgetSpent, ConfigError, LLMFailed
from tests.core.llm.clients import FakeTime

# Pays calls of 30 to 100 tokens from one budget until it is spent, and prints what it paid.
SPENDER = """
import asyncio, sys
from pathlib import Path
from random import Random
from llmcrawler.errors import BudgetSpent
from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.budget_file import FileLimits, open_budget_file
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.usage import Tokens

async def main(path, most, seed):
    budget, rng = Budget(BudgetLimits(max_tokens=most)), Random(seed)
    file = open_budget_file(Path(path))
    budget.share(FileLimits(file, CallLimits(), budget.limits))
    async def spend():
        while True:
            async with budget.call(20, 60) as call:
                await asyncio.sleep(0)
                answer = rng.randint(10, 60)
                print(20 + answer, flush=True)
                call.settle(Tokens(20, answer))
    with __import__("contextlib").suppress(BudgetSpent):
        await asyncio.gather(spend(), spend())
    file.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
MOST = 40_000


def spent_in(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        return int(connection.execute("SELECT tokens FROM spent").fetchone()[0])


@pytest.mark.nightly
def test_eight_processes_spend_no_more_than_one_might_and_one_that_is_killed_gives_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    command = [sys.executable, "-c", SPENDER, str(path), str(MOST)]
    processes = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        for seed in range(8)
    ]
    # The first that pays: on a busy machine another may come when all is spent.
    paying, _, _ = select.select([process.stdout for process in processes], [], [])
    victim = next(process for process in processes if process.stdout in paying)
    paid = [int(victim.stdout.readline()) for _ in range(5)]
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    for process in processes:
        with process:
            paid += [int(line) for line in process.stdout.read().split()]  # ``communicate`` loses what is read ahead
    assert sum(paid) <= spent_in(path) <= MOST
    # All but what the dead one held, and too little for another call, was there for the others.
    assert sum(paid) > MOST - 1_000


async def test_what_another_crawl_holds_is_waited_for(tmp_path: Path) -> None:
    first, second = (Budget(BudgetLimits(max_tokens=300)) for _ in range(2))
    files = [open_budget_file(tmp_path / "budget.sqlite") for _ in range(2)]
    for budget, file in zip((first, second), files, strict=True):
        budget.share(FileLimits(file, CallLimits(), budget.limits))
    is_asked, is_answered = asyncio.Event(), asyncio.Event()

    async def ask(budget: Budget, until: asyncio.Event | None = None) -> None:
        async with budget.call(40, 100) as call:
            is_asked.set()
            if until is not None:
                await until.wait()
            call.settle(Tokens(10, 10))

    slow = asyncio.ensure_future(ask(first, is_answered))
    await is_asked.wait()
    waiting = asyncio.ensure_future(ask(second))
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    is_answered.set()
    await asyncio.gather(slow, waiting)
    assert spent_in(tmp_path / "budget.sqlite") == 40
    for file in files:
        file.close()


async def test_calls_of_one_crawl_that_wait_for_each_other_are_all_refused_once_others_have_spent_it() -> None:
    """One waits for what another crawl holds, the second for what the first holds and does not get."""
    is_answered = asyncio.Event()

    class Spent:
        async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
            await is_answered.wait()
            return False, 300, 0.0

        async def give_back(self, tokens: int, cost_usd: float) -> None:
            raise AssertionError("nothing was taken")

    async def ask() -> None:
        async with budget.call(40, 100):
            raise AssertionError("nothing was left")

    budget = Budget(BudgetLimits(max_tokens=300))
    budget.share(Spent())
    asked = [asyncio.ensure_future(ask()) for _ in range(3)]
    await asyncio.sleep(0)
    is_answered.set()
    async with asyncio.timeout(60):
        refused = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in refused] == [BudgetSpent] * 3


async def test_a_call_that_is_cancelled_while_it_takes_leaves_nothing_taken(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    file = open_budget_file(path)
    await file.run(lambda _connection: None)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        taking = asyncio.ensure_future(FileLimits(file, CallLimits(), BudgetLimits(max_tokens=100)).take(90, 0.0))
        await asyncio.sleep(0)
        taking.cancel()
        await asyncio.sleep(0)
        other.execute("COMMIT")
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await file.run(lambda connection: connection.execute("SELECT tokens FROM spent").fetchall()) == [(0,)]
    assert await file.run(lambda connection: connection.execute("SELECT calls FROM crawls").fetchall()) == [(0,)]
    file.close()


async def test_money_is_shared_as_tokens_are(tmp_path: Path) -> None:
    file = open_budget_file(tmp_path / "budget.sqlite")
    first, second = (FileLimits(file, CallLimits(), BudgetLimits(max_cost_usd=0.01)) for _ in range(2))
    assert (await first.take(5, 0.006))[0]
    await first.give_back(1, 0.001)
    taken, tokens, cost = await second.take(5, 0.006)
    assert (taken, tokens) == (False, 4)
    assert cost == pytest.approx(0.005)
    assert (await second.take(5, 0.005))[0]
    file.close()


@pytest.mark.parametrize("limits", [CallLimits(requests_per_minute=3), CallLimits(tokens_per_minute=30)])
async def test_calls_a_minute_hold_over_all_crawls(tmp_path: Path, limits: CallLimits) -> None:
    time = FakeTime()
    clock = time.clock()
    files = [open_budget_file(tmp_path / "budget.sqlite") for _ in range(2)]
    rates = [FileLimits(file, limits, BudgetLimits(), clock) for file in files]
    starts = []
    for number in range(8):
        await rates[number % 2].admit(10)
        starts.append(time.now)
    assert starts == sorted(starts)
    assert all(starts[at + 3] - starts[at] >= 60 for at in range(5))
    assert starts[-1] < 130
    for file in files:
        file.close()


async def test_a_pause_that_one_crawl_was_told_holds_for_all(tmp_path: Path) -> None:
    time = FakeTime()
    clock = time.clock()
    file = open_budget_file(tmp_path / "budget.sqlite")
    first, second = (FileLimits(file, CallLimits(), BudgetLimits(), clock) for _ in range(2))
    before = time.now
    first.hold(7)
    await asyncio.sleep(0)
    await second.admit(1)
    assert time.now - before == pytest.approx(7, abs=0.01)
    file.close()


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"LLM_BUDGET_FILE=.*the file of something else"):
        open_budget_file(path).check()
    assert path.read_bytes() == before


async def test_nothing_is_asked_where_the_file_fails(tmp_path: Path) -> None:
    (tmp_path / "budget.sqlite").mkdir()
    file = open_budget_file(tmp_path / "budget.sqlite")
    with pytest.raises(LLMFailed, match="LLM_BUDGET_FILE"):
        await FileLimits(file, CallLimits(), BudgetLimits(max_tokens=10)).take(1, 0.0)
    with pytest.raises(LLMFailed, match="LLM_BUDGET_FILE"):
        await FileLimits(file, CallLimits(), BudgetLimits()).admit(1)
    file.close()
