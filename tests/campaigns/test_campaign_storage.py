"""A campaign's storage: a folder, and a bucket behind a real API of S3, do the same."""

from __future__ import annotations

import pickle
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.campaigns.campaign_storage import JobKeeper, restore_job, save_job, storage_at
from llmcrawler.core.storage import open_job_file, read_value, write_value
from llmcrawler.core.storage.job_file import JOB_FILE, lock_folder
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.errors import ConfigError, JobBusy
from tests.crawl.jobs import PAGES, STARTED, Made, make_job
from tests.servers.s3_server import ENVIRONMENT
from tests.virtual_time import Clock

SITE = "pages/site=a.example%3A8080/pages.jsonl"


def test_what_is_written_is_read(storage):
    assert storage.read(SITE) is None
    storage.write(SITE, b"first")
    storage.write(SITE, b"second")
    storage.write("manifest.json", b"")
    assert (storage.read(SITE), storage.read("manifest.json")) == (b"second", b"")
    assert storage.names("pages") == [SITE]
    assert storage.names("") == ["manifest.json", SITE]
    assert storage.names("elsewhere") == []
    storage.delete(SITE)
    storage.delete(SITE)
    assert storage.names("pages") == []


def test_files_go_there_and_come_back(storage, tmp_path):
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(data := bytes(range(256)) * 80_000)  # some of S3's parts
    storage.upload(SITE, local)
    storage.upload("named.zst", local)
    assert storage.read("named.zst") == data, "it is not packed once more"
    assert not storage.download("elsewhere", back)
    assert not back.exists()
    back.write_bytes(b"of before")
    assert storage.download(SITE, back)
    assert back.read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["back", "local"]


@dataclass
class Replacing:
    """A file system whose object is replaced by a longer one after its size was asked for."""

    system: Any
    contents: list[bytes]

    def get_file_info(self, key: str) -> Any:
        return self.system.get_file_info(key)

    def open_input_file(self, key: str) -> Any:
        source = self.system.open_input_file(key)
        if self.contents:
            with self.system.open_output_stream(key) as out:
                out.write(self.contents.pop(0))
        return source


