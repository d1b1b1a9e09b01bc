"""The job API: what its answers are, and that a hostile client gets through nowhere."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn

from llmcrawler.server import http_guard, job_results
from llmcrawler.server.http_api import create_app, openapi
from tests.server.conftest import open_jobs
from tests.server.stored_jobs import stored_job

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("pretended")]
TOKEN = "a-token-of-the-operator"
ID, OTHER = "a" * 24, "b" * 24
HERE = "http://127.0.0.1:8787"


@asynccontextmanager
async def open_server(folder, headers=None, names=(), **limits):
    """A client of the application, and its jobs; one job has ended."""
    stored_job(folder / "jobs" / ID)
    async with open_jobs(folder / "jobs", **limits) as jobs:
        transport = httpx2.ASGITransport(app=create_app(jobs, TOKEN, names), raise_app_exceptions=False)
        given = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        async with httpx2.AsyncClient(transport=transport, base_url=HERE, headers=given) as client:
            yield client, jobs


async def test_a_job_is_asked_for_shown_stopped_and_deleted(tmp_path):
    async with open_server(tmp_path) as (client, jobs):
        made = await client.post("/v1/jobs", json={"arguments": {"url": "https://1.1.1.1/wait"}})
        assert made.status_code == 201
        job = made.json()
        assert (job["state"], job["spider"], job["budget"]["max_pages"], job["origin"]) == (
            "queued",
            "explore",
            100,
            "api",
        )
        assert made.headers["Location"] == f"/v1/jobs/{job['id']}"
        shown = (await client.get(made.headers["Location"])).json()
        assert shown["id"] == job["id"]
        assert shown["progress"]["pages_done"] == 0
        stopped = (await client.post(f"/v1/jobs/{job['id']}/stop")).json()
        assert stopped["state"] == "stopped"
        assert (await client.delete(f"/v1/jobs/{job['id']}")).status_code == 204
        gone = await client.get(f"/v1/jobs/{job['id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "NOT_FOUND")
        assert [one.id for one in jobs.all()] == [ID]


async def test_jobs_are_listed_by_the_page(tmp_path):
    async with open_server(tmp_path, max_running=1) as (client, _jobs):
        body = {"spider": "map", "arguments": {"url": "https://1.1.1.1/wait"}}
        made = [(await client.post("/v1/jobs", json=body)).json()["id"] for _ in range(3)]
        found, cursor = [], ""
        while cursor is not None:
            answer = (await client.get("/v1/jobs", params={"limit": 2, "cursor": cursor})).json()
            found.append([job["id"] for job in answer["jobs"]])
            cursor = answer["next"]
        assert found == [[made[2], made[1]], [made[0], ID]]
        long = {"arguments": {"url": "https://1.1.1.1/wait", "schema": {"title": "a" * 3000, "properties": {"a": {}}}}}
        made = (await client.post("/v1/jobs", json=long)).json()
        assert {*made["arguments"]} == {"url", "schema"}
        assert {*(await client.get("/v1/jobs")).json()["jobs"][0]["arguments"]} == {"url"}


async def test_too_many_jobs_are_told_when_to_come_again(tmp_path):
    async with open_server(tmp_path, max_queued=0) as (client, _jobs):
        answer = await client.post("/v1/jobs", json={"arguments": {"url": "https://shop.test/"}})
        assert (answer.status_code, answer.headers["Retry-After"], answer.json()["code"]) == (429, "60", "JOBS_FULL")


async def test_pages_are_streamed_with_their_places(tmp_path):
    async with open_server(tmp_path) as (client, _jobs):
        first = await client.get(f"/v1/jobs/{ID}/pages", params={"limit": 30})
        assert first.headers["Content-Type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in first.text.splitlines()]
        rest = await client.get(f"/v1/jobs/{ID}/pages", params={"after": lines[-1]["seq"]})
        lines += [json.loads(line) for line in rest.text.splitlines()]
        assert [line["title"] for line in lines] == [f"Thing {number}" for number in range(1, 46)]
        some = await client.get(f"/v1/jobs/{ID}/pages", params={"page_type": "product", "where": "price:>9.6"})
        assert [json.loads(line)["title"] for line in some.text.splitlines()] == ["Thing 1", "Thing 3"]
        records = await client.get(f"/v1/jobs/{ID}/records")
        assert [json.loads(line)["record"]["price"] for line in records.text.splitlines()] == [
            "£10.00",
            "9,50",
            12,
            None,
        ]


async def test_templates_are_listed_by_the_page(tmp_path):
    sites = {"shop.test": [{"template": f"t{number}", "selectors": []} for number in range(3)]}
    async with open_server(tmp_path) as (client, jobs):
        stored = {"format": "llmcrawler-templates", "version": 1, "sites": sites, "state": {"shop.test": ""}}
        jobs.templates_file.write_text(json.dumps(stored))
        answer = (await client.get(f"/v1/jobs/{ID}/templates", params={"limit": 2})).json()
        assert ([one["template"] for one in answer["templates"]], answer["next"]) == (["t0", "t1"], 2)
        answer = (await client.get(f"/v1/jobs/{ID}/templates", params={"after": 2})).json()
        assert ([one["template"] for one in answer["templates"]], answer["next"]) == (["t2"], None)


async def test_a_damaged_job_is_told(tmp_path):
    async with open_server(tmp_path) as (client, jobs):
        (jobs.get(ID).jobdir / "crawl.sqlite").write_bytes(b"no database")
        for path in ("", "/pages", "/records"):
            answer = await client.get(f"/v1/jobs/{ID}{path}")
            assert (answer.status_code, answer.json()["code"]) == (500, "DAMAGED")
        jobs.folder.joinpath(ID, "job.json").write_text("{")
        assert (await client.get(f"/v1/jobs/{ID}")).json()["cause"].startswith("job.json is damaged")


async def test_what_fails_unexpectedly_says_nothing_of_the_inside(tmp_path, monkeypatch):
    monkeypatch.setattr(job_results, "progress", lambda _job: 1 / 0)
    async with open_server(tmp_path) as (client, _jobs):
        answer = await client.get(f"/v1/jobs/{ID}")
        assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
        assert "division" not in answer.text


async def test_the_api_is_described_by_openapi(tmp_path):
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(openapi())
    async with open_server(tmp_path) as (client, _jobs):
        described = (await client.get("/openapi.json")).json()
        assert described == json.loads(json.dumps(openapi()))
        body = {"arguments": {"url": "https://1.1.1.1/exit/0"}}
        job = (await client.post("/v1/jobs", json=body)).json()
    schemas = described["components"]["schemas"]
    assert job.keys() == schemas["Job"]["properties"].keys() - {"progress"}
    assert {*described["paths"]} == {
        *("/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/stop", "/v1/jobs/{id}/pages", "/v1/jobs/{id}/records"),
        "/v1/jobs/{id}/templates",
    }


# Each: what is wrong, method, path, and more of the request; the status and the code of the answer.
def bad(method, path, status, code, **request):
    return method, path, request, status, code


def new(arguments, **more):
    return {"json": {"arguments": arguments, **more}}


SHOP = {"url": "https://shop.test/"}
BEARER = f"Bearer {TOKEN}"
# Which addresses are private, and what is no url: test_jobs.py.
WRONG_URLS = ("http://127.0.0.1/", "http://inside.test/", "http://[::ffff:127.0.0.1]/", "file:///etc/passwd", "a\r\nb")
NOT_THEIRS: list[Any] = [
    *({"settings": {"ROBOTSTXT_OBEY": False}}, {"spider": "shell"}, {"spider": None}, {"spider": ["explore"]}),
    *({"origin": "mcp"}, {"id": ID}, {"folder": "/"}, {"state": "finished"}, {"budget": {"max_pages": 10**9}}),
    *({"budget": {"max_cost_usd": 100}}, {"budget": {"max_seconds": 10**9}}, {"budget": {"a": 1}}),
    *({"budget": {"max_tokens": -1}}, {"budget": {"max_pages": 1.5}}, {"budget": []}),
]
HOSTILE = [
    # No token, and odd ones.
    *(
        bad("GET", path, 401, "UNAUTHORIZED", headers={"Authorization": token})
        for path in ("/v1/jobs", "/openapi.json", f"/v1/jobs/{ID}/pages", "/mcp")
        for token in ("", "Bearer ", f"Basic {TOKEN}", TOKEN, f"{BEARER}x", BEARER[:-1], BEARER.upper(), "Bearer \xff")
    ),
    bad("GET", f"/v1/jobs?token={TOKEN}", 401, "UNAUTHORIZED", headers={"Authorization": ""}),
    bad("GET", "/v1/jobs", 401, "UNAUTHORIZED", headers={"Authorization": "", "Cookie": f"token={TOKEN}"}),
    bad("POST", "/v1/jobs", 401, "UNAUTHORIZED", headers={"Authorization": ""}, **new(SHOP)),
    bad("GET", "/v2/crawl/active", 401, "UNAUTHORIZED", headers={"Authorization": ""}),
    bad("GET", "/jobs/../v1/jobs", 401, "UNAUTHORIZED", headers={"Authorization": ""}),
    bad("GET", "/%76%31/jobs", 401, "UNAUTHORIZED", headers={"Authorization": ""}),
    bad("GET", "/etc/passwd", 401, "UNAUTHORIZED", headers={"Authorization": ""}),
    # DNS rebinding: the name that the browser has looked up.
    *(
        bad("GET", "/v1/jobs", 421, "WRONG_HOST", headers={"Host": host})
        for host in (
            *("evil.test:8787", "127.0.0.1.evil.test", "", "127.0.0.2", "user@127.0.0.1", "127.0.0.1, evil.test"),
            *("127.0.0.1/evil", "[::1", "127.0.0.1:port", "0x7f.1", "127.0.0.1:8787:8787", "\xe9vil", "a" * 10_000),
        )
    ),
    # Other origins.
    *(
        bad(method, "/v1/jobs", 403, "WRONG_ORIGIN", headers={"Origin": origin})
        for method in ("GET", "POST")
        for origin in (
            *("https://evil.test", "null", "http://127.0.0.1:9999", "http://localhost:8787", "file://", ""),
            *("http://127.0.0.1:8787.evil.test", "http://evil.test/http://127.0.0.1:8787"),
        )
    ),
    bad("GET", "/", 403, "WRONG_ORIGIN", headers={"Origin": "https://evil.test", "Authorization": ""}),
    bad("POST", "/login", 403, "WRONG_ORIGIN", headers={"Origin": "https://evil.test"}, content=b"token=a"),
    # Other jobs, and paths out of the folder.
    *(
        bad(method, f"/v1/jobs/{job}{path}", 404, "NOT_FOUND")
        for job in (OTHER, "token", ".lock", "%2e%2e", "..%2f..", "a%00", "A" * 24, "a" * 25, "%2e%2e%2ftoken")
        for method, path in (("GET", ""), ("GET", "/pages"), ("DELETE", ""))
    ),
    bad("GET", "/v1/jobs/..%2f..%2f..%2fetc%2fpasswd/pages", 404, "NOT_FOUND"),
    bad("GET", f"/v1/jobs/{ID}/../../token", 404, "NOT_FOUND"),
    bad("GET", "/v1/nothing", 404, "NOT_FOUND"),
    bad("PUT", "/v1/jobs", 405, "METHOD_NOT_ALLOWED"),
    bad("DELETE", f"/v1/jobs/{ID}/pages", 405, "METHOD_NOT_ALLOWED"),
    bad("TRACE", "/v1/jobs", 405, "METHOD_NOT_ALLOWED"),
    # Bodies.
    *(
        bad("POST", "/v1/jobs", 400, "BAD_REQUEST", content=body, headers={"Content-Type": "application/json"})
        for body in (
            *(b"", b"{", b"[]", b"null", b'"a"', b"\xff\xfe", b"[" * 100_000, b'{"arguments": NaN}', b"{" * 1000),
            *(b'{"arguments": []}', b'{"arguments": {}, "budget": 1}', b'{"arguments": {"url": {"a": 1}}}'),
        )
    ),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", content=b"{}", headers={"Content-Type": "text/plain"}),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", data={"arguments": "a"}),
    bad("POST", "/v1/jobs", 413, "TOO_LARGE", content=b" " * (2**20 + 1), headers={"Content-Type": "application/json"}),
    bad("POST", "/v1/jobs", 413, "TOO_LARGE", content=b"{}", headers={"Content-Length": "9" * 30}),
    bad("GET", "/v1/jobs", 413, "TOO_LARGE", content=b" " * 2**21),
    bad("POST", "/login", 413, "TOO_LARGE", content=b" " * (2**16 + 1), headers={"Authorization": ""}),
    # Settings and arguments that are the operator's.
    *(
        bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({**SHOP, name: "/etc/passwd"}))
        for name in ("JOBDIR", "page_types", "force", "settings", "-s", "URL", "max_pages", "__class__", "", "a" * 1000)
    ),
    *(bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new(SHOP, **more)) for more in NOT_THEIRS),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({**SHOP, "allow": "(" * 400})),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({**SHOP, "goal": ["a" * 3000]})),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({**SHOP, "schema": {"$ref": "http://10.0.0.1/"}})),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({**SHOP, "urls": [f"https://a.test/{n}" for n in range(200)]})),
    # Private hosts, by each argument that is a url; and what is no url.
    *(
        bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({name: url}, spider=spider))
        for url in WRONG_URLS
        for spider, name in (("explore", "url"), ("extract", "urls"), ("map", "url"))
    ),
    bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new({"urls": ["https://shop.test/", "http://127.0.0.1/"]})),
    *(
        bad("POST", "/v1/jobs", 400, "BAD_REQUEST", **new(SHOP, webhook=hook))
        for hook in (
            *({"url": url} for url in WRONG_URLS if "inside" not in url),
            *("https://shop.test/", [], {"url": 1}, {}, {"url": "https://shop.test/", "headers": {"Host": "a"}}),
            *({"url": "https://shop.test/", "secret": secret} for secret in ("short", 1, "a" * 10_000)),
            {"url": "https://shop.test/a b"},
        )
    ),
    # Queries.
    *(
        bad("GET", f"/v1/jobs{path}", 400, "BAD_REQUEST")
        for path in (
            *("?limit=-1", "?limit=101", "?limit=a", "?limit=1e3", "?limit=%D9%A1", "?limit=" + "1" * 5000),
            *(f"/{ID}/pages?limit=1000000", f"/{ID}/pages?after=-1"),
            *(f"/{ID}/pages?where=price:>cheap", f"/{ID}/templates?after=9999999999"),
        )
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(tmp_path_factory):
    """One server for all hostile requests, and what is in its folder: no request may change that."""
    async with open_server(tmp_path_factory.mktemp("hostile")) as (client, jobs):
        yield client, jobs


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_client_gets_a_clear_error_and_nothing_else(hostile, case):
    (client, jobs), (method, path, request_of, status, code) = hostile, case
    headers = {name: value.encode("latin-1") for name, value in request_of.get("headers", {}).items()}
    answer = await client.request(method, path, **{**request_of, "headers": headers})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.json()["success"] is False
    assert 10 < len(answer.json()["error"]) < 2_000
    assert str(jobs.folder) not in answer.text
    assert [job.id for job in jobs.all()] == [ID]
    assert {path.name for path in jobs.folder.iterdir() if path.is_dir()} == {ID}


async def test_names_of_the_operator_and_origins_of_them_are_let_in(tmp_path):
    async with open_server(tmp_path, names=["crawler.example"]) as (client, _jobs):
        for host in ("crawler.example", "Crawler.Example:443", "127.0.0.1:8787", "localhost", "[::1]:80"):
            for origin in ({}, {"Origin": f"https://{host}"}):  # type: dict[str, str]
                assert (await client.get("/v1/jobs", headers={"Host": host, **origin})).status_code == 200


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(http_guard, "BODY_SECONDS", 0.01)
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    async with open_jobs(tmp_path / "jobs") as jobs:
        headers = [(b"host", b"127.0.0.1"), (b"authorization", BEARER.encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "query_string": b"", "headers": headers}
        await create_app(jobs, TOKEN)(scope, receive, send)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (408, "TIMEOUT")


async def test_a_socket_on_which_no_request_comes_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(http_guard, "HEAD_SECONDS", 0.1)
    sock = socket.create_server(("127.0.0.1", 0))
    async with open_jobs(tmp_path / "jobs") as jobs:
        app = create_app(jobs, TOKEN)
        config = uvicorn.Config(app, http=http_guard.ImpatientProtocol, ws="none", lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([sock]))
        request = f"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {BEARER}\r\n\r\n".encode()
        for begun, answers in (
            (b"", 0),
            (b"GET / HTTP/1.1\r\nHost: 127", 0),
            (request, 1),
            (request + request[:30], 1),
        ):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(begun)
            assert (await reader.read()).count(b"HTTP/1.1 200") == answers
            writer.close()
        for bad_bytes in (b"\x16\x03\x01\x00\xa5", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"A" * 100_000):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(bad_bytes)
            assert (await reader.read()).startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))
            writer.close()
        server.should_exit = True
        await serving
