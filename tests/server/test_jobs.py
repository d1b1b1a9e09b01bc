"""Jobs of a folder: what is taken and what is refused, how they end, and how servers follow each other."""

from __future__ import annotations

import asyncio
import errno
import json
import stat
from dataclasses import replace

import pytest

from llmcrawler.errors import JobRefused, JobsFull, NoSuchJob
from llmcrawler.server import jobs as jobs_module
from llmcrawler.server.jobs import DEFAULT_BUDGET, MOST_BUDGET, JobBudget
from tests.server.conftest import open_jobs

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("pretended")]
WAIT = 60


def arguments_of(job):
    return json.loads((job.folder / "log").read_text().splitlines()[0])["arguments"]


async def submitted(jobs, path="wait", spider="explore", **arguments):
    return await jobs.submit(spider, {"url": f"https://1.1.1.1/{path}", **arguments}, origin="api")


async def until(jobs, job, state):
    while (now := jobs.get(job.id)).state != state:
        assert not now.has_ended, now
        await asyncio.sleep(0.02)
    return now


@pytest.mark.parametrize(
    ("status", "state"),
    [(0, "finished"), (1, "failed"), (2, "failed"), (3, "failed"), (4, "failed"), (5, "finished"), (6, "finished")],
)
async def test_a_job_ends_as_its_crawl_does(tmp_path, status, state):
    async with open_jobs(tmp_path / "jobs") as jobs:
        job = await submitted(jobs, f"exit/{status}")
        ended = await jobs.wait(job.id, WAIT)
    assert (ended.state, ended.exit_status, ended.cause) == (state, status, f"so it is: {status}")
    assert ended.created <= ended.started <= ended.ended
    assert ended.tries == (2 if status == 3 else 0)  # what somebody else ends is started again


async def test_a_job_whose_end_could_not_be_written_is_ended_later(tmp_path, monkeypatch):
    store, refused = jobs_module._store, list[str]()

    def store_later(job):
        if job.has_ended and len(refused) < 2:
            refused.append(job.state)
            raise OSError(errno.ENOSPC, "no space left on device")
        store(job)

    monkeypatch.setattr(jobs_module, "_store", store_later)
    async with open_jobs(tmp_path / "jobs") as jobs:
        ended = await jobs.wait((await submitted(jobs, "exit/0")).id, WAIT)
    assert (ended.state, refused) == ("finished", ["finished", "failed"])


async def test_what_stays_in_memory_of_a_job_is_bounded(tmp_path):
    urls = [f"https://1.1.1.1/{'a' * 1_000}{number}" for number in range(200)]
    async with open_jobs(tmp_path / "jobs", most=replace(MOST_BUDGET, max_pages=200)) as jobs:
        job = await jobs.submit("extract", {"urls": urls}, {"max_pages": 200}, origin="api")
        assert len(job.starts) == 200
        for arguments in ({"schema": {"properties": {"a": {}}, "x": [[]] * 50_000}}, {"goal": ["a"] * 50_000}):
            with pytest.raises(
                JobRefused, match=r"the arguments have 2\d\d,\d{3} characters without urls: at most 100,0"
            ):
                await submitted(jobs, **arguments)


async def test_the_crawl_gets_its_arguments_its_budget_and_the_operators_settings(tmp_path):
    async with open_jobs(tmp_path / "jobs", settings={"DOWNLOAD_DELAY": "3", "JOBDIR": "elsewhere"}) as jobs:
        job = await jobs.submit(
            "explore",
            {
                "url": ["https://shop.test/a,b", "https://shop.test/c"],
                "goal": ["product", "article"],
                "depth": 2,
                "schema": {"type": "object", "properties": {"price": {"type": "number"}}},
            },
            {"max_pages": 7, "max_cost_usd": None, "max_seconds": 60},
            origin="api",
        )
        ended = await jobs.wait(job.id, WAIT)
        free = await jobs.submit("explore", {"url": "https://shop.test/exit/0"}, {"max_tokens": 0}, origin="api")
        free = await jobs.wait(free.id, WAIT)
    given = arguments_of(ended)
    assert given[0] == "explore"
    wanted = {
        *(f"urls={ended.folder}/urls.jsonl", f"schema={ended.folder}/schema.json", "goal=product,article", "depth=2"),
        *("max_pages=7", "DOWNLOAD_DELAY=3", f"JOBDIR={ended.folder}/crawl", "CLOSESPIDER_TIMEOUT=60"),
        *(f"TEMPLATES_FILE={tmp_path}/jobs/templates.json", "LLM_MAX_TOKENS=100000", "LLM_MAX_COST_USD=0.05"),
    }
    assert wanted <= {*given}
    assert (ended.folder / "urls.jsonl").read_text() == '"https://shop.test/a,b"\n"https://shop.test/c"\n'
    assert "LLM_PROVIDER=none" in arguments_of(free)
    assert "LLM_PROVIDER=none" not in given


