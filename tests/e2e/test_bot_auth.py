"""Crawls that sign their requests, as a user runs them."""

import base64
import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import crawl, explore, scrapy
from tests.e2e.test_addresses import names  # noqa: F401 - a fixture
from tests.servers.mock_site import html
from tests.servers.proxy_server import ProxyServer
from tests.servers.verifying_site import VerifyingSite

AGENT = "https://bot.example/.well-known/http-message-signatures-directory"
FILE_NAME = "http-message-signatures-directory"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "bot.pem"
    made = scrapy("keys", "new", file)
    assert made.returncode == 0, made.stderr
    return file


def directory(key: Path) -> bytes:
    return key.with_name(FILE_NAME).read_bytes()


def signed(key, **more):
    return {"BOT_AUTH_KEY": key, "BOT_AUTH_AGENT": AGENT, **more}


def verifying(key, routes=None):
    return VerifyingSite(AGENT, directory(key), routes)


def tells(key: Path, texts) -> list[str]:
    """Whether one of the texts has the key, in whatever form."""
    inner = "".join(key.read_text().splitlines()[1:-1])
    seed = base64.b64decode(inner)[-32:]
    forms = (inner, seed.hex(), base64.b64encode(seed).decode(), base64.urlsafe_b64encode(seed).decode())
    secrets = [seed, *(form.strip("=").encode() for form in forms)]
    return [text for text in texts if any(secret in text for secret in secrets)]


def test_every_request_of_a_crawl_is_signed_anew_and_the_key_stays_where_it_is(tmp_path, key):
    odd = ["/odd/500-once", "/odd/moved", "/odd/meta-refresh", "/odd/429-once", "/odd/gzip", "/a%20b;c=%C3%A9?x=%2F"]
    start = "".join(f"<a href='{path}'>{path}</a> " for path in [*odd, "/about/"])
    settings = signed(
        key,
        LOG_LEVEL="DEBUG",
        JOBDIR=tmp_path / "job",
        HTTPCACHE_ENABLED=True,
        HTTPCACHE_DIR=tmp_path / "cache",
        HTTPCACHE_IGNORE_HTTP_CODES="429,500",
    )
    with verifying(key, {"/start": start, "/a%20b;c=%C3%A9?x=%2F": "<title>Odd</title>"}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/start"), settings, depth=2)
    assert outcome.exit_status == 0, outcome.log
    assert {one.verdict for one in site.asked} == {AGENT}
    asked = [one.path for one in site.asked]
    assert {"/robots.txt", "/sitemap.xml", "/start", "/about/?moved=1", "/terms/?refreshed=1"} <= {*asked}
    assert asked.count("/odd/500-once") == asked.count("/odd/429-once") == 2
    assert "401" not in outcome.error_kinds()
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path).parts[0] for path in kept} == {"job", "cache", "feed.jsonl"}
    assert not tells(key, [outcome.log.encode(), *kept.values()])
    for path, content in kept.items():
        assert b"sig1=" not in content, path
        assert b"ignature-Input" not in content, path


def other_host(port: int, path: str) -> str:
    return f"http://third.public.example:{port}{path}"


async def robots(request):
    if request.host.startswith("third."):
        return web.Response(text="User-agent: *\nDisallow:\n")
    return web.Response(text=f"Sitemap: {other_host(request.url.port, '/list.xml')}\nSitemap: /own.xml\n")


async def sitemap(request):
    own = request.url.origin()
    return web.Response(
        text=f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>{own}/listed</loc></url></urlset>",
        content_type="application/xml",
    )


async def leads_away(request):
    return web.Response(status=302, headers={"Location": other_host(request.url.port, "/landed")})


async def gives_away(request):
    return web.Response(status=302, headers={"Location": other_host(request.url.port, "/landed.json")})


async def data(request):
    words = f"{request.host}{request.path} is made by a script, and there is enough of it here to be read."
    return web.json_response({"text": words}, headers={"Access-Control-Allow-Origin": "*"})


async def library(_request):
    return web.Response(text="window.third = 1;", content_type="application/javascript")


async def app(request):
    third = other_host(request.url.port, "")
    return html(
        f"<title>App</title><div id=root></div><script src='{third}/lib.js'></script><script>"
        f"Promise.all(['/data.json', '/away.json', '{third}/data.json'].map((url) =>"
        " fetch(url).then((answer) => answer.json())))"
        ".then((all) => { document.getElementById('root').innerHTML = all.map((one) => `<p>${one.text}`).join(''); });"
        "</script>"
    )


