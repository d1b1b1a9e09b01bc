"""A job directory: who may go on with it, and with what."""

import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.storage import Outcome, StoredBody, open_job_file, read_job_file
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_spec import JobRules, JobSpec
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.crawl.job import Job, check_job, note_feed_file
from llmcrawler.errors import ConfigError
from llmcrawler.items import StageRun

SPEC = JobSpec("explore", {"url": ["http://a.test/"], "max_pages": 500})
BODY = StoredBody("http://a.test/1", 200, (("Content-Type", "text/html"),), b"<p>One", "2026-01-01T00:00:00+00:00", 0.1)
STAGES = ("fetch", "content", "classify", "record", "mine")


def line(url: str, **fields: Any) -> dict[str, Any]:
    return {"url": url, "kind": "page", "status": 200, "error": None, **fields}


@asynccontextmanager
async def opened(
    folder: Path, spec: JobSpec = SPEC, *, reason: str = "finished", **rules: Any
) -> AsyncGenerator[Job, None]:
    job = Job(folder, spec, replace(JobRules(), **rules))
    await job.open()
    yield job
    await job.close(reason)


async def crawled(folder: Path, *, learned: bool = True, reason: str = "finished", **rules: Any) -> None:
    """A job with /1 and /2 done (bodies stored), /3 dead and /4 queued."""
    async with opened(folder, **rules, reason=reason) as job:
        urls = [f"http://a.test/{n}" for n in range(1, 5)]
        await job.frontier.add(UrlTask(url, "a.test") for url in urls)
        await job.frontier.lease(3, {}, 10)
        for url in urls[:2]:
            job.ledger.keep_body(url, replace(BODY, url=url), StageRun("success", None, 2, 1.0, 0.1))
            assert set((await job.ledger.page(url)).stages) == {"fetch"}
            runs = {name: StageRun("success", None, 1, 1.0, 0.1) for name in STAGES}
            await job.frontier.ack(url, Outcome(line(url), runs))
        error = {"stage": "fetch", "kind": "http_404", "message": "Not Found", "attempts": 1}
        await job.frontier.ack(urls[2], Outcome(line(urls[2], status=404, error=error), {}, is_dead=True))
        if learned:
            await job.ledger.note_learned(await job.ledger.last_seq())


async def leases_of(job: Job) -> dict[str, tuple[bool, bool]]:
    return {lease.url[-2:]: (lease.is_stored, lease.is_known) for lease in await job.frontier.lease(10, {}, 10)}


async def test_a_job_goes_on_with_what_is_left(tmp_path):
    await crawled(tmp_path, reason="shutdown")
    async with opened(tmp_path) as job:
        assert (job.resumed.is_new, job.resumed.finished) == (False, False)
        assert (job.resumed.done, job.resumed.stored, job.resumed.queued) == (3, 0, 1)
        assert await leases_of(job) == {"/4": (False, False)}


async def test_pages_whose_templates_were_not_kept_are_gone_through_again_from_their_bodies(tmp_path):
    await crawled(tmp_path, learned=False, reason="shutdown")
    async with opened(tmp_path) as job:
        assert await leases_of(job) == {"/1": (True, True), "/2": (True, True), "/4": (False, False)}
        page = await job.ledger.page("http://a.test/1")
        assert page.line == line("http://a.test/1")
        assert set(page.stages) == set(STAGES)  # nothing that was successful is repeated
        assert page.body is not None
        assert page.body.body == b"<p>One"