async def test_only_the_operator_can_read_the_jobs(tmp_path):
    async with open_jobs(tmp_path / "jobs") as jobs:
        job = await jobs.submit("extract", {"urls": ["https://shop.test/"]}, origin="api")
        await jobs.wait(job.id, WAIT)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "jobs", job.folder]}
    assert {*modes.values()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in job.folder.iterdir() if path.is_file()} == {0o600}


REFUSED = [
    ("explore", {}, "no start URL"),
    ("plan", {"url": ["https://shop.test/a", "https://shop.test/b"]}, "url: a plan is of one url"),
    ("plan", {"url": "https://shop.test/a,b"}, "url: a plan is of one url, without commas"),
    ("explore", {"url": "no url"}, "url='no url'"),
    ("explore", {"url": "file:///etc/passwd"}, "url="),
    ("explore", {"url": "https://shop.test", "headers": "/etc/passwd"}, "no argument 'headers'"),
    ("explore", {"url": "https://shop.test", "JOBDIR": "/tmp"}, "no argument 'JOBDIR'"),
    ("explore", {"url": "https://shop.test", "page_types": "/etc/passwd"}, "no argument 'page_types'"),
    ("explore", {"url": "https://shop.test", "urls": "/etc/passwd"}, "private"),
    ("extract", {"urls": ["https://shop.test"], "tasks": "/etc/passwd"}, "no argument 'tasks'"),
    ("extract", {"urls": ["https://shop.test"], "warc": "/etc/passwd"}, "no argument 'warc'"),
    ("map", {"url": "https://shop.test", "cdx": "http://10.0.0.1/"}, "no argument 'cdx'"),
    ("map", {"url": "https://shop.test", "max_urls": 10**9}, "max_urls=1000000000 is too large"),
    ("explore", {"url": "https://shop.test", "match": "a"}, "no argument 'match'"),
    ("explore", {"url": "https://shop.test", "schema": "/etc/passwd"}, "schema: give a JSON Schema as an object"),
    ("explore", {"url": "https://shop.test", "schema": {"$ref": "file:///etc/passwd"}}, "ref"),
    ("explore", {"url": "https://shop.test", "allow": "("}, "is not a regular expression"),
    ("explore", {"url": "https://shop.test", "allow": "(" * 500}, "."),
    ("explore", {"url": "https://shop.test", "allow": "a" * 501}, "allow: a text of it has more than 500 characters"),
    ("explore", {"url": "https://shop.test", "allow": ["a", "b"]}, "allow: give a text"),
    ("explore", {"url": "https://shop.test", "depth": 1.5}, "depth: give a text"),
    ("explore", {"url": "https://shop.test", "depth": -1}, "depth=-1"),
    ("explore", {"url": "https://shop.test", "depth": {"a": 1}}, "depth: give a text"),
    ("explore", {"url": "https://shop.test", "goal": "a\nb"}, "goal: it has characters that cannot be shown"),
    ("explore", {"url": "https://shop.test", "goal": "\ud800"}, "goal: it has characters that cannot be shown"),
    ("explore", {"url": "https://shop.test", "schema": {"a": "b" * 2**20}}, "at most 1,048,576"),
    ("explore", {"url": [f"https://shop.test/{n}" for n in range(101)]}, "urls: 101 are more than max_pages=100"),
    *(
        (spider, {name: url}, "private")
        for spider, name in (("explore", "url"), ("map", "url"), ("extract", "urls"))
        for url in (
            *(
                "http://127.0.0.1/",
                "http://localhost:8000",
                "http://10.1.2.3",
                "http://169.254.169.254/latest/meta-data",
            ),
            *(
                "http://[::1]/",
                "http://[::ffff:10.0.0.1]/",
                "http://2130706433/",
                "http://0x7f.1/",
                "http://wiki.corp/",
            ),
            *("http://inside.test/", "http://router/", "https://user@127.0.0.1/", "http://127.0.0.1.:80/"),
        )
    ),
    ("explore", {"url": "https://shop.test", "urls": ["https://shop.test", "http://127.0.0.1/"]}, "private"),
    ("explore", {"url": "https://shop.test,http://127.0.0.1/"}, "."),
]


