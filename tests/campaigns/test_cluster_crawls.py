"""Crawls on machines that come and go: of a cluster that is made up, in a time that is made up too."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from llmcrawler.campaigns.campaign_file import CampaignFile, SiteOutcome, StoredBundle
from llmcrawler.campaigns.campaign_run import CampaignRules, CampaignRun
from llmcrawler.campaigns.campaign_status import campaign_status
from llmcrawler.campaigns.cluster_crawls import ClusterCrawls, MachinePool, Need, Order, PoolLost, Turn
from llmcrawler.campaigns.machine_crawls import CrawlEnded, CrawlEvent, LinesTaken
from llmcrawler.campaigns.sites_file import SiteRow, make_bundles
from llmcrawler.errors import ConfigError

CRAWL_SECONDS = 10.0


@dataclass
class Machine:
    """The crawls of a machine, two at once; each takes ten seconds and ends with status 0."""

    cluster: MadeUpCluster
    name: str
    running: dict[int, tuple[StoredBundle, float]] = field(default_factory=dict)
    events: list[CrawlEvent] = field(default_factory=list)

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool:
        return len(self.running) < 2

    def start(self, one: StoredBundle) -> None:
        self.cluster.started.append((self.name, one.number, one.starts))
        self.running[one.number] = (one, self.cluster.now + CRAWL_SECONDS)

    def finish(self, one: StoredBundle, failure: str) -> None:
        self.cluster.finished.append((self.name, one.number, one.starts))
        sites = [SiteOutcome(row.name, "done", failure, 1, 0, 0, 0, None, None, None, None) for row in one.bundle.sites]
        self.events.append(LinesTaken(one.number, one.starts, tuple(sites)))

    def wait(self, _seconds: float) -> list[CrawlEvent]:
        for number, (one, ends) in [*self.running.items()]:
            if ends <= self.cluster.now:
                del self.running[number]
                self.events.append(CrawlEnded(number, one.starts, 0, ""))
        events, self.events = self.events, []
        return events

    def stop(self) -> None:
        self.end("stop", 3)

    def kill(self) -> None:
        self.end("kill", -9)

    def end(self, told: str, status: int) -> None:
        self.cluster.told.append((self.name, told))
        self.events += [CrawlEnded(number, one.starts, status, told) for number, (one, _) in self.running.items()]
        self.running.clear()

    def close(self) -> None:
        self.cluster.told.append((self.name, "close"))


@dataclass
class MadeUpCluster:
    """A turn takes a tenth of a second. `happens` has what is called at moments, in seconds; places of `dead` machines
    do not answer, and their machines are noticed to be gone when they are taken out of `alive`.
    """

    alive: dict[str, int]
    happens: dict[float, Any] = field(default_factory=dict)
    now: float = 0.0
    dead: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    started: list[tuple[str, int, int]] = field(default_factory=list)
    finished: list[tuple[str, int, int]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    calls: dict[int, tuple[str, MachinePool, Sequence[Order], Sequence[Need]]] = field(default_factory=dict)
    turns: dict[int, Turn] = field(default_factory=dict)
    _last: int = 0

    def machines(self) -> Mapping[str, int]:
        return self.alive

    def open(self, machine: str, cores: int) -> Any:
        return machine, MachinePool(lambda _tell: Machine(self, machine))

    def ask(self, place: Any, orders: Sequence[Order], needs: Sequence[Need]) -> Any:
        self._last += 1
        self.calls[self._last] = (*place, orders, needs)
        return self._last

    def answered(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        self.now += 0.1 if any(self.calls[call][0] not in self.silent for call in calls) else seconds
        for moment in sorted(moment for moment in self.happens if moment <= self.now):
            self.happens.pop(moment)()
        ready = [call for call in calls if self.calls[call][0] not in self.silent]
        for call in ready:
            machine, place, orders, needs = self.calls[call]
            if machine not in self.dead and call not in self.turns:
                self.turns[call] = place.turn(orders, needs)
        return ready

    def answer(self, call: Any) -> Turn:
        del self.calls[call]
        if call not in self.turns:
            raise PoolLost("the actor has died")
        return self.turns.pop(call)

    def end(self, place: Any) -> None:
        self.ended.append(place[0])

    def close(self) -> None:
        pass

    def loses(self, machine: str) -> None:
        self.dead.add(machine)
        self.alive.pop(machine, None)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs a campaign of so many sites, each a bundle, on a cluster; and returns its status."""

    def run(cluster: MadeUpCluster, sites: int = 4, retries: int = 0, is_over: bool = True) -> dict[str, Any]:
        monkeypatch.setattr("llmcrawler.campaigns.campaign_run.time.monotonic", lambda: cluster.now)
        rows = [SiteRow(2, f"{number}.example", f"https://{number}.example/", {}) for number in range(sites)]
        with closing(CampaignFile(tmp_path)) as file:
            file.set_value("form", "jsonl")
            file.add(make_bundles(rows, {}, 2, 1), {})
            crawls = ClusterCrawls(cast(Any, cluster), print, clock=lambda: cluster.now)
            rules = CampaignRules(retries=retries, retry_seconds=0.1)
            assert CampaignRun(tmp_path, file, crawls, rules, print).run() == is_over
        return campaign_status(tmp_path)

    return run


def test_machines_share_the_bundles(run):
    cluster = MadeUpCluster({"a": 2, "b": 2})
    status = run(cluster)
    assert {site["state"] for site in status["sites"]} == {"done"}
    assert sorted(machine for machine, _number, _start in cluster.started) == ["a", "a", "b", "b"]
    assert sorted(cluster.started) == sorted(cluster.finished)
    assert cluster.now < 2 * CRAWL_SECONDS, "all four at once"
    assert sorted(cluster.ended) == ["a", "b"]
    assert ("a", "close") in cluster.told