async def test_stored_bodies_whose_dictionary_is_damaged_are_not_used(tmp_path, caplog):
    async with opened(tmp_path, reason="shutdown") as job:
        urls = [f"http://a.test/{n}" for n in range(100, 150)]
        await job.frontier.add(UrlTask(url, "a.test") for url in urls)
        await job.frontier.lease(50, {}, 50)
        shared = "".join(f"<li>{number**5}</li>" for number in range(200))
        for url in urls:
            job.ledger.keep_body(url, replace(BODY, url=url, body=f"{url} {shared}".encode()))
    with closing(open_job_file(tmp_path / JOB_FILE)) as connection:
        connection.execute("UPDATE dictionaries SET content = substr(content, 2)")
    async with opened(tmp_path) as job:
        bodies = [(await job.ledger.page(url)).body for url in urls]
        assert [body is not None for body in bodies] == [True] * 32 + [False] * 18
    assert caplog.text.count("is damaged, and is not used") == 18


async def test_lines_of_this_run_are_not_taken_for_those_of_earlier_ones(tmp_path):
    await crawled(tmp_path, reason="shutdown")
    async with opened(tmp_path) as job:
        (lease,) = await job.frontier.lease(10, {}, 10)
        await job.frontier.ack(lease.url, Outcome(line(lease.url), {}))
        earlier = await job.ledger.lines(0, job.last_earlier_seq)
        assert [one["url"][-2:] for _seq, one in earlier] == ["/1", "/2", "/3"]


async def test_bodies_that_are_not_to_be_kept_go_when_their_pages_are_safe(tmp_path):
    await crawled(tmp_path, keep_bodies=False)
    async with opened(tmp_path) as job:
        page = await job.ledger.page("http://a.test/1")
        assert page.body is not None  # its headers are for the next refresh
        assert page.body.body is None


@pytest.mark.parametrize(
    ("stages", "left"),
    [
        (("content", "classify", "record", "mine"), {"fetch"}),
        (("classify",), {"fetch", "content"}),
        (("record",), {"fetch", "content", "classify"}),
        (("mine",), {"fetch", "content", "classify", "record"}),
    ],
)
async def test_a_forced_stage_and_those_after_it_run_again_on_pages_that_have_a_body(tmp_path, stages, left):
    await crawled(tmp_path)
    async with opened(tmp_path, replace(SPEC, stages=stages)) as job:
        assert job.forced_from == stages[0]
        assert await leases_of(job) == {"/1": (True, True), "/2": (True, True), "/4": (False, False)}
        assert set((await job.ledger.page("http://a.test/1")).stages) == left


async def test_forcing_the_fetch_forgets_the_bodies(tmp_path):
    await crawled(tmp_path)
    async with opened(tmp_path, replace(SPEC, stages=("fetch",))) as job:
        assert await leases_of(job) == {
            "/1": (False, True),
            "/2": (False, True),
            "/3": (False, True),
            "/4": (False, False),
        }


async def test_stages_cannot_be_forced_on_bodies_that_were_not_kept(tmp_path):
    await crawled(tmp_path, keep_bodies=False)
    forced = replace(SPEC, stages=("classify",))
    for refuse in (check_job, lambda folder, spec: Job(folder, spec, JobRules())):
        with pytest.raises(ConfigError, match="has no stored bodies"):
            refuse(tmp_path, forced)
    async with opened(tmp_path) as job:  # and nothing has changed
        assert (job.resumed.done, job.resumed.finished) == (3, True)


async def test_an_interrupted_forced_run_goes_on_and_is_not_forced_anew(tmp_path):
    await crawled(tmp_path)
    forced = replace(SPEC, stages=("classify",))
    async with opened(tmp_path, forced, reason="shutdown") as job:
        (lease, *_rest) = await job.frontier.lease(10, {}, 10)
        await job.frontier.ack(lease.url, Outcome(line(lease.url, page_type="new"), {}))
        await job.ledger.note_learned(await job.ledger.last_seq())
    async with opened(tmp_path, forced) as again:
        assert again.forced_from is None
        assert set(await leases_of(again)) == {"/2", "/4"}
    async with opened(tmp_path, forced) as third:
        assert third.forced_from == "classify"


