"""The jobs of one machine are brought from the campaign's storage, and saved there."""

from __future__ import annotations

from contextlib import closing

import pytest

from llmcrawler.campaigns.campaign_status import bundle_folder, bundle_log
from llmcrawler.campaigns.campaign_storage import JobKeeper
from llmcrawler.core.storage import open_job_file, write_value
from llmcrawler.core.storage.job_file import JOB_FILE
from tests.crawl.jobs import make_job


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keep(storage, tmp_path, monkeypatch):
    """Makes keepers of a machine each, with its name as the folder, whose threads leave all to the test."""
    monkeypatch.setattr("llmcrawler.campaigns.campaign_storage._LOOK_SECONDS", 3600.0)
    made = []

    def make(name: str) -> tuple[JobKeeper, Clock, list[str]]:
        clock, told = Clock(), list[str]()
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
