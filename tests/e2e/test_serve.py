"""`llmcrawler serve` as a program: real crawls on loopback, its ends of all kinds, and the server after it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from scrapy.exceptions import UsageError

from llmcrawler.commands.serve import Command
from llmcrawler.server.jobs import DEFAULT_BUDGET, ServerJob, _store
from tests.adapters.commands.run_here import run_here
from tests.e2e.crawling import FAST, TIMEOUT_SECONDS, environment
from tests.e2e.test_console import MODULE as COMMAND
from tests.nightly import rest_by_night
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

pytestmark = pytest.mark.server
_NAME_SERVICE = Path(__file__).parent / "name_service"


class Server:
    """A server's process, and requests to it."""

    def __init__(self, folder, *options, variables=None):
        given = [part for name, value in FAST.items() for part in ("-s", f"{name}={value}")]
        self.process = subprocess.Popen(
            [*COMMAND, "serve", "--jobs", str(folder), "--port", "0", *options, *given],
            stderr=subprocess.PIPE,
            text=True,
            env={**environment(), **(variables or {})},
        )
        self.said = self.process.stderr.readline()
        self.url = self.said.partition(" ")[0]
        self.token = (folder / "token").read_text().strip() if (folder / "token").exists() else ""

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            with urlopen(Request(self.url + path, data, headers, method=method), timeout=TIMEOUT_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def json(self, path, body=None, method=None):
        status, text = self.ask(path, body, method)
        assert status < 300, text
        return json.loads(text)

    def ended(self, job):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            now = self.json(f"v1/jobs/{job['id']}")
            if now["state"] not in ("queued", "running"):
                return now
            time.sleep(0.1)
        raise AssertionError(now)

    def lines(self, job, what="pages"):
        return [json.loads(line) for line in self.ask(f"v1/jobs/{job['id']}/{what}")[1].splitlines()]

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.wait(TIMEOUT_SECONDS)
        self.process.stderr.close()
        return self.process.returncode


@contextmanager
def serving(folder, *options, **more):
    server = Server(folder, *options, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def test_a_crawl_is_asked_for_over_http_and_its_pages_come_back(tmp_path):
    pages = ManyPages(24)
    with MockSite(pages.routes()).in_thread() as site, serving(tmp_path / "jobs", "--allow-private") as server:
        assert server.said == f"{server.url} is open; the token is in {tmp_path}/jobs/token\n"
        job = server.json("v1/jobs", {"arguments": {"url": site.url("/")}, "budget": {"max_pages": 24}})
        ended = server.ended(job)
        assert (ended["state"], ended["exit_status"], ended["progress"]["pages_done"]) == ("finished", 0, 24), ended
        assert {urlsplit(line["url"]).path for line in server.lines(job)} == pages.paths
        assert all(line["record"] for line in server.lines(job, "records"))
        assert server.json(f"v1/jobs/{job['id']}/templates?limit=1")["templates"][0]["template"]
        assert server.ask(f"v1/jobs/{job['id']}", method="DELETE")[0] == 204
        assert server.ask(f"v1/jobs/{job['id']}")[0] == 404
        assert server.end() == 0
    left = sorted(path.name for path in (tmp_path / "jobs").iterdir() if path.name[0] != ".")
    assert left == ["templates.json", "token"]


@pytest.mark.parametrize("number", rest_by_night([signal.SIGKILL, signal.SIGTERM]))
def test_the_next_server_goes_on_and_no_page_is_lost(tmp_path, number):
    pages = ManyPages(120, latency_seconds=0.05)
    with MockSite(pages.routes()).in_thread() as site:
        with serving(tmp_path / "jobs", "--allow-private") as server:
            job = server.json("v1/jobs", {"arguments": {"url": site.url("/")}, "budget": {"max_pages": 120}})
            with pages.changed:
                assert pages.changed.wait_for(lambda: len(pages.answered) > 30, TIMEOUT_SECONDS)
            assert server.end(number) == (-9 if number == signal.SIGKILL else 0)
        assert len(pages.answered) < 120
        with serving(tmp_path / "jobs", "--allow-private") as server:
            ended = server.ended(job)
            lines = server.lines(job)
    assert (ended["state"], ended["exit_status"]) == ("finished", 0), ended
    found = Counter(urlsplit(line["url"]).path for line in lines)
    assert found == Counter(dict.fromkeys(pages.paths, 1))
    assert not [line for line in lines if line["error"]]
    assert len(pages.requested) < 120 + 40  # pages that were on their way are asked for again, and few others


@pytest.mark.nightly
def test_a_public_server_touches_nothing_private(tmp_path):
    with (
        MockSite({"/": "<p>Secret"}).in_thread() as site,
        serving(tmp_path / "jobs", variables={"PYTHONPATH": str(_NAME_SERVICE)}) as server,
    ):
        port = urlsplit(site.origin).port
        for host in ("127.0.0.1", "localhost", "a.inside.example"):
            status, text = server.ask("v1/jobs", {"arguments": {"url": f"http://{host}:{port}/"}})
            assert (status, json.loads(text)["code"]) == (400, "BAD_REQUEST")
        # What another server has allowed: the crawl itself refuses what may no longer be asked for.
        for number, host in enumerate(("127.0.0.1", "a.inside.example")):
            folder = tmp_path / "jobs" / f"{number:024x}"
            folder.mkdir()
            arguments = {"url": f"http://{host}:{port}/"}
            _store(ServerJob(folder.name, folder, "explore", arguments, DEFAULT_BUDGET, "api", time.time()))
            refused = server.ended({"id": folder.name})
            (line,) = server.lines(refused)
            assert (refused["state"], line["error"]["kind"]) == ("failed", "private_address"), refused
    assert not site.measures.hits


@pytest.mark.filterwarnings("ignore:unclosed <socket")  # socket.create_server leaves one, of a wrong port
@pytest.mark.parametrize(
    ("options", "variables", "told"),
    [
        (["--host", "0.0.0.0"], {}, "--host 0.0.0.0: others can reach it: set LLMCRAWLER_TOKEN to a long secret"),
        (["--port", "99999999"], {}, "--port 99999999: "),
        (["--max-pages", "0"], {}, "--max-pages 0: it is 1 or more"),
        ([], {"LLMCRAWLER_TOKEN": "short"}, "LLMCRAWLER_TOKEN: a token has 16 or more letters"),
        (["--jobs", "/dev/null/jobs"], {}, "/dev/null/jobs/token cannot be used"),
        (["there"], {}, "serve takes no 'there'"),
    ],
)
def test_wrong_options_are_said_and_nothing_is_served(tmp_path, monkeypatch, options, variables, told):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=told):
        run_here(Command(), "--jobs", tmp_path / "jobs", *options)


@pytest.mark.nightly
def test_an_operator_may_give_a_token_of_their_own(tmp_path):
    variables = {"LLMCRAWLER_TOKEN": "an-operator's-own-token"}
    with serving(tmp_path / "jobs", variables=variables) as server:
        assert server.said.endswith("the token is yours\n")
        assert not (tmp_path / "jobs" / "token").exists()
        assert server.ask("v1/jobs")[0] == 401
        server.token = variables["LLMCRAWLER_TOKEN"]
        assert server.json("v1/jobs") == {"jobs": [], "next": None}
