"""A campaign that is kept elsewhere has one driver at a time, and what that notes goes there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from llmcrawler.campaigns import stored_campaign
from llmcrawler.campaigns.campaign_file import CampaignFile
from llmcrawler.campaigns.campaign_status import lock_campaign, write_manifest
from llmcrawler.campaigns.campaign_storage import CampaignStorage, storage_at
from llmcrawler.campaigns.sites_file import SiteRow, make_bundles
from llmcrawler.campaigns.stored_campaign import StoredCampaign, read_owner, status_at, work_folder
from llmcrawler.errors import ConfigError, JobBusy


@dataclass
class Machine:
    """A machine with its disk. `meanwhile` is what happens while it waits."""

    folder: Path
    storage: CampaignStorage
    now: float = 0.0
    told: list[str] = field(default_factory=list)
    losses: int = 0
    meanwhile: Callable[[], None] = lambda: None

    def drive(self) -> StoredCampaign:
        self.folder.mkdir(exist_ok=True)
        return StoredCampaign(
            self.folder,
            self.storage,
            self.told.append,
            on_loss=self._note_loss,
            machine=self.folder.name,
            sleep=self._sleep,
            clock=lambda: self.now,
        )

    def note(self, site: str) -> None:
        """As a driver does."""
        with closing(CampaignFile(self.folder)) as file:
            file.add(make_bundles([SiteRow(2, site, f"https://{site}/", {})], {}, 1, 1), {})
        write_manifest(self.folder, self.now)

    def sites(self) -> list[str]:
        with closing(CampaignFile(self.folder)) as file:
            return [*file.known_sites()]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def _note_loss(self) -> None:
        self.losses += 1


@pytest.fixture
def machine(storage, tmp_path, monkeypatch):
    """Makes machines, whose threads leave all to the test."""
    monkeypatch.setattr(stored_campaign, "_LOOK_SECONDS", 3600.0)
    return lambda name: Machine(tmp_path / name, storage)


def look(stored: StoredCampaign) -> None:
    """Do what its threads do from time to time."""
    stored._do(stored._beat_if_due)
    stored._do(stored._save_if_due)


def sites_of_status(storage: CampaignStorage) -> list[str]:
    return [site["name"] for site in status_at(storage, 0.0)["sites"]]


def test_another_machine_goes_on_with_what_was_noted_and_the_first_one_with_that(machine, storage):
    here, there = machine("here"), machine("there")
    with here.drive():
        here.note("a.example")
    assert json.loads(storage.read("manifest.json"))["sites"][0]["name"] == "a.example"
    with there.drive():
        assert there.sites() == ["a.example"]
        there.note("b.example")
    with here.drive():
        assert sorted(here.sites()) == ["a.example", "b.example"]
        here.note("c.example")
    assert sorted(sites_of_status(storage)) == ["a.example", "b.example", "c.example"]
    assert not status_at(storage, 0.0)["is_running"]
    assert (here.now, there.now) == (0.0, 0.0), "nobody has waited for one that ended orderly"


def test_what_a_killed_driver_has_noted_last_is_in_its_folder(machine, storage):
    killed, again = machine("here"), machine("here")
    stored = killed.drive()
    stored.__enter__()
    killed.note("a.example")
    stored.save()
    killed.note("b.example")
    with again.drive():
        assert sorted(again.sites()) == ["a.example", "b.example"]
    assert again.now == 0.0
    stored.is_lost = True
    stored.__exit__()


def test_a_second_driver_is_refused_while_the_first_one_runs_and_takes_over_when_it_is_gone(machine, storage):
    here, there = machine("here"), machine("there")
    first = here.drive()
    with first:
        here.note("a.example")
        first.save()

        def beat() -> None:
            here.now += 31.0
            look(first)

        there.meanwhile = beat
        with pytest.raises(JobBusy, match=r"running already: process \d+ on here. Stop it there, and run this"):
            there.drive().__enter__()
        assert there.now > 0
        there.meanwhile = lambda: None  # it hangs, or its network is gone
        second = there.drive()
        with second:
            assert there.sites() == ["a.example"]
            there.note("b.example")
            here.now += 31.0
            look(first)
            assert first.is_lost
            assert here.losses == 1
            here.note("c.example")
    assert read_owner(storage)["machine"] == "there"
    assert sorted(sites_of_status(storage)) == ["a.example", "b.example"], "the one that is lost writes nothing"


def test_a_driver_that_ends_while_a_second_one_looks_leaves_the_campaign_to_that(machine, storage):
    here, there = machine("here"), machine("there")
    first = here.drive()
    first.__enter__()
    here.note("a.example")
    there.meanwhile = first.__exit__
    with there.drive():
        assert there.sites() == ["a.example"]


@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_what_has_changed_is_copied_in_a_tenth_of_the_time_at_most(machine, storage, monkeypatch):
    here = machine("here")
    copied: list[float] = []
    upload = StoredCampaign._upload_database

    def slow_upload(self: StoredCampaign, name: str) -> None:
        upload(self, name)
        here.now += 2.0
        copied.append(here.now)

    monkeypatch.setattr(StoredCampaign, "_upload_database", slow_upload)
    with here.drive() as stored:
        here.note("a.example")
        while here.now < 100:
            look(stored)
            here.now += 1.0
        assert len(copied) == 1, "nothing has changed since"
        for number in range(20):
            here.note(f"{number}.example")
            look(stored)
            here.now += 5.0
    assert 4 <= len(copied) <= 8
    assert len(sites_of_status(storage)) == 21, "at the end all is there"


def test_a_storage_that_does_not_answer_is_told_and_tried_again(machine, storage, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("no network")

    here = machine("here")
    with here.drive() as stored:
        here.note("a.example")
        with monkeypatch.context() as patch:
            patch.setattr(type(storage), "upload", fails)
            patch.setattr(type(storage), "take", fails)
            look(stored)
        assert "no network" in here.told[-1]
        here.now += 20.0
        look(stored)
        assert sites_of_status(storage) == ["a.example"]


def test_a_folder_that_is_not_this_campaigns_is_refused(machine, storage, tmp_path):
    here = machine("here")
    with here.drive():
        here.note("a.example")
    elsewhere = Machine(tmp_path / "here", storage_at(tmp_path / "elsewhere"))
    with pytest.raises(ConfigError, match=r"is the work folder of .*: name another folder with --work"):
        elsewhere.drive().__enter__()
    own = machine("own")
    lock_campaign(own.folder).release()
    own.note("b.example")
    with pytest.raises(ConfigError, match="has a campaign of its own"):
        own.drive().__enter__()
    for name in storage.names(""):
        storage.delete(name)
    with pytest.raises(ConfigError, match=r"has a campaign that is not at .*: delete that folder to start over"):
        here.drive().__enter__()
    (here.folder / "storage.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"storage.json cannot be read"):
        here.drive().__enter__()


@pytest.mark.parametrize("mark", [b"", b"{", b"[]", b"{}", b'{"id": 1}', b"[" * 100_000, b"\xff"])
def test_a_damaged_owner_is_none(machine, storage, mark):
    storage.write("owner.json", mark)
    assert read_owner(storage) is None
    here = machine("here")
    with here.drive():
        here.note("a.example")
    assert sites_of_status(storage) == ["a.example"]


def test_the_status_of_a_place_without_a_campaign_is_refused(storage):
    with pytest.raises(ConfigError, match="there is no campaign in it"):
        status_at(storage, 0.0)


def test_the_default_work_folder_is_of_the_place_and_not_of_the_keys_to_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert work_folder("s3://key:secret@bucket/a") == work_folder("s3://bucket/a") != work_folder("s3://bucket/b")
