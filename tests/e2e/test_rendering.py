"""Single-page apps, with a real browser where there is one."""

import json
from collections import Counter

import pytest
from aiohttp import web

from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import explore
from tests.servers.app_site import ITEMS, SHELL, AppSite
from tests.servers.mock_site import MockSite, html
from tests.servers.proxy_server import ProxyServer


@pytest.fixture
def site():
    with AppSite().in_thread() as site:
        yield site


@needs_browser
def test_an_app_is_crawled_by_the_browser_and_the_plain_pages_beside_it_are_not(tmp_path, site):
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    outcome = explore(
        tmp_path, f"{site.url('/app/')},{site.url('/hash/')}", cache, allow="/(app|hash|plain|half)/", duplicates="keep"
    )
    assert outcome.exit_status == 0, outcome.log
    pages = {page["url"].removeprefix(site.origin): page for page in outcome.pages}
    routes = [path for path in pages if path.startswith("/hash/")]
    assert sorted(routes) == ["/hash/", "/hash/#/lamps", "/hash/#/press", "/hash/#/team"]
    assert "lamps pages are all behind" in pages["/hash/#/lamps"]["text"]
    assert {pages[path]["final_url"] for path in routes} == {None}
    assert {f"/app/item/{number}" for number in range(1, ITEMS + 1)} <= pages.keys()
    assert {"/app/team", "/app/contact"} <= pages.keys()  # no HTML has these links
    assert all(page["error"] is None and len(page["text"]) > 50 for page in outcome.pages)
    assert "$7.00" in pages["/app/item/7"]["text"]
    assert len({pages[f"/app/item/{number}"]["template"] for number in range(1, ITEMS + 1)}) == 1
    hits = site.measures.hits
    assert hits["/app/photo.png"] == hits["/icon.png"] == 0
    assert hits["/app/app.js"] <= 5  # the browser keeps it
    assert {hits[f"/plain/{number}"] for number in range(1, 6)} == {1}
    assert "workshop" in pages["/half/2"]["text"]
    assert site.measures.max_in_flight <= 5
    assert len(site.measures.user_agents) == 1


def test_a_plain_crawl_opens_no_browser(tmp_path, site):
    outcome = explore(tmp_path, site.url("/plain/"))
    assert outcome.exit_status == 0
    assert "playwright" not in outcome.log
    assert "rendering" not in outcome.log


def test_without_rendering_an_app_is_an_empty_shell_that_says_so(tmp_path, site):
    outcome = explore(tmp_path, site.url("/app/"), render="never")
    assert [page["error"]["kind"] for page in outcome.pages] == ["empty_shell"]
    assert "render=auto" in outcome.pages[0]["error"]["message"]


def test_without_a_browser_the_crawl_goes_on_and_the_log_says_how_to_get_one(tmp_path, site):
    outcome = explore(tmp_path, site.url("/half/"), {"PLAYWRIGHT_EXECUTABLE": "false"}, allow="/half/")
    assert outcome.exit_status == 0
    assert outcome.log.count("apt-get install chromium") == 1
    assert not outcome.error_kinds() - Counter(empty_shell=5)
    assert len(outcome.pages) == 6


@needs_browser
def test_a_list_that_grows_is_scrolled_as_far_as_it_is_asked_for(tmp_path, site):
    outcome = explore(tmp_path, site.url("/feed"), {"RENDER_SCROLLS": 5}, render="always", depth=0)
    (page,) = outcome.pages
    assert all(f"Entry {number}" in page["text"] for number in (0, 1, 2, 10, 12, 22))


@needs_browser
def test_a_button_that_loads_more_is_pressed_where_that_is_asked_for_and_named_elsewhere(tmp_path, site):
    outcome = explore(tmp_path, site.url("/products"), {"RENDER_SCROLLS": 5}, allow="/plain/p")
    assert all(f"Lamp {number}" in outcome.page("/products")["text"] for number in (0, 9, 10, 29))
    assert len(outcome.pages) == 31
    assert "loads more" not in outcome.log
    outcome = explore(tmp_path, site.url("/products"), allow="/plain/p")
    assert len(outcome.pages) == 11
    assert "1 page with a button that loads more of a list, which was not pressed" in outcome.log