@pytest.mark.parametrize("storage", ["s3"], indirect=True)
def test_what_is_replaced_while_it_is_read_is_read_whole(storage, tmp_path):
    """As `scrapy campaign status` reads what the driver writes."""
    storage.write("owner.json", b"1")
    reader = replace(storage, system=Replacing(storage.system, [b"2" * 10, b"3" * 100]))
    assert reader.read("owner.json") == b"3" * 100
    reader = replace(storage, system=Replacing(storage.system, [b"4" * 1_000]))
    assert reader.download("owner.json", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"4" * 1_000
    reader = replace(storage, system=Replacing(storage.system, [b"5" * length for length in range(20)]))
    with pytest.raises(OSError, match=r"owner.json was replaced 10 times while it was read"):
        reader.read("owner.json")


def test_it_can_be_pickled(storage):
    storage.write("manifest.json", b"{}")
    assert pickle.loads(pickle.dumps(storage)).read("manifest.json") == b"{}"


def test_a_file_that_lies_there_is_not_copied_onto_itself(tmp_path):
    storage = storage_at(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_bytes(b"{}")
    before = file.stat()
    storage.upload("manifest.json", file)
    assert storage.download("manifest.json", file)
    assert (file.stat().st_ino, file.read_bytes()) == (before.st_ino, b"{}")


def test_a_file_that_cannot_be_written_whole_is_as_it_was(storage, tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    local = tmp_path / "local"
    local.write_bytes(b"of before")
    storage.write(SITE, b"new")
    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="the disk is full"):
        storage.download(SITE, local)
    assert local.read_bytes() == b"of before"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["local"]


def test_a_place_that_cannot_be_is_refused_with_the_cure(s3_server, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for place, words in (
        (s3_server.place("campaign", "nowhere"), r"s3://nowhere/campaign: there is no bucket nowhere: make it"),
        (s3_server.place(""), "name a path in the bucket too"),
        (s3_server.place("campaign") + "&regoin=x", "Unexpected query parameter"),
    ):
        with pytest.raises(ConfigError, match=words):
            storage_at(place)
    with pytest.raises(ConfigError, match="in a folder, or at s3://BUCKET/PATH") as refused:
        storage_at("hdfs://user:secret@host/path?token=secret")
    assert "secret" not in str(refused.value)


def test_without_pyarrow_a_bucket_is_refused_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pip install"):
        storage_at("s3://bucket/campaign")


MORE = (*PAGES, Made("https://a.example/more", {"fetch": "success"}))


def packed_files(storage) -> list[str]:
    return [name for name in storage.names("saved") if name.endswith(".zst")]


def lines(folder: Path) -> int:
    with open_snapshot(folder) as connection:
        return int(connection.execute("SELECT count(*) FROM pages WHERE seq IS NOT NULL").fetchone()[0])


async def test_a_saved_job_goes_on_elsewhere_as_it_was(storage, tmp_path):
    here, there = await make_job(tmp_path / "here", state="running"), tmp_path / "there"
    (here / "templates.json").write_text("{}", encoding="utf-8")
    assert save_job(here, storage, 7)
    assert restore_job(storage, 7, there)
    assert {*job_status(there, STARTED).urls.items()} == {*job_status(here, STARTED).urls.items()}
    assert (there / "templates.json").read_text(encoding="utf-8") == "{}"
    assert {path.name for path in there.iterdir()} <= {JOB_FILE, "templates.json", "crawl.lock", f"{JOB_FILE}-shm"} | {
        f"{JOB_FILE}-wal"
    }


async def test_a_job_is_saved_while_its_crawl_has_it_open(storage, tmp_path):
    here, there = await make_job(tmp_path / "here"), tmp_path / "there"
    lock = lock_folder(here)
    with closing(open_job_file(here / JOB_FILE)) as crawl:
        write_value(crawl, "in the log", 1)  # not in the file itself yet
        crawl.execute("BEGIN IMMEDIATE")
        write_value(crawl, "not committed", 1)
        assert save_job(here, storage, 1)
        crawl.execute("COMMIT")
        assert restore_job(storage, 1, there)
        with open_snapshot(there) as connection:
            assert (read_value(connection, "in the log"), read_value(connection, "not committed")) == (1, None)
        assert save_job(here, storage, 1), "it has changed"
        assert not save_job(here, storage, 1), "it has not"
    assert len(packed_files(storage)) == 1, "what was saved before is gone"
    lock.release()


async def test_where_there_is_nothing_nothing_is_done(storage, tmp_path):
    assert not save_job(tmp_path / "none", storage, 1)
    assert not restore_job(storage, 1, tmp_path / "none")
    assert not (tmp_path / "none").exists()


async def test_what_is_as_far_stays_and_what_is_not_is_replaced(storage, tmp_path):
    behind, ahead = await make_job(tmp_path / "behind"), await make_job(tmp_path / "ahead", MORE)
    with closing(open_job_file(behind / JOB_FILE)) as killed:  # its last writes stand in its log only
        write_value(killed, "killed", 1)
        for suffix in ("", "-wal"):
            (tmp_path / f"left{suffix}").write_bytes((behind / f"{JOB_FILE}{suffix}").read_bytes())
    for suffix in ("", "-wal"):
        (behind / f"{JOB_FILE}{suffix}").write_bytes((tmp_path / f"left{suffix}").read_bytes())
    assert save_job(ahead, storage, 1)
    assert not restore_job(storage, 1, ahead)
    assert restore_job(storage, 1, behind)
    assert lines(behind) == lines(ahead) == len(MORE)
    with open_snapshot(behind) as connection:
        assert read_value(connection, "killed") is None
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_job_whose_pages_are_queued_again_is_further(storage, tmp_path):
    folder = await make_job(tmp_path / "job")
    assert save_job(folder, storage, 1)
    requeue(folder, RequeueChoice(dead=True))
    assert lines(folder) < len(PAGES)
    assert not restore_job(storage, 1, folder)
    assert save_job(folder, storage, 1)


async def test_what_was_saved_before_stays_where_saving_fails(storage, tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("gone")

    here = await make_job(tmp_path / "here")
    assert save_job(here, storage, 1)
    with closing(open_job_file(here / JOB_FILE)) as crawl:
        write_value(crawl, "more", 1)
    for method in ("upload", "write"):
        with monkeypatch.context() as patch:
            patch.setattr(type(storage), method, fails)
            with pytest.raises(OSError, match="gone"):
                save_job(here, storage, 1)
    assert restore_job(storage, 1, tmp_path / "there")
    with open_snapshot(tmp_path / "there") as connection:
        assert read_value(connection, "more") is None


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-10], lambda data: b"x" + data, lambda data: data[:100] + b"xxxx" + data[104:]]
)
async def test_a_damaged_one_is_refused_and_what_is_there_stays(storage, tmp_path, damage):
    assert save_job(await make_job(tmp_path / "here", MORE), storage, 1)
    there = await make_job(tmp_path / "there")
    (name,) = packed_files(storage)
    storage.write(name, damage(storage.read(name)))
    with pytest.raises(ConfigError, match=r"saved/00001/saved.json cannot be used .*delete saved/00001/ there"):
        restore_job(storage, 1, there)
    assert lines(there) == len(PAGES)
    storage.delete(name)
    with pytest.raises(ConfigError, match="is not there"):
        restore_job(storage, 1, there)
    for index in (b"{", b"[]", b'{"version": 9}', b'{"sizes": {"../x": 1}}', b"[" * 100_000):
        storage.write("saved/00001/saved.json", index)
        with pytest.raises(ConfigError, match="cannot be used"):
            restore_job(storage, 1, there)
    assert {path.name for path in tmp_path.iterdir()} <= {"here", "there", "storage"}


async def test_the_job_of_a_crawl_that_runs_is_not_replaced(storage, tmp_path):
    assert save_job(await make_job(tmp_path / "here", MORE), storage, 1)
    there = await make_job(tmp_path / "there")
    lock = lock_folder(there)
    with pytest.raises(JobBusy):
        restore_job(storage, 1, there)
    lock.release()
    assert lines(there) == len(PAGES)


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 0.1), (20, 1.0), (3, 60.0)])
def test_saving_takes_a_tenth_of_the_time_and_no_job_more_than_once_in_half_a_minute(
    tmp_path, monkeypatch, jobs, seconds
):
    clock, spent, saved = Clock(), 0.0, {number: [0.0] for number in range(jobs)}
    keeper = JobKeeper(tmp_path, storage_at(tmp_path / "storage"), 30.0, print, clock)

    def save(_self, number):
        nonlocal spent
        clock.now, spent = clock.now + seconds, spent + seconds
        saved[number].append(clock.now)

    monkeypatch.setattr(JobKeeper, "_save", save)
    monkeypatch.setattr("llmcrawler.campaigns.campaign_storage._LOOK_SECONDS", 3600.0)
    for number in saved:
        keeper.begin(number)
    while clock.now < 36_000:
        keeper.save_due()
        clock.now += 0.5
    keeper.close()
    assert spent <= clock.now / 10
    assert spent >= min(clock.now / 11, jobs * seconds * clock.now / 35 / 1.1)
    for moments in saved.values():
        assert min(later - earlier for earlier, later in pairwise(moments)) >= 30
        assert len(moments) >= 0.8 * max(map(len, saved.values())), "all have their turns"