@pytest.mark.parametrize(("spider", "arguments", "told"), REFUSED)
async def test_what_no_client_may_have_is_refused(tmp_path, spider, arguments, told):
    async with open_jobs(tmp_path / "jobs") as jobs:
        with pytest.raises(JobRefused, match=told):
            await jobs.submit(spider, arguments, origin="api")
        assert jobs.all() == []
        assert [path.name for path in jobs.folder.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"max_pages": 1001}, "max_pages=1001 is more than a job may have here: at most 1000"),
        ({"max_tokens": 10**7}, "at most 500000"),
        ({"max_cost_usd": 1}, "at most 0.5"),
        ({"max_cost_usd": float("inf")}, "at most 0.5"),
        ({"max_cost_usd": float("nan")}, "max_cost_usd=nan: Input should be greater than or equal to 0"),
        ({"max_seconds": 0}, "max_seconds=0: Input should be greater than or equal to 1"),
        ({"max_pages": 0}, "max_pages=0: Input should be greater than or equal to 1"),
        ({"max_pages": "10"}, "max_pages='10': Input should be a valid integer"),
        ({"max_pages": True}, "max_pages=True: Input should be a valid integer"),
        ({"max_tokens": -1}, "max_tokens=-1: Input should be greater than or equal to 0"),
        ({"pages": 1}, "budget: no 'pages': there are max_pages"),
    ],
)
async def test_no_budget_exceeds_the_operators(tmp_path, budget, told):
    async with open_jobs(tmp_path / "jobs") as jobs:
        with pytest.raises(JobRefused, match=told):
            await jobs.submit("explore", {"url": "https://shop.test"}, budget, origin="api")


async def test_a_default_budget_is_within_the_operators_most(tmp_path):
    async with open_jobs(tmp_path / "jobs", most=JobBudget(10, 0, 0.0, 60.0)) as jobs:
        assert jobs.budget_of({}) == JobBudget(10, 0, 0.0, 60.0)
    async with open_jobs(tmp_path / "others") as jobs:
        assert jobs.budget_of({}) == DEFAULT_BUDGET


async def test_only_the_operators_hosts_are_crawled(tmp_path):
    async with open_jobs(tmp_path / "jobs", hosts=("shop.test", "127.0.0.1"), allow_private=True) as jobs:
        for url in ("https://shop.test", "https://a.shop.test/", "http://127.0.0.1:8000"):
            await jobs.submit("explore", {"url": url}, origin="api")
        for url in ("https://noshop.test", "https://shop.test.evil.test/", "http://127.0.0.2", "http://10.0.0.1"):
            with pytest.raises(JobRefused, match=r"may not be crawled here: only shop\.test, 127\.0\.0\.1"):
                await jobs.submit("explore", {"url": url}, origin="api")


async def test_some_run_the_others_wait_and_too_many_are_refused(tmp_path):
    async with open_jobs(tmp_path / "jobs", max_running=1, max_queued=2) as jobs:
        first = await until(jobs, await submitted(jobs), "running")
        second, third = await submitted(jobs), await submitted(jobs, "exit/0")
        with pytest.raises(JobsFull, match="2 jobs are waiting"):
            await submitted(jobs)
        assert [job.id for job in jobs.all()] == [third.id, second.id, first.id]
        assert (await jobs.stop(second.id)).state == "stopped"
        assert jobs.get(second.id).started is None
        stopped = await jobs.stop(first.id)
        assert (stopped.state, stopped.exit_status) == ("stopped", 3)
        assert (await jobs.wait(third.id, WAIT)).state == "finished"
        assert await jobs.stop(third.id) == jobs.get(third.id)