@needs_browser
def test_a_rendered_body_is_what_a_job_keeps(tmp_path, site):
    job = {"JOBDIR": str(tmp_path / "job")}
    first = explore(tmp_path, site.url("/app/items"), job, depth=0)
    asked = sum(site.measures.hits.values())
    again = explore(tmp_path, site.url("/app/items"), job, depth=0, force="content")
    assert sum(site.measures.hits.values()) == asked
    assert first.pages[0]["text"] == again.pages[0]["text"]
    assert "Item 12" in again.pages[0]["text"]


@needs_browser
def test_a_rendered_page_of_a_private_start_reaches_no_other_port_of_its_host(tmp_path):
    tries = """<script>
        const tries = [
          fetch("/own", {method: "POST", body: "x"}),
          fetch("http://PLACE/secret/post", {method: "POST", mode: "no-cors", body: "x"}),
          fetch("/to-secret", {mode: "no-cors"}),
          new Promise((resolve) => { const socket = new WebSocket("ws://PLACE/secret/socket");
            socket.onerror = resolve; socket.onopen = resolve; }),
          new Promise((resolve) => { const events = new EventSource("http://PLACE/secret/events");
            events.onerror = resolve; events.onopen = resolve; }),
          new Promise((resolve) => { const worker = new Worker(URL.createObjectURL(new Blob([
            "fetch('http://PLACE/secret/worker', {mode: 'no-cors'}).finally(() => postMessage(1))"])));
            worker.onmessage = resolve; worker.onerror = resolve; }),
        ];
        navigator.sendBeacon("http://PLACE/secret/beacon", "x");
        for (const rel of ["prefetch", "preconnect", "preload", "prerender", "stylesheet"]) {
          const link = document.createElement("link");
          Object.assign(link, {rel: rel, href: "http://PLACE/secret/" + rel, as: "fetch"});
          document.head.append(link);
        }
        const frame = document.createElement("iframe");
        frame.src = "http://PLACE/secret/frame";
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, {method: "POST", action: "http://PLACE/secret/form", target: "_blank"});
        document.body.append(form);
        form.submit();
        window.open("http://PLACE/secret/window");
        Promise.allSettled(tries).then((ends) => {
          const words = ends.map((end) => end.status).join(" ");
          document.getElementById("root").innerHTML = "<h1>All was tried</h1><p>" + words + "</p>";
        });
        </script>"""

    with AppSite().in_thread() as other:
        place = other.origin.partition("//")[2]

        async def pry(_request):
            return html(SHELL.replace('<script src="/app/app.js"></script>', tries.replace("PLACE", place)))

        async def to_secret(_request):
            raise web.HTTPFound(other.url("/secret/redirect"))

        async def own(_request):
            return web.Response(text="mine")

        with AppSite(routes={"/pry": pry, "/to-secret": to_secret, "/own": own}).in_thread() as site:
            outcome = explore(tmp_path, site.url("/pry"), depth=0)
            # A start of its own is open to itself, and closed to the others all the same.
            both = explore(tmp_path, f"{site.url('/pry')},{other.url('/app/item/3')}", depth=0)
    assert outcome.exit_status == 0, outcome.log
    assert "fulfilled rejected rejected fulfilled fulfilled fulfilled" in outcome.page("/pry")["text"]
    assert "$3.00" in both.page("/app/item/3")["text"]
    assert site.measures.hits["/own"] == 2
    assert [path for path in other.measures.hits if path.startswith("/secret")] == []


@needs_browser
def test_a_rendered_page_and_all_that_it_asks_for_come_through_the_proxy(tmp_path, site):
    with ProxyServer(credentials="me:secret").in_thread() as proxy:
        proxies = {"PROXIES": proxy.url.replace("//", "//me:secret@")}
        outcome = explore(tmp_path, site.url("/app/item/3"), proxies, depth=0)
    assert outcome.exit_status == 0, outcome.log
    assert "$3.00" in outcome.pages[0]["text"]
    assert Counter(target.removeprefix(site.origin) for target in proxy.targets) == site.measures.hits
    assert site.measures.hits["/app/api/items/3"] == 1
    assert "secret" not in outcome.log


