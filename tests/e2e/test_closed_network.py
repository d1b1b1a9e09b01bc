"""A crawl asks the site and the model, and nobody else: it ends normally where all the rest is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import ROOT, explore
from tests.e2e.test_records import served
from tests.servers.app_site import AppSite
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import html
from tests.servers.record_sites import make_shop
from tests.servers.teacher import answer_from_truth

_FIREWALL = Path(__file__).parent / "firewall"
# Python's own event loop connects through Python's sockets, where the firewall sees it.
_SEEN = {"ASYNCIO_EVENT_LOOP": os.environ.get("CLOSED_NETWORK_LOOP", "asyncio.SelectorEventLoop")}
_COOKIES = (
    "plain=1",
    "whole_site=1; Domain=127.0.0.1; Path=/",
    "of_a_suffix=1; Domain=co.uk",
    "elsewhere=1; Domain=.shop.example.co.uk; Max-Age=1000; Secure",
)


@pytest.fixture
def firewall(tmp_path, monkeypatch):
    """What was refused."""
    log = tmp_path / "firewall.log"
    log.touch()
    monkeypatch.setenv("FIREWALL_LOG", str(log))
    monkeypatch.setenv("PYTHONPATH", str(_FIREWALL))
    monkeypatch.setenv("TLDEXTRACT_CACHE", str(tmp_path / "suffixes"))  # not what an earlier run has fetched
    return lambda: log.read_text().splitlines()


async def with_cookies(_request: web.Request) -> web.Response:
    response = html('<title>Start</title><h1>Start</h1><a href="/">the shop</a><p>A shop that sets cookies.</p>')
    for cookie in _COOKIES:
        response.headers.add("Set-Cookie", cookie)
    return response


def test_the_firewall_refuses_what_is_not_here(firewall):
    script = "import socket\ntry: socket.create_connection(('192.0.2.1', 80))\nexcept OSError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "refuses 192.0.2.1" in done.stdout
    assert firewall() == ["socket.getaddrinfo 192.0.2.1"]


def test_a_crawl_with_cookies_records_and_a_job_asks_nobody_else(tmp_path, firewall):
    site = make_shop(18)
    server = served(site, **{"/start/": with_cookies})
    with server.in_thread(), FakeLLM(answer_from_truth(site.truth())).in_thread() as llm:
        model = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "JOBDIR": str(tmp_path / "job")}
        outcome = explore(tmp_path, server.url("/start/"), _SEEN | model)
    assert outcome.exit_status == 0, outcome.log
    assert len(outcome.pages) > 40
    assert sum(page["record"] is not None for page in outcome.pages) > 10
    assert outcome.error_kinds() == {"http_404": 1}  # a link of the site's
    assert firewall() == []


@needs_browser
def test_a_rendered_crawl_asks_nobody_else(tmp_path, firewall):
    with AppSite().in_thread() as site:
        outcome = explore(tmp_path, site.url("/app/"), _SEEN, max_pages=5)
    assert outcome.exit_status == 0, outcome.log
    assert not outcome.error_kinds()
    assert firewall() == []


@pytest.mark.nightly
def test_a_crawl_ends_normally_where_there_is_no_network_but_loopback():
    """The same crawls in a network namespace, which holds for sockets of every kind: uvloop's and the browser's too."""
    unshare = shutil.which("unshare")
    own = [] if unshare is None else [unshare, "-n"] if os.geteuid() == 0 else [unshare, "-rn"]
    if not own or subprocess.run([*own, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    inner = [sys.executable, *"-m pytest -q -n 0 -p no:cacheprovider -k asks_nobody_else".split()]
    script = 'ip link set lo up && exec "$@"'
    done = subprocess.run(
        [*own, "sh", "-c", script, "sh", *inner, __file__],
        cwd=ROOT,
        env={**os.environ, "CLOSED_NETWORK_LOOP": "uvloop.Loop"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