async def test_what_takes_seconds_does_not_wait_for_what_takes_minutes(tmp_path):
    async with open_jobs(tmp_path / "jobs", max_running=1) as jobs:
        long = await until(jobs, await submitted(jobs), "running")
        waiting = await submitted(jobs)
        page = await jobs.submit("extract", {"urls": ["https://1.1.1.1/"]}, {"max_pages": 1}, origin="api")
        planned = await jobs.wait((await submitted(jobs, "exit/0", "plan", goal="product")).id, WAIT)
        assert (await jobs.wait(page.id, WAIT)).state == planned.state == "finished"
        assert (jobs.get(long.id).state, jobs.get(waiting.id).state) == ("running", "queued")
    name, *given = arguments_of(planned)
    assert (name, given[:2]) == ("plan", ["--sample=20", "https://1.1.1.1/exit/0"])
    assert {"goal=product", "max_pages=100", f"JOBDIR={planned.folder}/crawl"} <= {*given}


async def test_the_newest_ended_jobs_are_kept(tmp_path):
    async with open_jobs(tmp_path / "jobs", max_ended=2) as jobs:
        made = [await submitted(jobs, "exit/0") for _ in range(4)]
        while len(jobs.all()) > 2:  # noqa: ASYNC110 - the folder is all there is to look at
            await asyncio.sleep(0.02)
        assert {job.id for job in jobs.all()} <= {job.id for job in made}


async def test_a_deleted_job_is_gone_with_its_crawl(tmp_path):
    async with open_jobs(tmp_path / "jobs") as jobs:
        job = await until(jobs, await submitted(jobs), "running")
        await jobs.delete(job.id)
        with pytest.raises(NoSuchJob):
            jobs.get(job.id)
        assert [path.name for path in jobs.folder.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("job_id", ["", ".", "..", "../jobs", "a" * 24, "0" * 23, "0" * 24 + "\n", "/etc", "0" * 10**5])
async def test_other_ids_are_no_jobs(tmp_path, job_id):
    async with open_jobs(tmp_path / "jobs") as jobs:
        for ask in (jobs.get, jobs.stop, jobs.delete):
            with pytest.raises(NoSuchJob):
                await result if asyncio.iscoroutine(result := ask(job_id)) else result


async def test_the_next_server_goes_on_with_what_the_last_one_had(tmp_path):
    async with open_jobs(tmp_path / "jobs", max_running=1) as jobs:
        job = await until(jobs, await submitted(jobs), "running")
        waiting = await submitted(jobs, "exit/0")
    assert jobs.get(job.id).state == "queued"
    before = arguments_of(job)
    async with open_jobs(tmp_path / "jobs", max_running=1) as jobs:
        await until(jobs, job, "running")
        await jobs.stop(job.id)
        assert arguments_of(job) == before
        assert (await jobs.wait(waiting.id, WAIT)).state == "finished"


async def test_a_second_server_takes_jobs_stops_them_and_takes_over(tmp_path):
    async with open_jobs(tmp_path / "jobs") as second, open_jobs(tmp_path / "jobs") as other:
        assert (second.runs_jobs, other.runs_jobs) == (True, False)
        job = await until(other, await submitted(other), "running")
        assert second.get(job.id).state == "running"
        assert (await other.stop(job.id)).state == "stopped"
        await other.delete(job.id)
        assert second.all() == []
        kept = await until(other, await submitted(other), "running")
        await second.close()
        while not other.runs_jobs:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.02)
        await until(other, kept, "running")


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000, b'{"id": "x"}'],
)
async def test_a_damaged_job_is_told_as_failed(tmp_path, damage):
    async with open_jobs(tmp_path / "jobs") as jobs:
        job = await submitted(jobs, "exit/0")
        await jobs.wait(job.id, WAIT)
    (job.folder / "job.json").write_bytes(damage)
    async with open_jobs(tmp_path / "jobs") as jobs:
        (damaged,) = jobs.all()
        assert (damaged.id, damaged.state, damaged.cause[:19]) == (job.id, "failed", "job.json is damaged")
        await jobs.delete(job.id)


async def test_a_changed_job_file_starts_nothing(tmp_path):
    async with open_jobs(tmp_path / "jobs", max_running=1) as jobs:
        await until(jobs, await submitted(jobs), "running")
        job = await submitted(jobs, "exit/0")
    changes: list[dict[str, object]] = [
        {"arguments": {"headers": "x", "url": "a"}},
        {"spider": "shell"},
        {"budget": {}},
        {"state": "odd"},
    ]
    for change in changes:
        kept = json.loads((job.folder / "job.json").read_text())
        (job.folder / "job.json").write_text(json.dumps({**kept, **change}))
        assert jobs.get(job.id).cause.startswith("job.json is damaged")
        (job.folder / "job.json").write_text(json.dumps(kept))
        assert jobs.get(job.id).state == "queued"
