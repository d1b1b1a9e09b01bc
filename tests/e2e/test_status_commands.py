"""`scrapy status` and `scrapy requeue`, as a user runs them."""

import asyncio
import json

import pytest
from aiohttp import web

import llmcrawler
from llmcrawler.commands import status
from tests.adapters.commands.run_here import printed
from tests.crawl.jobs import FINE, GONE, make_job
from tests.e2e.crawling import explore, scrapy
from tests.servers.mock_site import MockSite

OWN = "tests.e2e.own_stages.breaks_when_told"
TEXT = "<html><title>{0}</title><body><p>A page about {0}, and about nothing else that there is.</p>{1}</body></html>"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return asyncio.run(make_job(tmp_path_factory.mktemp("jobs") / "job"))


@pytest.fixture
def own_job(tmp_path):
    return asyncio.run(make_job(tmp_path / "job"))


class FragileSite(MockSite):
    """/x/ and /y/ are down until `is_well`; /x/ leads on to /z/. Nobody has /missing/."""

    def __init__(self):
        links = "".join(f'<a href="/{name}/">{name}</a>' for name in ("x", "y", "a", "b", "missing"))
        fine = {f"/{name}/": TEXT.format(name, "") for name in "abz"}
        fragile = {"/x/": self._fragile, "/y/": self._fragile}
        super().__init__({"/": TEXT.format("home", links), **fine, **fragile})
        self.is_well = False

    async def _fragile(self, request):
        if not self.is_well:
            return web.Response(status=500)
        link = '<a href="/z/">z</a>' if request.path == "/x/" else ""
        return web.Response(text=TEXT.format(request.path, link), content_type="text/html")


def counts(found):
    return {name: found["urls"][name] for name in ("queued", "done", "dead")}


def test_what_failed_is_brought_back_and_the_next_run_works_on_it_alone(tmp_path, monkeypatch):
    job = tmp_path / "job"
    settings = {"JOBDIR": job, "PAGE_STAGES": OWN, "RETRY_TIMES": 0, "ROBOTSTXT_OBEY": False}
    with FragileSite().in_thread() as site:
        monkeypatch.setenv("BREAK_ON", "/b/")
        first = explore(tmp_path, site.url(), settings, max_pages=20)
        assert first.error_kinds() == {"http_500": 2, "http_404": 1, "internal": 1}
        found = json.loads(scrapy("status", job, "--json").stdout)
        assert found == llmcrawler.status_summary(job) | {"files": found["files"]}
        assert counts(found) == {"queued": 0, "done": 3, "dead": 3}
        assert found["stages"]["breaks_when_told"]["statuses"] == {"success": 2, "failed": 1}
        assert (found["state"], found["rate"]["pages"]) == ("finished", 6)

        fetched = scrapy("requeue", job, "--dead", "--kind", "http_5*")
        assert "2 back in the queue: 2 to fetch, 0 from their stored bodies" in fetched.stdout
        assert f"scrapy crawl explore -a url={site.url()} -a max_pages=20 -s JOBDIR={job}\n" in fetched.stdout
        rerun = scrapy("requeue", job, "--failed", "*/b/")
        assert "1 back in the queue: 0 to fetch, 1 from their stored bodies" in rerun.stdout
        assert (fetched.returncode, rerun.returncode) == (0, 0)

        monkeypatch.delenv("BREAK_ON")
        site.is_well = True
        before = dict(site.measures.hits)
        second = explore(tmp_path, site.url(), settings, max_pages=20)
        now = {path: count - before.get(path, 0) for path, count in site.measures.hits.items()}
    assert {path for path, count in now.items() if count} == {"/x/", "/y/", "/z/"}
    assert second.error_kinds() == {"http_404": 1}
    assert len(second.pages) == 7
    assert second.page("/b/")["results"] == {"breaks_when_told": "fine"}
    assert counts(llmcrawler.status_summary(job)) == {"queued": 0, "done": 6, "dead": 1}


@pytest.mark.nightly
def test_dead_letters_are_fetched_again_when_the_crawl_has_had_all_its_pages(tmp_path):
    job = tmp_path / "job"
    settings = {"JOBDIR": job, "RETRY_TIMES": 0, "ROBOTSTXT_OBEY": False}
    with FragileSite().in_thread() as site:
        explore(tmp_path, site.url(), settings, max_pages=3)
        scrapy("requeue", job, "--kind", "http_500")
        site.is_well = True
        second = explore(tmp_path, site.url(), settings, max_pages=3)
    assert {"/x/", "/y/"} <= {page["url"].removeprefix(site.origin) for page in second.pages if not page["error"]}


def test_status_is_a_table_for_people(job):
    shown = printed(status.Command(), job)
    assert "\x1b" not in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == f"{job}: finished"
    assert "spider explore url=https://a.example/, max_pages=500" in lines
    assert "dead letters 2" in lines
    assert "record 1 2 1 0.667 s" in lines
    assert "fetch http_404 1 so it is https://a.example/gone" in lines
    assert "product 2" in lines
    assert "a.example 0 0 3 1" in lines


def test_a_url_that_is_not_in_the_job_is_said_and_the_others_come_back(own_job):
    shown = scrapy("requeue", own_job, GONE.url, FINE.url, "https://a.example/never")
    assert shown.returncode == 1
    assert shown.stderr == "https://a.example/never: not in the job\n"
    assert "1 back in the queue" in shown.stdout
    assert "1 left unchanged" in shown.stdout
    assert llmcrawler.status_summary(own_job)["urls"]["dead"] == 1