@needs_browser
def test_what_is_refused_to_a_rendered_page_puts_the_page_back(tmp_path):
    asked = []

    async def busy_once(request):
        asked.append(request.path)
        if len(asked) == 1:
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.json_response({"name": "Item 1", "price": "$1.00", "text": ""})

    with AppSite(routes={"/app/api/items/1": busy_once}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/app/item/1"), {"AUTOTHROTTLE_ENABLED": True}, depth=0)
    assert "$1.00" in outcome.pages[0]["text"]
    assert len(asked) == 2
    assert "put_back/status/429" in outcome.log


@needs_browser
def test_a_page_that_ends_early_is_an_error_and_holds_up_no_other(tmp_path):
    with MockSite().in_thread() as site:
        urls = f"{site.url('/odd/truncated')},{site.url('/')}"
        outcome = explore(tmp_path, urls, {"RETRY_TIMES": 1}, depth=0, render="always")
    assert outcome.page("/odd/truncated")["error"]["kind"] == "truncated"
    assert outcome.page("/")["error"] is None


@needs_browser
def test_a_rendered_page_may_name_any_codec(tmp_path):
    """One that takes quadratic time, one that always fails, and one that is none for text."""

    async def page(request):
        codec = request.path.removeprefix("/codec/")
        text = (
            f"<!doctype html><meta charset={codec}><title>Käse</title><p>{'A kettle. ' * 50}<i hidden>-{'a0' * 300_000}"
        )
        return web.Response(body=text.encode(), headers={"Content-Type": f"text/html; charset={codec}"})

    codecs = ("punycode", "undefined", "rot13")
    with AppSite(routes={"/codec/*": page}).in_thread() as site:
        urls = ",".join(site.url(f"/codec/{codec}") for codec in codecs)
        outcome = explore(tmp_path, urls, depth=0, render="always", duplicates="keep")
    assert outcome.exit_status == 0, outcome.log
    assert [outcome.page(f"/codec/{codec}")["error"] for codec in codecs] == [None] * 3
    assert all("kettle" in page["text"] for page in outcome.pages)


@needs_browser
def test_headers_and_cookies_of_the_users_own_go_with_every_request_and_are_kept_nowhere(tmp_path):
    (tmp_path / "headers").write_text("X-Key: s3cret-1\n")
    (tmp_path / "cookies.txt").write_text("127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\ts3cret-2\n")
    asked = {}

    def closed(body, content_type="text/html"):
        async def answer(request):
            asked[request.path] = request.headers.get("X-Key"), request.cookies.get("sid")
            return web.Response(text=body, content_type=content_type)

        return answer

    page = "<main id=app></main><script>fetch('/data').then(a => a.text()).then(t => { app.innerHTML = t; })</script>"
    text = f"<p>{'Members read what others do not. ' * 20}</p>"
    routes = {"/": closed(page), "/data": closed(text), "/robots.txt": closed("User-agent: *", "text/plain")}
    own = {name: str(tmp_path / file) for name, file in (("headers", "headers"), ("cookies", "cookies.txt"))}
    feeds = {"FEEDS": json.dumps({str(tmp_path / "pages.warc"): {"format": "warc"}}), "JOBDIR": tmp_path / "job"}
    with MockSite(routes).in_thread() as site:
        outcome = explore(tmp_path, site.url("/"), feeds, depth=0, **own)
    assert "Members read" in outcome.pages[0]["text"]
    assert asked == dict.fromkeys(routes, ("s3cret-1", "s3cret-2"))
    assert "s3cret" not in outcome.log
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert sorted(kept) == ["cookies.txt", "headers"]
    assert (tmp_path / "pages.warc").read_bytes().count(b"Members read")
