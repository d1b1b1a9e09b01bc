"""Assistants over MCP: the SDK's own client, the server in a process of its own, real crawls of sites on loopback."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.e2e.crawling import FAST, ROOT, TIMEOUT_SECONDS, environment
from tests.e2e.test_records import served
from tests.servers.record_sites import make_shop

pytestmark = pytest.mark.server
START = "import sys; from llmcrawler.commands.console import main; main()"
MOST_CALLS, MOST_TOKENS = 8, 30_000
TOKEN = "a token of these tests".replace(" ", "-")


class Agent:
    """Calls tools, and counts what that costs: a token for three bytes of an answer, more than models have."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.names: set[str] = set()
        self.calls = self.tokens = 0

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(name, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        self.names.add(name)
        self.calls += 1
        self.tokens += len(content.text.encode()) // 3
        assert not result.is_error, content.text
        return dict(result.structured_content)

    async def tool_names(self) -> set[str]:
        return {tool.name for tool in (await self._client.list_tools()).tools}

    async def end_of(self, found: dict[str, Any]) -> dict[str, Any]:
        while found["state"] in ("queued", "running"):
            found = await self("crawl_progress", job=found["job"], wait_seconds=45)
        return found

    async def rows(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor: int | None = 0
        while cursor is not None:
            part = await self(name, cursor=cursor, **arguments)
            rows += part["rows"]
            cursor = part.get("next")
        return rows


def arguments(folder: Path, command: str = "mcp", *options: str) -> list[str]:
    given = [part for name, value in FAST.items() for part in ("-s", f"{name}={value}")]
    return ["-c", START, command, f"--jobs={folder}", "--allow-private", *options, *given]


def variables() -> dict[str, str]:
    return {**environment(), "PYTHONPATH": str(ROOT), "LLMCRAWLER_TOKEN": TOKEN}


@contextlib.asynccontextmanager
async def over_stdio(folder: Path) -> AsyncIterator[Agent]:
    process = StdioServerParameters(command=sys.executable, args=arguments(folder), env=variables(), cwd=folder.parent)
    async with Client(process) as client:
        yield Agent(client)


@contextlib.contextmanager
def http_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, *arguments(folder, "serve", "--port=0")]
    with subprocess.Popen(command, stderr=PIPE, env=variables(), cwd=folder.parent, text=True) as process:
        try:
            assert process.stderr is not None
            while " is open" not in (line := process.stderr.readline()):
                assert line, "the server has ended"
            yield f"{line.split()[0]}mcp", process
        finally:
            process.terminate()
            process.stderr.read()


@contextlib.asynccontextmanager
async def asked(url: str, token: str = TOKEN) -> AsyncIterator[Agent]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield Agent(client)


@contextlib.asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[Agent]:
    with http_server(folder) as (url, _process):
        async with asked(url) as agent:
            yield agent


async def test_an_agent_takes_a_shops_products_by_few_calls_and_tokens(tmp_path):
    site = make_shop(40)
    with served(site).in_thread() as server:
        async with over_stdio(tmp_path / "jobs") as agent:
            done = await agent.end_of(await agent("start_crawl", url=server.url("/"), goal=["product"]))
            rows = await agent.rows("query_records", job=done["job"], page_type="product", fields=["title", "price"])
    found = {row["url"].removeprefix(server.url("/").rstrip("/")): row["record"] for row in rows}
    wanted = {
        page.path: {
            name: getattr(value, "value", value)
            for name, value in page.fields.items()
            if name in ("title", "price") and value is not None
        }
        for page in site.records
    }
    assert sum(found.get(path) == record for path, record in wanted.items()) >= 0.9 * len(wanted), found
    assert agent.calls <= MOST_CALLS
    assert agent.tokens <= MOST_TOKENS


@pytest.mark.nightly
@pytest.mark.parametrize("connected", [over_stdio, over_http])
async def test_every_tool_works_over_both_transports(tmp_path, connected):
    site = make_shop(18)
    with served(site).in_thread() as server:
        start, product = server.url("/"), server.url(site.records[0].path)
        async with connected(tmp_path / "jobs") as agent:
            planned = await agent("plan", url=start, goal=["product"])
            assert planned["pages"]["likely"] > 0
            crawl = await agent("start_crawl", url=start, budget={"max_pages": 60}, wait_seconds=0)
            crawl = await agent.end_of(crawl)
            assert crawl["state"] == "finished"
            job = crawl["job"]
            records = await agent.rows("query_records", job=job, page_type="product")
            assert {server.url(page.path) for page in site.records} <= {row["url"] for row in records}
            pages = await agent.rows("query_pages", job=job, limit=20)
            assert len(pages) == crawl["pages_done"] + crawl["pages_failed"]
            assert site.records[0].fields["title"] in (await agent("read_page", url=product, job=job))["text"]
            assert site.records[0].fields["title"] in (await agent("read_page", url=product))["text"]
            extracted = await agent("extract_url", url=product)
            assert extracted["record_by"] == "template"
            assert extracted["record"]["title"] == site.records[0].fields["title"]
            assert product in {row["url"] for row in (await agent("map_site", url=start))["rows"]}
            learned = (await agent("templates", job=job))["rows"]
            assert any("price" in row.get("selectors", {}) for row in learned if row.get("page_type") == "product")
            assert (await agent("stop_crawl", job=job))["state"] == "finished"
            assert agent.names == await agent.tool_names()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs"]


async def test_http_is_for_those_who_know_the_token_and_keeps_no_session(tmp_path):
    with http_server(tmp_path / "jobs") as (url, process):
        for _ in range(2):
            async with asked(url) as agent:
                assert await agent("crawl_progress") == {"jobs": []}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accepted = {"Accept": "application/json, text/event-stream"}
        known = {"Authorization": f"Bearer {TOKEN}", **accepted}
        with httpx2.Client() as http:
            statuses = [
                http.post(url, json=call, headers=headers).status_code
                for headers in (
                    accepted,
                    {**accepted, "Authorization": "Bearer " + "x" * len(TOKEN)},
                    {**accepted, "Authorization": f"Basic {TOKEN}"},
                    {**known, "Host": "rebound.example"},
                    {**known, "Origin": "https://elsewhere.example"},
                    {**known, "Content-Type": "text/plain"},
                )
            ]
        assert statuses == [401, 401, 401, 421, 403, 400]
        assert process.poll() is None


def test_standard_output_has_only_the_protocol(tmp_path):
    (tmp_path / "jobs" / ("a" * 24)).mkdir(parents=True)
    (tmp_path / "jobs" / ("a" * 24) / "job.json").write_text("{damaged")
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    calls = [
        ("query_pages", {"job": "a" * 24}),
        ("read_page", {"url": "file:///etc/passwd"}),
        ("none", {}),
        ("plan", {}),
    ]
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": given}}
            for number, (name, given) in enumerate(calls, start=1)
        ),
    ]
    process = subprocess.Popen(
        [sys.executable, *arguments(tmp_path / "jobs")],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=variables(),
        cwd=tmp_path,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers: dict[Any, dict[str, Any]] = {}
    with process:
        for text in ("no json", *map(json.dumps, messages)):
            process.stdin.write(f"{text}\n")
        process.stdin.flush()
        while len(answers) < 1 + len(calls):
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert answers[0]["result"]["serverInfo"]["name"] == "llmcrawler"
    assert [answers[number]["result"]["isError"] for number in range(1, 5)] == [False, True, True, True]


@pytest.mark.nightly
def test_ctrl_c_ends_a_server_that_waits_for_its_client(tmp_path):
    command = [sys.executable, *arguments(tmp_path / "jobs")]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=variables(), cwd=tmp_path, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == -signal.SIGINT
