"""What a job's results say, of a JOBDIR as crawls leave it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import pytest

from llmcrawler.core.storage import open_job_file, write_value
from llmcrawler.core.storage.ledger import PLAN
from llmcrawler.errors import ConfigError
from llmcrawler.server import job_results
from llmcrawler.server.jobs import DEFAULT_BUDGET, ServerJob
from tests.server.stored_jobs import stored_job


@pytest.fixture
def job(tmp_path):
    return stored_job(tmp_path / "jobs" / ("a" * 24))


def test_progress_counts(job):
    assert job_results.progress(job) == {
        "id": job.id,
        "state": "finished",
        "cause": "",
        "seconds": 3.0,
        "pages_done": 44,
        "pages_failed": 1,
        "pages_queued": 0,
        "records": 4,
        "page_types": {"article": 41, "product": 4},
        "errors": {"dns": 1},
        "tokens": 700,
        "cost_usd": 0.01,
    }


def test_a_job_that_has_not_begun_has_nothing(tmp_path):
    job = ServerJob("a" * 24, tmp_path, "explore", {"url": "https://shop.test/"}, DEFAULT_BUDGET, "api", 1.0)
    assert job_results.progress(job)["pages_done"] == 0
    assert job_results.pages(job) == job_results.PageSlice((), None, 0)
    assert job_results.page(job, "https://shop.test/") == (None, None)
    assert job_results.templates(job) == []


def test_pages_come_in_slices(job):
    found, after = [], 0
    while after is not None:
        part = job_results.pages(job, after=after, limit=20)
        found.append([int(line["url"].rpartition("/")[2]) for line in part.lines])
        after = part.next
    assert [len(one) for one in found] == [20, 20, 5]
    assert [number for one in found for number in one] == [*range(1, 46)]
    assert job_results.pages(job, limit=45).next is None
    assert job_results.pages(job, after=45) == job_results.PageSlice((), None, 45)


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ({"price": "£10.00"}, [1]),
        ({"price": ">=10"}, [1, 3]),
        ({"price": "<10"}, [2]),
        ({"record.price": ">9", "title": "~THING"}, [1, 2, 3]),
        ({"tags": "blue"}, [1, 2, 3, 4]),
        ({"title": "thing 44"}, [44]),
        ({"title": "~thing 4"}, [4, 40, 41, 42, 43, 44, 45]),
        ({"nothing": "a"}, []),
    ],
)
def test_pages_are_filtered(job, where, numbers):
    lines = job_results.pages(job, where=where, fields=["url"]).lines
    assert [int(line["url"].rpartition("/")[2]) for line in lines] == numbers


def test_only_what_was_asked_for_comes(job):
    lines = job_results.pages(job, page_type="product", fields=["title", "record.price", "price"], limit=2).lines
    assert lines[0] == {"title": "Thing 1", "record.price": "£10.00", "price": "£10.00"}
    assert len(job_results.pages(job, has_record=True).lines) == 4
    with pytest.raises(ConfigError, match="where: price: '>cheap' compares with no number"):
        job_results.pages(job, where={"price": ">cheap"})


def test_a_page_is_found_as_it_is_written(job):
    assert job_results.page(job, "HTTPS://shop.test:443/4")[0]["title"] == "Thing 4"
    assert job_results.page(job, "https://shop.test/46") == (None, None)


def test_a_damaged_result_says_so(job):
    (job.folder / "crawl" / "crawl.sqlite").write_bytes(b"no database")
    for ask in (job_results.progress, job_results.pages, lambda one: job_results.page(one, "https://shop.test/1")):
        with pytest.raises(ConfigError, match="is not a job file of llmcrawler"):
            ask(job)


def test_templates_are_those_of_the_jobs_sites(job):
    sites = {"shop.test": [{"template": "t1", "page_type": "product"}], "other.test": [{"template": "t1"}]}
    stored = {"format": "llmcrawler-templates", "version": 1, "sites": sites, "state": dict.fromkeys(sites, "")}
    (job.folder.parent / "templates.json").write_text(json.dumps(stored))
    assert job_results.templates(job) == [{"template": "t1", "page_type": "product", "site": "shop.test"}]


def test_the_plan_of_a_job_is_read_from_its_file(job, tmp_path):
    assert job_results.plan(job) is None
    planned = replace(job, folder=tmp_path / "planned")
    assert job_results.plan(planned) is None
    planned.jobdir.mkdir(parents=True)
    with closing(open_job_file(planned.jobdir / "crawl.sqlite")) as connection:
        write_value(connection, PLAN, {"pages": {"likely": 3}})
    assert job_results.plan(planned) == {"pages": {"likely": 3}}
