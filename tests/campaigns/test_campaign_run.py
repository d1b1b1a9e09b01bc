"""What is done when a bundle's crawl ends, by its exit status; its lines are those of a job made here."""

from __future__ import annotations

import json
import signal
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from llmcrawler.campaigns import campaign_run, machine_crawls
from llmcrawler.campaigns.campaign_file import CampaignFile
from llmcrawler.campaigns.campaign_run import CampaignRules, CampaignRun, prepare
from llmcrawler.campaigns.campaign_status import MANIFEST, bundle_log, campaign_status
from llmcrawler.campaigns.campaign_storage import storage_at
from llmcrawler.campaigns.machine_crawls import BundleCrawls
from llmcrawler.campaigns.site_lines import file_of
from llmcrawler.campaigns.sites_file import SiteRow, make_bundles
from llmcrawler.errors import ConfigError


@dataclass
class Place:
    """A place whose crawls end in their turns as they are told to; `began` has their bundles, `at_once` the most."""

    statuses: dict[int, deque[int]]
    room: int = 10
    began: list[int] = field(default_factory=list)
    at_once: int = 0
    rendered_at_once: int = 0
    logs: dict[int, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    _running: dict[int, bool] = field(default_factory=dict)

    def has_room(self, *, needs_browser: bool, may_need_browser: bool) -> bool:
        assert may_need_browser or not needs_browser
        return len(self._running) < self.room and not (needs_browser and any(self._running.values()))

    def start(self, key: int, argv: Any, log: Any, *, needs_browser: bool) -> None:
        assert argv[0] == "explore"
        log.write_text(self.logs.get(key, ""))
        self.began.append(key)
        self._running[key] = needs_browser
        self.at_once = max(self.at_once, len(self._running))
        self.rendered_at_once = max(self.rendered_at_once, sum(self._running.values()))

    def wait(self, _seconds: float) -> list[tuple[int, int]]:
        if not self._running:
            return []
        key = next(iter(self._running))
        del self._running[key]
        left = self.statuses.get(key)
        return [(key, left.popleft() if left else 0)]

    def stop(self) -> None:
        self.told.append("stop")

    def kill(self) -> None:
        self.told.append("kill")

    def close(self) -> None:
        pass


def row(name, **arguments):
    return SiteRow(2, name, f"https://{name}/", arguments)


def run(folder, place, rows=None, *, storage=None, told=print, is_over=True, **options):
    """Run a campaign in the folder of a bundle a row; return its status."""
    addresses, most_sites = options.pop("addresses", {}), options.pop("most_sites", 1)
    rules = CampaignRules(**{"retries": 3, "retry_seconds": 0.0001, **options})
    folder.mkdir(exist_ok=True)
    with closing(CampaignFile(folder)) as file:
        if not file.known_sites():
            file.set_value("form", "jsonl")
            file.add(make_bundles(rows or [row("a.example"), row("b.example")], addresses, 2, most_sites), addresses)
        crawls = BundleCrawls(folder, storage or storage_at(folder), place, "jsonl")
        assert CampaignRun(folder, file, crawls, rules, told).run() == is_over
    assert json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["is_over"] == is_over
    return campaign_status(folder)


@pytest.fixture
def campaign(tmp_path):
    return lambda rows, place, **options: run(tmp_path, place, rows, **options)


@pytest.mark.parametrize("status", [0, 4, 5, 6])
def test_a_crawl_that_has_done_what_it_could_is_over(campaign, status):
    place = Place({1: deque([status])})
    assert campaign([row("a.example")], place)["bundles"][0]["exit_status"] == status
    assert place.began == [1]


@pytest.mark.parametrize(("status", "tries"), [(1, 4), (3, 4), (-9, 13)])
def test_what_may_go_better_is_tried_again_and_given_up_with_its_reason(campaign, status, tries):
    """A process that was killed says nothing of its sites: they are given up much later."""
    place = Place({1: deque([status] * 20)})
    found = campaign([row("a.example"), row("b.example")], place)
    assert place.began.count(1) == tries
    assert place.began.count(2) == 1
    (site,) = (one for one in found["sites"] if one["bundle"] == 1)
    assert site["state"] == "failed"
    assert site["reason"].startswith(f"given up after {tries} tries: ")


def test_a_bundle_that_failed_has_its_pause_after_a_restart_of_the_campaign_too(tmp_path, monkeypatch):
    class Clock:
        now = 1_000.0

        def monotonic(self) -> float:
            self.now += 0.1
            return self.now

        time = staticmethod(time.time)

    clock = Clock()
    monkeypatch.setattr(campaign_run, "time", clock)
    with closing(CampaignFile(tmp_path)) as file:
        file.set_value("form", "jsonl")
        file.add(make_bundles([row("a.example")], {}, 2, 1), {})
        file.note_attempt(1, 3, -9, "its process was ended by SIGKILL")
    place = Place({})
    run(tmp_path, place, retry_seconds=2.0)
    assert place.began == [1]
    assert clock.now >= 1_000 + 8


def test_a_crawl_that_succeeds_at_last_leaves_no_failure(campaign):
    place = Place({1: deque([-9, 7, 0])})
    found = campaign([row("a.example")], place)
    assert place.began == [1] * 3
    assert found["bundles"][0]["exit_status"] == 0


def test_wrong_usage_is_not_tried_again(campaign):
    place = Place({1: deque([2])}, logs={1: "Usage\n\nscrapy: error: no such model\n"})
    found = campaign([row("a.example")], place)
    assert place.began == [1]
    assert found["sites"][0]["reason"] == "scrapy: error: no such model"


def test_sites_of_one_address_are_not_crawled_at_once(campaign):
    addresses = {"a.example": ["192.0.2.1"], "b.example": ["192.0.2.1", "192.0.2.2"], "c.example": ["192.0.2.2"]}
    place = Place({})
    campaign([row("a.example"), row("b.example"), row("c.example")], place, addresses=addresses)
    assert place.at_once == 2, "a and c; b has an address of each"
    assert sorted(place.began) == [1, 2, 3]


def test_a_bundle_that_waits_for_the_browser_does_not_hold_up_others(campaign):
    rows = [row("a.example", render="always", max_pages="900"), row("b.example", render="always", max_pages="900")]
    place = Place({})
    campaign([*rows, row("c.example"), row("d.example")], place)
    assert place.rendered_at_once == 1
    assert place.began[:3] == [1, 3, 4]


def test_the_first_signal_lets_crawls_end_and_the_second_ends_them(tmp_path, monkeypatch):
    class Interrupted(Place):
        def wait(self, seconds: float) -> list[tuple[int, int]]:
            signal.raise_signal(signal.SIGINT)
            if self.told.count("kill"):
                return super().wait(seconds)
            monkeypatch.setattr(campaign_run, "_ECHO_SECONDS", -1.0)
            return []

    place: Any = Interrupted({1: deque([-9])}, room=1)
    handler = signal.getsignal(signal.SIGINT)
    status = run(tmp_path, place, is_over=False)
    assert place.began == [1]
    assert place.told[0] == "stop"
    assert "kill" in place.told
    assert {site["state"] for site in status["sites"]} == {"waiting"}
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(("what", "told"), [("take_lines", ["stop"]), ("replace_file", [])])
def test_when_the_disk_takes_no_more_crawls_under_way_end_orderly(tmp_path, monkeypatch, what, told):
    def full(*_: object, **_options: object) -> None:
        raise OSError("the disk is full")

    place: Any = Place({2: deque([3])})
    monkeypatch.setattr(machine_crawls, what, full)
    with pytest.raises(OSError, match="the disk is full"):
        run(tmp_path, place)
    assert place.told == told
    assert not place._running


def test_a_later_run_of_a_campaign_that_is_over_does_nothing(campaign):
    campaign([row("a.example")], Place({}))
    again = Place({})
    campaign([row("a.example")], again)
    assert not again.began


def test_known_sites_keep_their_arguments_and_the_form_of_their_lines(tmp_path):
    rows = [row("a.example", goal="product")]
    with closing(CampaignFile(tmp_path)) as file:
        prepare(file, tmp_path, [], form="jsonl", cores=1, most_sites=1)
        file.add(make_bundles(rows, {}, 1, 1), {})
        with pytest.raises(ConfigError, match=r"line 2: a\.example was crawled with other arguments: goal=product"):
            prepare(file, tmp_path, [row("a.example")], form="jsonl", cores=1, most_sites=1)
        with pytest.raises(ConfigError, match="jsonl, and not as parquet"):
            prepare(file, tmp_path, rows, form="parquet", cores=1, most_sites=1)


def test_a_file_that_is_none_of_ours_is_left_as_it_is(tmp_path):
    (tmp_path / "campaign.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(ConfigError, match="cannot be used"):
        CampaignFile(tmp_path)
    with pytest.raises(ConfigError, match="cannot be used"):
        campaign_status(tmp_path)
    assert bundle_log(tmp_path, 1).parts[-3:] == ("bundles", "00001", "crawl.log")


def test_a_bundle_whose_saved_job_is_damaged_fails_with_the_cure_and_keeps_its_earlier_lines(tmp_path):
    storage, work = storage_at(tmp_path / "storage"), tmp_path / "work"
    lines = file_of("a.example", "jsonl")
    storage.write(lines, b"of the last round")
    storage.write("saved/00001/saved.json", b"damaged")
    place: Any = Place({})
    failed, _other = run(work, place, storage=storage)["sites"]
    assert place.began == [2]
    assert failed["state"] == "failed"
    assert "delete saved/00001/ there to crawl the bundle again" in failed["reason"]
    assert storage.read(lines) == b"of the last round"


def test_a_bundle_whose_storage_does_not_answer_is_tried_again(tmp_path, monkeypatch):
    storage, work = storage_at(tmp_path / "storage"), tmp_path / "work"
    reads = iter([OSError("no network"), None])
    read = type(storage).read

    def reading(self: Any, path: str) -> bytes | None:
        if error := next(reads, None):
            raise error
        return read(self, path)

    monkeypatch.setattr(type(storage), "read", reading)
    place: Any = Place({})
    told: list[str] = []
    run(work, place, [row("a.example")], storage=storage, told=told.append)
    assert place.began == [1]
    assert "(no network); it goes on in" in told[0]