MANY_HOSTS = {
    "/robots.txt": robots,
    "/own.xml": sitemap,
    "/list.xml": sitemap,
    "/listed": "<title>Listed</title><p>Words",
    "/start": "<a href='/away'>Away</a> <a href='/about/'>About</a>",
    "/away": leads_away,
    "/away.json": gives_away,
    "/data.json": data,
    "/landed.json": data,
    "/landed": "<title>Landed</title><p>Words",
    "/lib.js": library,
    "/app": app,
    "/moves": leads_away,
}


@pytest.mark.nightly
@pytest.mark.usefixtures("names")
def test_hosts_outside_of_the_crawl_are_asked_without_a_signature_through_a_proxy_too(tmp_path, key):
    with verifying(key, MANY_HOSTS).in_thread() as site, ProxyServer(forward_to="127.0.0.1").in_thread() as proxy:
        start = f"http://www.public.example:{site.origin.rpartition(':')[2]}/start"
        outcome = explore(tmp_path, start, signed(key, PROXIES=proxy.url), depth=1)
    assert outcome.exit_status == 0, outcome.log
    assert {one.verdict for one in site.of_host("www.")} == {AGENT}
    assert {"/robots.txt", "/own.xml", "/start", "/away", "/about/", "/listed"} <= {
        one.path for one in site.of_host("www.")
    }
    assert {(one.path, one.verdict) for one in site.of_host("third.")} == {
        ("/robots.txt", "unsigned"),
        ("/list.xml", "unsigned"),
    }
    assert outcome.page("/away")["error"]["kind"] == "redirect_offsite"


@pytest.mark.nightly
@pytest.mark.usefixtures("names")
def test_a_host_that_a_start_url_leads_to_belongs_to_the_crawl(tmp_path, key):
    with verifying(key, MANY_HOSTS).in_thread() as site, ProxyServer(forward_to="127.0.0.1").in_thread() as proxy:
        start = f"http://www.public.example:{site.origin.rpartition(':')[2]}/moves"
        outcome = explore(tmp_path, start, signed(key, PROXIES=proxy.url), depth=0)
    assert outcome.page("/moves")["title"] == "Landed", outcome.log
    assert ("/landed", AGENT) in {(one.path, one.verdict) for one in site.of_host("third.")}


@pytest.mark.usefixtures("names")
@needs_browser
def test_a_rendered_page_signs_what_is_of_the_site_and_nothing_else(tmp_path, key):
    with verifying(key, MANY_HOSTS).in_thread() as site, ProxyServer(forward_to="127.0.0.1").in_thread() as proxy:
        start = f"http://www.public.example:{site.origin.rpartition(':')[2]}/app"
        outcome = explore(tmp_path, start, signed(key, PROXIES=proxy.url), depth=0, render="always")
    assert outcome.exit_status == 0, outcome.log
    assert outcome.page("/app")["text"].count("made by a script") == 3
    assert {(one.path, one.verdict) for one in site.of_host("www.")} == {
        ("/robots.txt", AGENT),
        ("/app", AGENT),
        ("/data.json", AGENT),
        ("/away.json", AGENT),
    }
    assert {(one.path, one.verdict) for one in site.of_host("third.")} == {
        ("/lib.js", "unsigned"),
        ("/data.json", "unsigned"),
        ("/landed.json", "unsigned"),
    }


@needs_browser
def test_a_download_that_the_browser_was_sent_to_is_signed(tmp_path, key):
    async def paper(_request):
        return web.Response(body=b"%PDF-1.4 words", headers={"Content-Disposition": "attachment; filename=a.pdf"})

    with verifying(key, {"/paper": paper}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/paper"), signed(key), depth=0, render="always")
    assert [one.path for one in site.asked].count("/paper") == 2, outcome.log  # by the browser, and without it
    assert {one.verdict for one in site.asked} == {AGENT}


@pytest.mark.nightly
def test_tasks_with_bodies_are_signed_and_the_key_may_stand_in_the_environment(tmp_path, key, monkeypatch):
    monkeypatch.setenv("BOT_AUTH_KEY", key.read_text())
    with verifying(key, {"/form": "<title>Form</title>"}).in_thread() as site:
        form = {"url": site.url("/form"), "method": "POST", "post_payload": {"q": "lamp"}}
        tasks = {"form": form, "about": {"url": site.url("/about/")}}
        (tmp_path / "tasks.json").write_text(json.dumps(tasks))
        settings = {"BOT_AUTH_AGENT": AGENT, "LOG_LEVEL": "DEBUG", "BOT_AUTH_AGENT_AS_STRING": True}
        outcome = crawl("extract", tmp_path, {"tasks": tmp_path / "tasks.json"}, settings)
    assert [page["error"] for page in outcome.pages] == [None, None], outcome.log
    assert {(one.method, one.verdict) for one in site.asked} == {("GET", AGENT), ("POST", AGENT)}
    assert not tells(key, [outcome.log.encode(), (tmp_path / "feed.jsonl").read_bytes()])