async def test_a_refresh_looks_at_everything_again_and_remembers_what_it_was(tmp_path):
    await crawled(tmp_path)
    async with opened(tmp_path, replace(SPEC, refresh=True), reason="shutdown") as job:
        assert await leases_of(job) == {
            "/1": (False, True),
            "/2": (False, True),
            "/3": (False, True),
            "/4": (False, False),
        }
        assert (await job.ledger.page("http://a.test/1")).line == line("http://a.test/1")
        assert await job.ledger.lines(0, 100) == []
    async with opened(tmp_path, replace(SPEC, refresh=True)) as again:  # it goes on, and does not begin once more
        assert again.frontier._generation == 1


async def test_a_refresh_of_a_job_that_is_not_finished_goes_on_with_it(tmp_path):
    await crawled(tmp_path, reason="shutdown")
    async with opened(tmp_path, replace(SPEC, refresh=True)) as job:
        assert await leases_of(job) == {"/4": (False, False)}


async def test_other_arguments_are_refused_with_their_names_unless_that_is_wanted(tmp_path):
    await crawled(tmp_path)
    other = JobSpec("explore", {"url": ["http://b.test/"], "max_pages": 500})
    for refuse in (check_job, lambda folder, spec: Job(folder, spec, JobRules())):
        with pytest.raises(
            ConfigError, match=r"url was http://a\.test/ and is http://b\.test/\. Give those"
        ) as refusal:
            refuse(tmp_path, other)
        assert "max_pages" not in str(refusal.value)
    async with opened(tmp_path, replace(other, any_arguments=True)):
        pass
    check_job(tmp_path, other)  # they are the job's arguments from now on


async def test_another_spiders_job_is_refused(tmp_path):
    await crawled(tmp_path)
    with pytest.raises(ConfigError, match="belongs to the spider 'explore', not 'map'"):
        check_job(tmp_path, replace(SPEC, spider="map"))


async def test_two_crawls_cannot_have_one_job(tmp_path):
    async with opened(tmp_path):
        for refuse in (check_job, lambda folder, spec: Job(folder, spec, JobRules())):
            with pytest.raises(ConfigError, match="another crawl is running in it"):
                refuse(tmp_path, SPEC)
    check_job(tmp_path, SPEC)


def test_stages_of_nothing_cannot_be_forced(tmp_path):
    with pytest.raises(ConfigError, match="contains no crawl whose stages could run again"):
        check_job(tmp_path / "new", replace(SPEC, stages=("classify",)))
    assert not (tmp_path / "new").exists()


def noted_feeds(folder: Path) -> list[str]:
    """As another process sees them."""
    with closing(read_job_file(folder / JOB_FILE)) as connection:
        return [path for (path,) in connection.execute("SELECT path FROM feeds")]


async def test_files_of_an_interrupted_run_are_cut_back_to_what_they_held_before(tmp_path):
    old, new, gone = tmp_path / "old.jsonl", tmp_path / "new.jsonl", tmp_path / "gone.jsonl"
    old.write_text("mine\n")
    gone.write_text("before\n")
    async with opened(tmp_path / "job", reason="shutdown") as job:
        for path in (old, new, gone):
            with path.open("ab") as file:
                job.note_feed(path, file.fileno())
                file.write(b'{"url": "http://a.test/1"}\n')
    gone.rename(tmp_path / "kept.jsonl")
    gone.write_text("something else of the user's, which is nobody's business\n")
    async with opened(tmp_path / "job"):
        assert old.read_text() == "mine\n"
        assert not new.exists()
        assert gone.read_text().startswith("something else")


async def test_a_feed_is_known_before_it_has_a_line_that_a_kill_could_leave(tmp_path, monkeypatch):
    def note_slowly(*arguments: Any) -> None:
        time.sleep(0.2)
        note_feed_file(*arguments)

    monkeypatch.setattr("llmcrawler.crawl.job.note_feed_file", note_slowly)
    async with opened(tmp_path / "job") as job:
        with (tmp_path / "feed.jsonl").open("ab") as file:
            job.note_feed(Path(file.name), file.fileno())
            assert noted_feeds(tmp_path / "job") == [file.name]