def test_bundles_of_a_machine_that_dies_go_elsewhere_and_are_not_blamed(run):
    cluster = MadeUpCluster({"a": 2, "b": 2})
    cluster.happens[5.0] = lambda: cluster.loses("a")
    status = run(cluster)
    lost = {number for machine, number, _start in cluster.started if machine == "a"}
    assert len(lost) == 2
    assert sorted(cluster.finished) == sorted(("b", number, 2 if number in lost else 1) for number in (1, 2, 3, 4)), (
        "each once, by who had it last"
    )
    assert {site["state"] for site in status["sites"]} == {"done"}


def test_a_place_that_is_cut_off_is_not_listened_to_when_it_is_back(run):
    cluster = MadeUpCluster({"a": 2, "b": 2})

    def cut_off():
        cluster.silent.add("a")
        cluster.alive.pop("a")

    def is_back():
        cluster.silent.discard("a")
        cluster.alive["a"] = 2

    cluster.happens = {9.0: cut_off, 15.0: is_back}
    status = run(cluster)
    assert sorted(number for _machine, number, _start in cluster.finished) == [1, 2, 3, 4]
    assert {site["state"] for site in status["sites"]} == {"done"}
    assert cluster.ended.count("a") == 2, "the first place there was ended, whatever it did"


def test_a_machine_that_dies_while_it_takes_lines_takes_no_outcome_with_it(run):
    cluster = MadeUpCluster({"a": 2})

    def dies_with_the_crawls_over():
        if cluster.calls and any(
            name == "finish" for _m, _p, orders, _n in cluster.calls.values() for name, _ in orders
        ):
            cluster.loses("a")
            cluster.alive["b"] = 2
        else:
            cluster.happens[cluster.now + 0.05] = dies_with_the_crawls_over

    cluster.happens[9.0] = dies_with_the_crawls_over
    run(cluster, sites=1)
    assert cluster.finished == [("b", 1, 2)]


def test_a_place_that_dies_on_a_machine_that_lives_counts_as_a_try(run):
    cluster = MadeUpCluster({"a": 2})
    cluster.happens[5.0] = lambda: cluster.dead.add("a")
    cluster.happens[6.0] = lambda: cluster.dead.discard("a")
    status = run(cluster, sites=1, retries=0)
    assert status["sites"][0]["reason"].startswith("given up after 1 tries: ")
    assert cluster.started == [("a", 1, 1)]
    assert cluster.finished == [("a", 1, 1)], "by the place that came after it"


def test_a_machine_that_joins_gets_a_place(run):
    cluster = MadeUpCluster({"a": 2})
    cluster.happens[3.0] = lambda: cluster.alive.update(b=2)
    run(cluster, sites=6)
    assert {machine for machine, _number, _start in cluster.started if machine == "b"}
    assert cluster.now < 3 * CRAWL_SECONDS


def test_without_a_machine_the_campaign_waits_for_one(run):
    cluster = MadeUpCluster({})
    cluster.happens[300.0] = lambda: cluster.alive.update(a=2)
    assert run(cluster)["is_over"]
    assert cluster.now < 300 + 3 * CRAWL_SECONDS


def test_when_no_place_can_be_made_the_reason_is_told(run):
    cluster = MadeUpCluster({"a": 2}, dead={"a"})
    with pytest.raises(ConfigError, match="no machine of the cluster can crawl: the actor has died"):
        run(cluster)


def test_stopping_reaches_every_place_and_ends_them_orderly(run):
    cluster = MadeUpCluster({"a": 2, "b": 2})
    cluster.happens[5.0] = lambda: signal.raise_signal(signal.SIGINT)
    status = run(cluster, is_over=False)
    assert {("a", "stop"), ("b", "stop")} <= {*cluster.told}
    assert ("a", "kill") not in cluster.told
    assert {site["state"] for site in status["sites"]} == {"waiting"}


def test_a_second_signal_ends_all_crawls_at_once(run, monkeypatch):
    cluster = MadeUpCluster({"a": 2})
    monkeypatch.setattr(Machine, "stop", lambda _self: None)
    cluster.happens = {moment: lambda: signal.raise_signal(signal.SIGINT) for moment in (5.0, 6.0)}
    run(cluster, sites=1, is_over=False)
    assert ("a", "kill") in cluster.told
    assert cluster.now < CRAWL_SECONDS


def test_an_end_of_an_earlier_start_is_no_end(tmp_path):
    class Late:
        """Its machine tells of a start that was before."""

        def __init__(self) -> None:
            self.ends: list[CrawlEvent] = []
            self.finished: list[int] = []

        def has_room(self, **_: bool) -> bool:
            return True

        def start(self, one: StoredBundle) -> None:
            self.ends = [CrawlEnded(one.number, one.starts - 1, 2, "late"), CrawlEnded(one.number, one.starts, 0, "")]

        def finish(self, one: StoredBundle, failure: str) -> None:
            assert not failure
            self.finished.append(one.starts)
            old = LinesTaken(one.number, one.starts - 1, ())
            self.ends = [old, replace(old, start=one.starts)]

        def wait(self, _seconds: float) -> list[CrawlEvent]:
            ends, self.ends = self.ends, []
            return ends

        def stop(self) -> None: ...

        def kill(self) -> None: ...

        def close(self) -> None: ...

    crawls = Late()
    with closing(CampaignFile(tmp_path)) as file:
        file.add(make_bundles([SiteRow(2, "a.example", "https://a.example/", {})], {}, 1, 1), {})
        file.note_start(1, 0.0)
        assert CampaignRun(tmp_path, file, crawls, CampaignRules(), print).run()
    assert crawls.finished == [2]
