"""Which pages `requeue` brings back, and from where on they run again."""

import pytest
from filelock import FileLock

from llmcrawler.core.storage import read_job_file
from llmcrawler.core.storage.job_file import JOB_FILE, LOCK_FILE, read_value
from llmcrawler.core.storage.job_status import job_status
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import (
    ALL_WELL,
    BODILESS,
    BUSY,
    CLASSIFY_FAILED,
    FINE,
    GONE,
    JOB,
    PAGES,
    QUEUED,
    RECORD_FAILED,
    STARTED,
    TARGET,
    UNREADABLE,
    Made,
    make_job,
    with_frontier,
)

MANY = 100


async def leases_of(job):
    async def lease(frontier, ledger):
        leases = await frontier.lease(MANY, {}, MANY)
        return {lease.url: (lease, (await ledger.page(lease.url)).stages) for lease in leases}

    return await with_frontier(job, lease)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "fetched", "rerun"),
    [
        (RequeueChoice(dead=True), {GONE, BUSY}, set()),
        (RequeueChoice(failed=True), {BODILESS}, {CLASSIFY_FAILED, RECORD_FAILED, UNREADABLE}),
        (RequeueChoice(dead=True, failed=True), {GONE, BUSY, BODILESS}, {CLASSIFY_FAILED, RECORD_FAILED, UNREADABLE}),
        (RequeueChoice(kinds=("http_503",)), {BUSY}, set()),
        (RequeueChoice(kinds=("http_*",)), {GONE, BUSY}, set()),
        (RequeueChoice(kinds=("http_?03",)), set(), set()),
        (RequeueChoice(kinds=("http_503", "llm_failed")), {BUSY}, {CLASSIFY_FAILED}),
        (RequeueChoice(kinds=("timeout",)), {BODILESS}, {RECORD_FAILED}),
        (RequeueChoice(dead=True, kinds=("timeout",)), set(), set()),
        (RequeueChoice(stages=("classify",)), set(), {CLASSIFY_FAILED}),
        (RequeueChoice(stages=("content", "record")), {BODILESS}, {RECORD_FAILED, UNREADABLE}),
        (RequeueChoice(stages=("fetch",)), {GONE, BUSY}, set()),
        (RequeueChoice(stages=("fetch",), kinds=("http_404",)), {GONE}, set()),
        (RequeueChoice(stages=("record",), is_forced=True), {BODILESS}, {FINE, CLASSIFY_FAILED, RECORD_FAILED}),
        (RequeueChoice(stages=("own",)), set(), set()),
        (RequeueChoice(stages=("own",), is_forced=True), set(), {CLASSIFY_FAILED}),
        (RequeueChoice(urls=(GONE.url, RECORD_FAILED.url)), {GONE}, {RECORD_FAILED}),
        (RequeueChoice(urls=("HTTPS://A.example:443/gone#there",)), {GONE}, set()),
        (RequeueChoice(urls=("https://b.example/*",)), {BUSY, BODILESS}, {RECORD_FAILED}),
        (RequeueChoice(urls=("*/record?a=*",)), set(), {RECORD_FAILED}),
        (RequeueChoice(urls=("https://b.example/*",), dead=True), {BUSY}, set()),
        (RequeueChoice(urls=(FINE.url,)), set(), set()),
        (RequeueChoice(urls=(FINE.url,), is_forced=True), {FINE}, set()),
        (RequeueChoice(urls=(FINE.url,), stages=("classify",), is_forced=True), set(), {FINE}),
        (
            RequeueChoice(urls=("*",), is_forced=True),
            {FINE, GONE, BUSY, BODILESS},
            {CLASSIFY_FAILED, RECORD_FAILED, UNREADABLE},
        ),
    ],
)
async def test_pages_that_fit_all_that_is_given_come_back(tmp_path, choice, fetched, rerun):
    job = await make_job(tmp_path / "job")
    result = requeue(job, choice)
    assert (result.fetched, result.rerun) == (len(fetched), len(rerun))
    leases = await leases_of(job)
    assert set(leases) == {page.url for page in fetched | rerun} | {QUEUED}
    assert list(leases)[-1] == QUEUED  # they come first
    for page in fetched | rerun:
        lease, stages = leases[page.url]
        assert lease.is_stored == (page in rerun)
        assert lease.attempts == 1
        assert stages if page in rerun else not stages