async def add_to_feed(folder: Path, spec: JobSpec = SPEC, reason: str = "shutdown") -> None:
    async with opened(folder / "job", spec, reason=reason) as job:
        with (folder / "feed.jsonl").open("ab") as file:
            job.note_feed(Path(file.name), file.fileno())
            file.write(b"line\n")


@pytest.mark.parametrize("lost", ["the file", "the row", "the place"])
async def test_a_feed_that_may_hold_lines_of_the_job_already_is_named(tmp_path, caplog, lost):
    (tmp_path / "feed.jsonl").write_text("mine\n")
    await add_to_feed(tmp_path)
    await add_to_feed(tmp_path)
    assert not caplog.messages
    if lost == "the file":
        (tmp_path / "job" / JOB_FILE).unlink()
    elif lost == "the row":
        with closing(open_job_file(tmp_path / "job" / JOB_FILE)) as connection:
            connection.execute("DELETE FROM feeds")
    else:
        feed = tmp_path / "feed.jsonl"
        feed.rename(tmp_path / "moved")
        shutil.copy(tmp_path / "moved", feed)
    await add_to_feed(tmp_path)
    assert "feed.jsonl has lines already, and the JOBDIR does not tell which of them are its own" in caplog.text


async def test_nothing_is_said_of_feeds_that_a_refresh_adds_to(tmp_path, caplog):
    await add_to_feed(tmp_path, reason="finished")
    await add_to_feed(tmp_path, replace(SPEC, refresh=True), reason="finished")
    await add_to_feed(tmp_path, replace(SPEC, refresh=True))
    await add_to_feed(tmp_path, replace(SPEC, refresh=True))
    assert (tmp_path / "feed.jsonl").read_text() == "line\n" * 3
    assert not caplog.messages


async def test_a_refresh_leaves_the_files_of_the_crawl_before_it(tmp_path):
    feed = tmp_path / "feed.jsonl"
    async with opened(tmp_path / "job") as job:
        with feed.open("ab") as file:
            job.note_feed(feed, file.fileno())
            file.write(b"line\n")
    async with opened(tmp_path / "job", replace(SPEC, refresh=True)):
        assert feed.read_text() == "line\n"


async def parts_of(folder: Path, **spec: Any) -> tuple[set[str], int]:
    """The keys that a run of a list would do, and how many lines it would show before."""
    async with opened(folder, replace(SPEC, retries=True, **spec), reason="shutdown") as job:
        leases = await job.frontier.lease(10, {}, 10)
    return {str(lease.task.page().key) for lease in leases}, job.resumed.done


async def test_a_list_is_done_where_it_failed(tmp_path):
    async with opened(tmp_path, replace(SPEC, retries=True)) as job:
        tasks = [UrlTask.with_payload("http://a.test/", "a.test", f'{{"key": "{key}"}}') for key in "abcd"]
        await job.frontier.add(tasks)
        a, b, _c, _d = await job.frontier.lease(4, {}, 10)
        await job.frontier.ack(a.url, Outcome(line(a.url), {"fetch": StageRun("success", None, 1, 1.0, 0.1)}))
        fetch = {"fetch": StageRun("failed", "http_500: ", 1, 1.0, 0.1)}
        await job.frontier.ack(
            b.url, Outcome(line(b.url, error={"stage": "fetch", "kind": "http_500"}), fetch, is_dead=True)
        )
        await job.ledger.note_learned(await job.ledger.last_seq())
    brought_back = requeue(tmp_path, RequeueChoice(urls=("http://a.test/",)))  # b, which failed
    assert (brought_back.fetched, brought_back.waiting, brought_back.unfit) == (1, 2, 1)
    assert await parts_of(tmp_path) == ({"b", "c", "d"}, 1)