@pytest.fixture
def keep(storage, tmp_path, monkeypatch):
    """Makes keepers of a machine each, with its name as the folder, whose threads leave all to the test."""
    monkeypatch.setattr("llmcrawler.campaigns.campaign_storage._LOOK_SECONDS", 3600.0)
    made = []

    def make(name: str) -> tuple[JobKeeper, Clock, list[str]]:
        clock, told = Clock(), list[str]()
        clock.now = 0.0
        made.append(JobKeeper(tmp_path / name, storage, 30.0, told.append, clock))
        return made[-1], clock, told

    yield make
    for one in made:
        one.close()


async def test_another_machine_goes_on_with_the_job_that_was_saved_last(keep, storage, tmp_path):
    here, clock, _told = keep("here")
    here.begin(3)
    jobdir = await make_job(bundle_folder(here.work, 3))
    here.save_due()
    assert not storage.names("saved"), "it has just begun"
    clock.now = 31.0
    here.save_due()
    first = storage.names("saved")
    assert first
    clock.now = 60.0
    with closing(open_job_file(jobdir / JOB_FILE)) as job:
        write_value(job, "more", 1)
    here.save_due()
    assert storage.names("saved") == first
    clock.now = 62.0
    here.save_due()
    assert storage.names("saved") != first
    there, _clock, told = keep("there")
    there.begin(3)
    assert told == ["Bundle 3 goes on from its saved job"]
    assert (bundle_folder(there.work, 3) / JOB_FILE).exists()


async def test_at_the_end_of_a_crawl_its_job_and_its_log_are_saved(keep, storage, tmp_path):
    here, clock, told = keep("here")
    here.begin(3)
    await make_job(bundle_folder(here.work, 3))
    bundle_log(here.work, 3).write_text("all is well", encoding="utf-8")
    here.end(3)
    saved = storage.names("saved")
    assert saved
    assert storage.read("bundles/00003/crawl.log") == b"all is well"
    clock.now = 100.0
    here.save_due()
    assert storage.names("saved") == saved
    assert not told


async def test_what_cannot_be_saved_is_told_and_tried_again(keep, storage, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("no network")

    here, clock, told = keep("here")
    here.begin(3)
    await make_job(bundle_folder(here.work, 3))
    clock.now = 31.0
    here.save_due()
    saved = storage.names("saved")
    with closing(open_job_file(bundle_folder(here.work, 3) / JOB_FILE)) as job:
        write_value(job, "more", 1)
    clock.now = 62.0
    with monkeypatch.context() as patch:
        patch.setattr(type(storage), "upload", fails)
        here.save_due()
    assert told == ["The job of bundle 3 could not be saved: no network"]
    assert storage.names("saved") == saved
    clock.now = 93.0
    here.save_due()
    assert storage.names("saved") != saved
