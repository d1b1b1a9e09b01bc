"""`scrapy crawl explore` through real proxies, as a user runs it."""

import base64
import json
import subprocess

import pytest
from aiohttp import web
from scrapy.exceptions import UsageError

from llmcrawler.commands.proxies import Command
from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.adapters.commands.run_here import run_here
from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS, environment, explore
from tests.nightly import rest_by_night
from tests.servers.certificates import server_context
from tests.servers.mock_site import MockSite
from tests.servers.proxy_server import (
    FORBIDDEN,
    ProxyServer,
    answer,
    dead_proxy,
)
from tests.servers.serving import all_in_thread


def through(*proxies: str) -> dict[str, object]:
    return {"PROXIES": ",".join(proxies)}


LOGIN = "customer-17:pass%2Fword-99"
SECRETS = ("customer-17", "pass/word-99", "pass%2Fword-99", base64.b64encode(b"customer-17:pass/word-99").decode())


def with_login(proxy: ProxyServer, login: str = LOGIN) -> str:
    return proxy.url.replace("://", f"://{login}@")


def tells_secrets(outcome) -> list[str]:
    return [secret for secret in SECRETS if secret in outcome.log + json.dumps(outcome.items)]


def test_a_proxy_gets_its_credentials_and_nobody_else_does(tmp_path):
    seen: list[str] = []

    async def note(request: web.Request) -> web.Response:
        seen.append(str(request.headers))
        return web.Response(text="<title>Page</title>", content_type="text/html")

    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": tmp_path / "cache", "LOG_LEVEL": "DEBUG"}
    with (
        MockSite({"/note": note}).in_thread() as site,
        ProxyServer(credentials="customer-17:pass/word-99").in_thread() as proxy,
    ):
        outcome = explore(tmp_path, site.url("/note"), through(with_login(proxy)) | cache, depth=0)
        assert outcome.page("/note")["title"] == "Page", outcome.log
    assert len(proxy.targets) == 2
    assert not tells_secrets(outcome)
    assert "Proxy-Authorization" not in seen[0]
    kept = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert kept
    assert not [secret for secret in SECRETS for content in kept if secret.encode() in content]


@pytest.mark.parametrize("tls", rest_by_night([False, True]))
def test_wrong_credentials_end_the_crawl_with_the_reason(tmp_path, tls):
    certificate = server_context(tmp_path) if tls else None
    with MockSite(tls=certificate).in_thread() as site, ProxyServer(credentials="other:one").in_thread() as proxy:
        settings = through(with_login(proxy)) | {"PROXY_REST_SECONDS": 0, "LOG_LEVEL": "DEBUG"}
        outcome = explore(tmp_path, site.url("/about/"), settings, depth=0)
    assert outcome.exit_status == 1
    assert outcome.error_kinds() == {"no_proxy": 1}
    assert "1 of 1 dropped (1 credentials refused)" in outcome.page("/about/")["error"]["message"]
    assert "The crawl ends: no proxy is left" in outcome.log
    assert "Traceback" not in outcome.log
    assert not tells_secrets(outcome)
    assert site.measures.hits.total() == 0


def test_https_pages_come_through_a_tunnel_with_credentials(tmp_path):
    bad = ProxyServer(FORBIDDEN)
    good = ProxyServer(credentials="customer-17:pass/word-99")
    with MockSite(tls=server_context(tmp_path)).in_thread() as site, all_in_thread(good, bad):
        settings = through(dead_proxy(), bad.url, with_login(good))
        outcome = explore(
            tmp_path, site.url(), settings | {"DOWNLOAD_VERIFY_CERTIFICATES": False, "LOG_LEVEL": "DEBUG"}
        )
    assert outcome.exit_status == 0, outcome.log
    assert not outcome.error_kinds()
    assert len(outcome.pages) > 40
    assert set(good.targets) == {site.origin.removeprefix("https://")}
    assert "'llmcrawler/politeness/proxies/dropped': 2" in outcome.log
    assert not tells_secrets(outcome)


@pytest.mark.nightly
def test_a_proxy_that_talks_without_end_opens_no_tunnel(tmp_path):
    endless = ProxyServer(b"HTTP/1.1 200 OK\r\n" + b"X-Header: some value\r\n" * 500_000)
    with MockSite(tls=server_context(tmp_path)).in_thread() as site, endless.in_thread():
        outcome = explore(tmp_path, site.url("/about/"), through(endless.url) | {"PROXY_REST_SECONDS": 0}, depth=0)
    assert outcome.error_kinds() in ({"proxy": 1}, {"no_proxy": 1})
    assert "Traceback" not in outcome.log


