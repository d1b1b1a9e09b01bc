"""`scrapy crawl` stays out of private networks, whoever leads it there."""

from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from tests.e2e.crawling import crawl, explore
from tests.nightly import rest_by_night
from tests.servers.mock_site import MockSite, html
from tests.servers.proxy_server import ProxyServer

# Set there and nowhere else, so that one process that has loaded the project is forked for all tests (warm.py).
_NAME_SERVICE = Path(__file__).parent / "name_service"


@pytest.fixture
def names(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(_NAME_SERVICE))


def to(host: str, path: str = "/secret"):
    async def redirect(request):
        return web.Response(status=302, headers={"Location": f"http://{host}:{request.url.port}{path}"})

    return redirect


@pytest.mark.parametrize("where", rest_by_night(["environment", "setting"]))
def test_a_proxy_is_no_way_around_the_check_of_names(tmp_path, names, monkeypatch, where):
    async def robots(request):
        return web.Response(text=f"Sitemap: http://map.inside.example:{request.url.port}/secret.xml")

    routes = {
        "/go": to("inside.example"),
        "/robots.txt": robots,
        "/fine": "<title>Fine</title><p>Words",
        "/start": "<p>Ours",
    }
    with MockSite(routes).in_thread() as site, ProxyServer(forward_to="127.0.0.1").in_thread() as proxy:
        port = site.origin.rpartition(":")[2]
        settings = {"PROXIES": proxy.url} if where == "setting" else {}
        if where == "environment":
            monkeypatch.setenv("http_proxy", proxy.url)
        start = f"http://www.public.example:{port}/go,http://www.public.example:{port}/fine,{site.url('/start')}"
        outcome = explore(tmp_path, start, settings, depth=1, max_pages=5)
    assert outcome.exit_status == 0, outcome.log
    assert outcome.page("/fine")["error"] is None
    error = outcome.page("/go")["error"]
    assert (error["kind"], error["attempts"]) == ("private_address", 1)
    assert "inside.example is 127.0.0.1" in error["message"]
    assert proxy.targets
    assert not [target for target in proxy.targets if "inside.example" in target]


def test_a_name_that_is_refused_as_private_says_so_and_is_not_tried_again(tmp_path, names):
    with MockSite({"/secret": "<title>Secret</title>"}).in_thread() as site:
        port = site.origin.rpartition(":")[2]
        outcome = explore(tmp_path, f"http://www.inside.example:{port}/secret", depth=0)
    error = outcome.page("/secret")["error"]
    assert (error["kind"], error["attempts"]) == ("private_address", 1)
    assert "127.0.0.1" in error["message"]
    assert not site.measures.hits
    assert "retry/count" not in outcome.log


@pytest.mark.nightly
def test_no_proxy_is_honoured(tmp_path, names, monkeypatch):
    with MockSite({"/go": to("inside.example")}).in_thread() as site, ProxyServer().in_thread() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1,inside.example")
        outcome = explore(tmp_path, site.url("/go"), depth=0)
    assert outcome.error_kinds() == {"private_address": 1}
    assert not proxy.targets


