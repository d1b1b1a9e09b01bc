"""Jobs that are saved while they are crawled, and that go on elsewhere."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from llmcrawler.campaigns.campaign_storage import SaveTimes, restore_job, save_job
from llmcrawler.core.storage import open_job_file, read_value, write_value
from llmcrawler.core.storage.job_file import JOB_FILE, lock_folder
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.errors import ConfigError, JobBusy
from tests.crawl.jobs import PAGES, STARTED, Made, make_job

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
def test_saving_takes_a_tenth_of_the_time_and_no_job_more_than_once_in_half_a_minute(jobs, seconds):
    now, spent, saved = 0.0, 0.0, {number: [0.0] for number in range(jobs)}
    times = SaveTimes(30.0, lambda: now)
    while now < 36_000:
        number = times.next_due(saved)
        if number is not None:
            now, spent = now + seconds, spent + seconds
            times.note(number, seconds)
            saved[number].append(now)
        now += 0.5
    assert spent <= now / 10
    assert spent >= min(now / 11, jobs * seconds * now / 35 / 1.1)
    for moments in saved.values():
        assert min(later - earlier for earlier, later in pairwise(moments)) >= 30
        assert len(moments) >= 0.8 * max(map(len, saved.values())), "all have their turns"