def test_no_proxy_left_ends_the_crawl(tmp_path, site):
    outcome = explore(tmp_path, site.url(), through(dead_proxy(), dead_proxy()) | {"PROXY_REST_SECONDS": 0})
    assert outcome.exit_status == 1
    assert outcome.error_kinds() == {"no_proxy": 1}
    assert "2 of 2 dropped (2 dead)" in outcome.log
    assert "Traceback" not in outcome.log
    assert site.measures.hits.total() == 0


@pytest.mark.nightly
def test_the_last_proxys_end_is_told_also_when_its_page_is_the_last(tmp_path):
    banned = ProxyServer(answer("407 Proxy Authentication Required"), only_after=1)  # robots.txt still came
    with MockSite().in_thread() as site, banned.in_thread():
        outcome = explore(tmp_path, site.url("/about/"), through(banned.url) | {"PROXY_REST_SECONDS": 0}, depth=0)
    assert outcome.error_kinds() == {"no_proxy": 1}
    assert outcome.log.count("The crawl ends: no proxy is left") == 1
    assert outcome.exit_status == 1


def test_robots_txt_and_sitemaps_come_through_proxies_too(tmp_path, site):
    with ProxyServer().in_thread() as proxy:
        explore(tmp_path, site.url(), through(proxy.url), max_pages=3)
    assert sum(site.measures.hits.values()) == len(proxy.targets)
    assert site.url("/robots.txt") in proxy.targets
    assert site.url("/sitemap.xml") in proxy.targets


VALIDATOR = {"VALIDATE_RESPONSE": "tests.e2e.own_checks.validate", "RETRY_TIMES": 2}


def shell_for(times: int):
    tries = []

    async def shell(_request):
        tries.append(1)
        text = "<title>Page</title>" if len(tries) > times else "<p>Loading</p>"
        return web.Response(text=text, content_type="text/html")

    return shell


@pytest.mark.nightly
def test_what_the_validator_refuses_is_fetched_again(tmp_path):
    with MockSite({"/late": shell_for(2), "/never": shell_for(99)}).in_thread() as site:
        never = explore(tmp_path, site.url("/never"), VALIDATOR, depth=0)
        late = explore(tmp_path, site.url("/late"), VALIDATOR, depth=0)
    assert late.page("/late")["title"] == "Page"
    assert never.page("/never")["error"] == {
        "stage": "fetch",
        "kind": "validation",
        "message": "not the page: an empty shell",
        "attempts": 3,
    }
    assert never.page("/never")["text"] is None
    assert never.exit_status == ExitStatus.UNREACHABLE


def proxies_command(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    parts = ["proxies", *arguments]
    for name, value in settings.items():
        parts += ["-s", f"{name}={value}"]
    return warm.run(parts, environment(), TIMEOUT_SECONDS)


def test_scrapy_proxies_check_prints_which_of_them_work(site):
    with ProxyServer(credentials="customer-17:pass/word-99").in_thread() as good:
        done = proxies_command("check", site.url("/about/"), PROXIES=f"{with_login(good)},{dead_proxy()}")
        none = proxies_command("check", site.url("/about/"), PROXIES=dead_proxy())
    first, second, total = done.stdout.splitlines()
    assert first.startswith(good.url)
    assert first.endswith("works")
    assert "ConnectError" in second
    assert total == "1 of 2 work"
    assert done.returncode == 0
    assert none.returncode == 1
    assert not [secret for secret in SECRETS if secret in done.stdout + done.stderr]


@pytest.mark.parametrize(
    ("arguments", "settings", "named"),
    [
        (("check",), {}, "scrapy proxies check https://"),
        (("check", "https://example.com/"), {}, "set PROXIES, PROXIES_FILE or PROXY_PROVIDER"),
        (("check", "https://example.com/"), {"PROXY_PROVIDER": "iproyal"}, "PROXY_IPROYAL_KEY"),
    ],
)
def test_scrapy_proxies_says_what_is_missing(arguments, settings, named):
    with pytest.raises(UsageError, match=named):
        run_here(Command(), *arguments, *(f"-s{name}={value}" for name, value in settings.items()))