def mixed(tmp_path, names, monkeypatch, settings=None, **arguments):
    """A crawl of a public and of a private start, whose pages lead into each other; and what the proxy was asked for.

    Both are one server: the host that is asked for tells them apart.
    """

    async def front(request):
        port = request.url.port
        inside, elsewhere = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other.origin.rpartition(':')[2]}"
        if request.host.startswith("127.0.0.1"):
            links = ["/inside/both", "/inside/own", f"{elsewhere}/port", f"http://localhost:{port}/name"]
        else:
            links = [f"{inside}/inside/both", f"{inside}/inside/linked", f"{elsewhere}/port", "/out", "/go", "/refresh"]
        return web.Response(
            text=f"<base href='{inside}/' ><link rel=canonical href='{inside}/inside/canonical'>"
            + "".join(
                f"<p><a href='{link if '://' in link else request.url.origin().join(URL(link))}'>x</a>"
                for link in links
            ),
            content_type="text/html",
        )

    async def robots(request):
        map_url = f"http://127.0.0.1:{request.url.port}/inside/sitemap.xml"
        return web.Response(text=f"Sitemap: {map_url}\nSitemap: {request.url.origin()}/sitemap.xml")

    async def sitemap(request):
        inside = f"http://127.0.0.1:{request.url.port}/inside"
        path = "own-listed" if request.host.startswith("127.0.0.1") else "listed"
        return web.Response(text=f"<urlset><url><loc>{inside}/{path}</loc></url></urlset>", content_type="text/xml")

    async def refresh(request):
        return html(f"<meta http-equiv=refresh content='0; url=http://127.0.0.1:{request.url.port}/inside/refreshed'>")

    page = "<title>A page</title><p>Words of a page"
    paths = ("both", "own", "linked", "listed", "own-listed", "redirected", "refreshed", "canonical")
    routes = {f"/inside/{path}": page for path in paths} | {
        "/": front,
        "/out": page,
        "/go": to("127.0.0.1", "/inside/redirected"),
        "/refresh": refresh,
        "/robots.txt": robots,
        "/sitemap.xml": sitemap,
        "/inside/sitemap.xml": sitemap,
    }
    with (
        MockSite({"/port": page}).in_thread() as other,
        MockSite(routes).in_thread() as site,
        ProxyServer(forward_to="127.0.0.1").in_thread() as proxy,
    ):
        port = site.origin.rpartition(":")[2]
        monkeypatch.setenv("http_proxy", proxy.url)
        starts = f"http://www.public.example:{port}/,http://127.0.0.1:{port}/"
        outcome = crawl("explore", tmp_path, {"url": starts, **arguments}, settings or {})
    assert not other.measures.hits
    return outcome, proxy.targets, port


def test_pages_of_a_public_site_lead_nowhere_into_a_private_start(tmp_path, names, monkeypatch):
    outcome, targets, port = mixed(tmp_path, names, monkeypatch)
    assert outcome.exit_status == 0, outcome.log
    inside = {target.partition("/inside/")[2] for target in targets if "127.0.0.1" in target and "/inside/" in target}
    assert inside == {"both", "own", "own-listed", "sitemap.xml"}
    by_url = {page["url"]: page for page in outcome.pages}
    assert len(by_url) == len(outcome.pages)
    assert by_url[f"http://127.0.0.1:{port}/inside/both"]["referer"] == f"http://127.0.0.1:{port}/"
    assert by_url[f"http://www.public.example:{port}/out"]["error"] is None
    for path in ("go", "refresh"):
        assert by_url[f"http://www.public.example:{port}/{path}"]["error"]["kind"] == "private_address"


@pytest.mark.parametrize("host", rest_by_night(["127.0.0.1", "localhost"]))
def test_a_private_start_is_not_redirected_to_another_port_or_name(tmp_path, host):
    with MockSite({"/port": "<title>Secret</title>"}).in_thread() as other:
        port = int(other.origin.rpartition(":")[2])

        async def go(_request):
            return web.Response(status=302, headers={"Location": f"http://{host}:{port}/port"})

        with MockSite({"/go": go}).in_thread() as site:
            outcome = explore(tmp_path, site.url("/go"), depth=0)
            mapped = crawl("map", tmp_path, {"url": site.url("/go")}, {})
    assert outcome.error_kinds() == {"private_address": 1}
    assert f"{host}:{port}" in outcome.page("/go")["error"]["message"]
    assert {item["url"].split("/")[2] for item in mapped.items} == {site.origin.split("/")[2]}
    assert not other.measures.hits


def test_a_crawl_of_named_hosts_is_led_to_no_other(tmp_path):
    routes = {"/": "<p>Words<a href='/go'>a</a><a href='/fine'>b</a>", "/go": to("public.example"), "/fine": "<p>Fine"}
    with MockSite(routes).in_thread() as site:
        start = f"{site.url('/')},{site.url('/go')}"
        outcome = explore(tmp_path, start, {"ONLY_HOSTS": "127.0.0.1"}, max_pages=5)
        (tmp_path / "refused").mkdir()
        refused = explore(tmp_path / "refused", site.url("/fine"), {"ONLY_HOSTS": "*"})
    assert outcome.exit_status == 0, outcome.log
    assert outcome.page("/fine")["error"] is None
    error = outcome.page("/go")["error"]
    assert (error["kind"], error["attempts"]) == ("redirect_offsite", 1)
    assert "public.example is not among ONLY_HOSTS" in error["message"]
    assert (refused.exit_status, *refused.error_kinds()) == (4, "private_address")