@pytest.mark.parametrize(
    ("page", "choice", "successes"),
    [
        (CLASSIFY_FAILED, RequeueChoice(failed=True), {"fetch", "content"}),  # its own stage came later
        (RECORD_FAILED, RequeueChoice(failed=True), {"fetch", "content", "classify"}),
        (UNREADABLE, RequeueChoice(failed=True), {"fetch"}),
        (FINE, RequeueChoice(stages=("content",), is_forced=True), {"fetch"}),
        (FINE, RequeueChoice(stages=("record", "classify"), is_forced=True), {"fetch", "content"}),
        (CLASSIFY_FAILED, RequeueChoice(stages=("own",), is_forced=True), {"fetch", "content"}),
    ],
)
async def test_stages_run_again_from_the_one_that_is_wanted_on(tmp_path, page, choice, successes):
    job = await make_job(tmp_path / "job", (page,))
    assert requeue(job, choice).rerun == 1
    _lease, stages = (await leases_of(job))[page.url]
    assert {name for name, run in stages.items() if run.status == "success"} == successes
    failed = {name for name, text in page.stages.items() if text.startswith("failed")}
    assert failed <= set(stages)  # their attempts count on


async def test_what_is_brought_back_counts_as_nothing_until_it_is_done_again(tmp_path):
    job = await make_job(tmp_path / "job")
    before = job_status(job, STARTED)
    assert requeue(job, RequeueChoice(dead=True)).fetched == 2
    after = job_status(job, STARTED)
    assert after.urls == {**before.urls, "dead": 0, "queued": before.urls["queued"] + 2}
    assert {error.kind for error in after.errors} == {"llm_failed", "unreadable"}
    assert (after.state, after.reason) == ("interrupted", "requeued")
    assert after.page_types == before.page_types
    again = requeue(job, RequeueChoice(dead=True, urls=(GONE.url,)))  # what comes back twice comes back once
    assert (again.fetched, again.waiting) == (0, 1)


async def test_the_body_of_a_page_that_is_fetched_again_is_kept_to_compare_with(tmp_path):
    job = await make_job(tmp_path / "job", (FINE,))
    requeue(job, RequeueChoice(urls=(FINE.url,), is_forced=True))

    async def body(_frontier, ledger):
        return (await ledger.page(FINE.url)).body

    assert (await with_frontier(job, body)).body == b"<p>text</p>"


async def test_urls_that_are_not_in_the_job_wait_anyway_or_do_not_fit_are_told(tmp_path):
    job = await make_job(tmp_path / "job")
    unknown = ("https://a.example/never", "https://z.example/*", "mailto:x")
    result = requeue(job, RequeueChoice(urls=(*unknown, QUEUED, FINE.url, TARGET, GONE.url)))
    assert result.unknown == unknown
    assert (result.fetched, result.rerun, result.waiting, result.unfit) == (1, 0, 1, 2)
    assert (result.spider, result.given) == (JOB["spider"], JOB["given"])


async def test_a_job_of_which_nothing_comes_back_stays_finished(tmp_path):
    job = await make_job(tmp_path / "job", (FINE,))
    requeue(job, RequeueChoice(dead=True))
    connection = read_job_file(job / JOB_FILE)
    assert read_value(connection, "state") == "finished"
    connection.close()


@pytest.mark.slow
async def test_hundreds_of_pages_come_back_at_once(tmp_path):
    many = tuple(Made(f"https://a.example/{n}", ALL_WELL | {"record": "failed: timeout"}) for n in range(1201))
    job = await make_job(tmp_path / "job", many)
    assert requeue(job, RequeueChoice(failed=True)).rerun == 1201
    assert job_status(job, STARTED).urls["queued"] == 1202


@pytest.mark.parametrize("choice", [RequeueChoice(), RequeueChoice(is_forced=True)])
async def test_nothing_chosen_is_an_error(tmp_path, choice):
    job = await make_job(tmp_path / "job", PAGES)
    with pytest.raises(ConfigError, match="nothing is selected"):
        requeue(job, choice)


async def test_an_unknown_stage_is_an_error_that_names_the_others(tmp_path):
    job = await make_job(tmp_path / "job", PAGES)
    with pytest.raises(ConfigError, match="'clasify'; there are: fetch, content, classify, record, own"):
        requeue(job, RequeueChoice(stages=("clasify",)))


async def test_a_job_that_a_crawl_works_on_is_left_alone(tmp_path):
    job = await make_job(tmp_path / "job", PAGES)
    with FileLock(job / LOCK_FILE), pytest.raises(ConfigError, match="crawl is running in it; stop it"):
        requeue(job, RequeueChoice(dead=True))
    assert job_status(job, STARTED).urls["dead"] == 2


def test_no_job_is_made_where_there_is_none(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        requeue(tmp_path / "job", RequeueChoice(dead=True))
    assert not (tmp_path / "job").exists()
