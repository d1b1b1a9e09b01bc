"""Firecrawl's API: what is taken, passed over and refused; tests/e2e/test_firecrawl.py has its own clients."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from llmcrawler.server import firecrawl_api
from llmcrawler.server.http_api import create_app
from llmcrawler.server.jobs import Webhook
from tests.server.conftest import open_jobs

PAGE, WAITS = "https://1.1.1.1/exit/0", "https://1.1.1.1/wait"


@asynccontextmanager
async def serving(folder, **limits):
    async with open_jobs(folder, **limits) as jobs:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(jobs, "secret")),
            base_url="http://localhost",
            headers={"Authorization": "Bearer secret"},
        )
        async with client:
            yield jobs, client


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("scrape", {"formats": ["summary"]}),
    ("scrape", {"formats": [{"type": "screenshot", "fullPage": True}]}),
    ("scrape", {"formats": [{"type": "json", "prompt": "the price"}]}),
    ("scrape", {"actions": [{"type": "wait", "milliseconds": 5}]}),
    ("scrape", {"headers": {"Cookie": "a=b"}}),
    ("scrape", {"includeTags": ["main"]}),
    ("scrape", {"location": {"country": "DE"}}),
    ("scrape", {"mobile": True}),
    ("scrape", {"proxy": "stealth"}),
    ("scrape", {"timeout": 3}),
    ("scrape", {"url": "ftp://1.1.1.1/"}),
    ("scrape", {"zeroDataRetention": True}),
    ("scrape", {"noSuchOption": 1}),
    ("map", {"sitemap": "only"}),
    ("map", {"limit": 30_001}),
    ("map", {"search": "tea " * 200}),
    ("scrape", {"timeout": 10**400}),
    ("crawl", {"includePaths": ["a" * 501]}),
    ("crawl", {"includePaths": ["a"] * 21}),
    ("crawl", {"maxDiscoveryDepth": 10**400}),
    ("batch/scrape", {"urls": ["a"] * 10_001}),
    ("map", {"location": {"country": "DE"}}),
    ("crawl", {"allowExternalLinks": True}),
    ("crawl", {"allowSubdomains": True}),
    ("crawl", {"deduplicateSimilarURLs": False}),
    ("crawl", {"delay": 2}),
    ("crawl", {"excludePaths": ["("]}),
    ("crawl", {"ignoreQueryParameters": True}),
    ("crawl", {"ignoreRobotsTxt": True}),
    ("crawl", {"includePaths": ["^/a$|^/b$"]}),
    ("crawl", {"limit": 1_000_000}),
    ("crawl", {"maxDiscoveryDepth": -1}),
    ("crawl", {"prompt": "only the blog"}),
    ("crawl", {"scrapeOptions": {"formats": ["images"]}}),
    ("crawl", {"sitemap": "skip"}),
    ("batch/scrape", {"appendToId": "a"}),
    ("batch/scrape", {"urls": ["http://10.0.0.1/"]}),
    ("crawl", {"webhook": {"url": "https://1.1.1.1/", "headers": {"A": "b"}}}),
    ("crawl", {"webhook": {"url": "https://1.1.1.1/", "events": ["page"]}}),
    ("crawl", {"webhook": "http://10.0.0.1/"}),
]


async def test_what_cannot_be_done_is_refused_and_named(tmp_path):
    async with serving(tmp_path) as (jobs, client):
        for path, option in REFUSED:
            body = {"urls": [PAGE]} if path == "batch/scrape" else {"url": PAGE}
            answer = await client.post(f"/v2/{path}", json={**body, **option})
            (name,) = option
            named = next((one for one in ("prompt", "headers", "10.0.0.1") if one in str(option)), name)
            told = answer.json()
            assert (answer.status_code, told["success"], told["code"]) == (400, False, "BAD_REQUEST"), (option, told)
            assert named in told["error"], told
        assert jobs.all() == []


async def test_what_changes_nothing_is_passed_over(pretended, tmp_path):
    sent = {
        "url": PAGE,
        "origin": "python-sdk@4.55.0",
        "integration": "n8n",
        "limit": 7,
        "sitemap": "include",
        "maxConcurrency": 3,
        "allowExternalLinks": False,
        "deduplicateSimilarURLs": True,
        "delay": 0,
        "scrapeOptions": {
            "formats": ["markdown", {"type": "links"}],
            "onlyMainContent": False,
            "maxAge": 14_400_000,
            "blockAds": True,
            "mobile": False,
            "removeBase64Images": True,
            "skipTlsVerification": True,
            "waitFor": 1_000,
            "headers": {},
        },
    }
    async with serving(tmp_path) as (jobs, client):
        answer = (await client.post("/v2/crawl", json=sent)).json()
        job = jobs.get(answer["id"])
    assert answer == {"success": True, "id": job.id, "url": f"http://localhost/v2/crawl/{job.id}"}
    assert (job.spider, job.arguments, job.budget.max_pages) == (
        "explore",
        {"url": PAGE, "allow": "^(?=https?://[^/?#]+/exit/0)"},
        7,
    )


@pytest.mark.parametrize(
    ("options", "taken", "left"),
    [
        ({"includePaths": ["blog/.*"]}, ["/blog/1", "/en/blog/1", "/blog/1?a=b"], ["/shop", "/?next=/blog/1"]),
        ({"includePaths": ["^/blog/"]}, ["/blog/1"], ["/en/blog/1"]),
        ({"includePaths": ["/blog$"]}, ["/blog", "/blog?a=b"], ["/blog/1"]),
        ({"includePaths": ["^/a$", "^/b$"]}, ["/a", "/b"], ["/c", "/a/b"]),
        ({"includePaths": [r"[^a]\$5"]}, ["/b$5"], ["/a$5"]),
        ({"includePaths": ["page=2$"], "regexOnFullURL": True}, ["/blog?page=2"], ["/blog?page=20"]),
        ({"excludePaths": ["^/shop", "private"]}, ["/", "/en/shop", "/a?private=1"], ["/shop/1", "/a/private"]),
        ({"includePaths": ["a"], "excludePaths": ["b"]}, ["/a"], ["/c", "/ab"]),
    ],
)
async def test_paths_become_expressions_for_whole_urls(tmp_path, options, taken, left):
    async with serving(tmp_path, max_running=0) as (jobs, client):
        answer = await client.post("/v2/crawl", json={"url": "https://1.1.1.1/", **options})
        arguments = jobs.get(answer.json()["id"]).arguments
    allow, deny = (re.compile(arguments.get(name, default)) for name, default in (("allow", ""), ("deny", "(?!)")))
    followed = [
        path
        for path in taken + left
        if allow.search(f"https://1.1.1.1{path}") and not deny.search(f"https://1.1.1.1{path}")
    ]
    assert followed == taken


async def test_a_crawl_stays_below_its_start_unless_told_otherwise(tmp_path):
    body = {"url": "https://1.1.1.1/docs/", "includePaths": ["guide"]}
    async with serving(tmp_path, max_running=0) as (jobs, client):
        below, everywhere = [
            re.compile(jobs.get((await client.post("/v2/crawl", json=sent)).json()["id"]).arguments["allow"])
            for sent in (body, {**body, "crawlEntireDomain": True})
        ]
    assert below.search("https://1.1.1.1/docs/guide")
    assert not below.search("https://1.1.1.1/docs/other")
    assert not below.search("https://1.1.1.1/guide")
    assert everywhere.search("https://1.1.1.1/guide")


async def test_a_json_format_becomes_the_schema_of_records(tmp_path):
    schema = {"type": "object", "properties": {"price": {"type": "number"}}}
    formats = ["markdown", {"type": "json", "schema": schema, "prompt": None}]
    async with serving(tmp_path, max_running=0) as (jobs, client):
        sent = {"urls": [PAGE, "not a url", "http://"], "formats": formats}
        answer = (await client.post("/v2/batch/scrape", json=sent)).json()
        assert answer["invalidURLs"] == ["http://", "not a url"]
        assert jobs.get(answer["id"]).arguments == {"urls": [PAGE], "schema": schema}
        strict = await client.post("/v2/batch/scrape", json={**sent, "ignoreInvalidURLs": False})
        assert (strict.status_code, strict.json()["error"]) == (400, "urls: 'http://' is not an http or https url")


async def test_jobs_of_others_and_other_kinds_are_not_there(tmp_path):
    async with serving(tmp_path, max_running=0) as (jobs, client):
        other = await jobs.submit("explore", {"url": PAGE}, origin="api")
        own = (await client.post("/v2/crawl", json={"url": PAGE})).json()["id"]
        for path in (
            f"crawl/{other.id}",
            "crawl/none",
            "crawl/..%2f..",
            f"batch/scrape/{own}",
            f"batch/scrape/{own}/errors",
        ):
            answer = await client.get(f"/v2/{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
        active = (await client.get("/v2/crawl/active")).json()
        assert active == {"success": True, "crawls": [{"id": own, "teamId": "", "url": PAGE}]}


async def test_other_endpoints_say_what_there_is(tmp_path):
    async with serving(tmp_path) as (_, client):
        answer = await client.post("/v2/extract", json={"urls": [PAGE]})
    assert answer.status_code == 404
    assert answer.json()["error"] == "POST /v2/extract: Not Found; /openapi.json says what there is"


async def test_a_job_tells_how_it_ended(pretended, tmp_path):
    async with serving(tmp_path) as (jobs, client):
        found = {}
        for status in (0, 4, 5):
            started = (await client.post("/v2/crawl", json={"url": f"https://1.1.1.1/exit/{status}"})).json()["id"]
            await jobs.wait(started, 60)
            answer = (await client.get(f"/v2/crawl/{started}")).json()
            found[status] = answer["status"], answer.get("warning")
            assert (await client.delete(f"/v2/crawl/{started}")).status_code == 409
        started = (await client.post("/v2/crawl", json={"url": WAITS})).json()["id"]
        assert (await client.get(f"/v2/crawl/{started}")).json()["status"] == "scraping"
        assert (await client.delete(f"/v2/crawl/{started}")).json() == {"success": True, "status": "cancelled"}
        assert (await client.get(f"/v2/crawl/{started}")).json()["status"] == "cancelled"
    assert found == {0: ("completed", None), 4: ("failed", "so it is: 4"), 5: ("completed", "so it is: 5")}


async def test_a_page_that_does_not_come_in_time_is_a_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(firecrawl_api, "_START_SECONDS", 0)
    async with serving(tmp_path, max_running=0) as (jobs, client):
        answer = await client.post("/v2/scrape", json={"url": PAGE, "timeout": 1_000})
        assert (answer.status_code, answer.json()["code"]) == (408, "SCRAPE_TIMEOUT")
        assert [job.state for job in jobs.all()] == ["stopped"]


async def test_a_full_queue_asks_to_come_again(tmp_path):
    async with serving(tmp_path, max_running=0, max_queued=1) as (_, client):
        answers = [await client.post("/v2/crawl", json={"url": PAGE}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]


async def test_a_body_that_is_none_is_refused(tmp_path):
    async with serving(tmp_path) as (_, client):
        for body in (b"", b"[]", b"{", b'{"url": 5}', b"\xff", b'{"url": ' + b"[" * 100_000):
            answer = await client.post("/v2/scrape", content=body, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST"), body[:20]


async def test_a_webhook_is_told_of_the_end(tmp_path):
    async with serving(tmp_path, max_running=0) as (jobs, client):
        for hook in ("https://1.1.1.1/told", {"url": "https://1.1.1.1/told", "events": ["completed"], "metadata": {}}):
            answer = await client.post("/v2/crawl", json={"url": PAGE, "webhook": hook})
            assert jobs.get(answer.json()["id"]).webhook == Webhook("https://1.1.1.1/told")
