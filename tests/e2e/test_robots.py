"""What robots.txt forbids is never fetched, whatever becomes of the crawl; and files that are made to do harm."""

import gzip

import pytest
from aiohttp import web

from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import explore, scrapy
from tests.servers.app_site import AppSite
from tests.servers.listed_site import index
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite, html

COUNT = 200
FORBIDDEN = "/item/1"  # and all that begin so
RULES = f"User-agent: *\nDisallow: {FORBIDDEN}\n"
WIDE = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}
QUICK_RESTS = {"THROTTLE_BREAKER_REST_SECONDS": 0.2}


@pytest.fixture
def pages():
    return ManyPages(COUNT, latency_seconds=0.02)


@pytest.fixture
def site(pages):
    with MockSite({**pages.routes(), "/robots.txt": RULES}).in_thread() as site:
        yield site


def allowed(pages):
    return {path for path in pages.paths if not path.startswith(FORBIDDEN)}


def test_nothing_forbidden_is_fetched_with_many_requests_in_flight(tmp_path, pages, site):
    outcome = explore(tmp_path, site.url(), WIDE, max_pages=1000)
    assert set(pages.requested) == allowed(pages)
    assert outcome.error_kinds() == {"robots": len(pages.paths - allowed(pages))}


@needs_browser
def test_nothing_forbidden_is_fetched_by_the_browser(tmp_path):
    tries = "".join(f'<img src="/shut/{n}.png"><script src="/shut/{n}.js"></script>' for n in range(5))
    links = "".join(f'<a href="/{place}/{n}">{n}</a>' for n in range(10) for place in ("open", "shut"))
    script = """<script>fetch("/shut/fetched"); const frame = document.createElement("iframe");
        frame.src = "/shut/frame"; document.body.append(frame);</script>"""

    async def page(_request):
        return html(f"<title>A page</title><p>Words of a page{tries}{links}{script}")

    async def to_shut(_request):
        return html("<title>Away</title><script>location.href = '/shut/by-script'</script>")

    routes = {"/": page, "/open/*": page, "/open/9": to_shut, "/shut/*": page}
    with AppSite(routes={**routes, "/robots.txt": "User-agent: *\nDisallow: /shut/\n"}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), WIDE, render="always", depth=1)
    assert not [path for path in site.measures.hits if path.startswith("/shut")]
    assert site.measures.hits["/open/0"]
    assert outcome.error_kinds()["robots"] >= 10


@needs_browser
def test_the_browser_fetches_nothing_of_a_host_whose_robots_txt_cannot_be_had(tmp_path):
    with AppSite(routes={"/robots.txt": unavailable}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/app/"), QUICK_RESTS, render="always", depth=0)
    assert site.measures.hits.keys() == {"/robots.txt"}
    assert outcome.error_kinds() == {"robots_unreachable": 1}


# -- robots.txt that cannot be had -------------------------------------------------------------------------------------


async def unavailable(_request):
    return web.Response(status=500)


def test_pages_of_a_host_without_its_robots_txt_are_dead_letters_that_requeue_brings_back(tmp_path):
    is_back: list[bool] = []

    async def robots(_request):
        return web.Response(text="User-agent: *\nDisallow: /terms/\n") if is_back else web.Response(status=500)

    settings = {**QUICK_RESTS, "JOBDIR": tmp_path / "job"}
    with MockSite({"/robots.txt": robots}).in_thread() as site:
        starts = f"{site.url('/about/')},{site.url('/terms/')}"
        outcome = explore(tmp_path, starts, settings, depth=0)
        assert outcome.error_kinds() == {"robots_unreachable": 2}
        assert outcome.exit_status == 4
        assert "its robots.txt cannot be fetched" in outcome.page("/about/")["error"]["message"]
        assert (
            outcome.log.count("cannot be fetched, so nothing else is fetched from this host until it can: 500 Internal")
            == 1
        )
        assert site.measures.hits.keys() == {"/robots.txt"}
        is_back.append(True)
        requeued = scrapy("requeue", tmp_path / "job", "--dead")
        assert requeued.returncode == 0, requeued.stderr
        again = explore(tmp_path, starts, settings, depth=0)
    assert again.page("/about/")["error"] is None
    assert again.error_kinds() == {"robots": 1}


# -- files that are made to do harm ------------------------------------------------------------------------------------


def site_with(body, **headers):
    async def robots(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/plain", headers=headers)

    return MockSite({"/robots.txt": robots})


@pytest.mark.nightly
def test_a_robots_txt_that_unpacks_to_gigabytes_forbids_everything(tmp_path):
    bomb = gzip.compress(b"\n" * 2**28)
    with site_with(bomb, **{"Content-Encoding": "gzip"}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/about/"))
        assert site.measures.hits == {"/robots.txt": 1}
    assert outcome.error_kinds() == {"robots": 1}
    assert "everything is forbidden" in outcome.log


def test_rules_for_our_name_and_a_version_are_for_us_and_a_start_is_told_the_cure(tmp_path):
    with site_with(b"User-agent: LLMcrawler/2\nDisallow: /\n").in_thread() as site:
        url, domain = site.url("/about/").replace("//", "//me:secret-1@"), {"HTTPAUTH_DOMAIN": "127.0.0.1"}
        (cookies := tmp_path / "cookies.txt").write_text("other.example\tFALSE\t/\tFALSE\t0\tsid\tsecret-1\n")
        outcome = explore(tmp_path, url, domain, depth=0, cookies=str(cookies))
    assert outcome.error_kinds() == {"robots": 1}
    assert "ROBOTSTXT_OBEY=False for a site of your own" in outcome.page("/about/")["error"]["message"]
    place = site.origin.partition("//")[2]
    assert f"in the start URL are not used: set HTTPAUTH_USER, HTTPAUTH_PASS and HTTPAUTH_DOMAIN={place}" in outcome.log
    assert f"cookies={cookies} has none for a start URL" in outcome.log
    assert "HTTPAUTH_DOMAIN=127.0.0.1 is the host of no start URL" in outcome.log
    assert "secret-1" not in outcome.log


@pytest.mark.nightly
def test_lists_beyond_the_limit_are_counted_and_not_named_one_by_one(tmp_path):
    count = 1000

    async def sitemap(request: web.Request) -> web.Response:
        number = request.path.rpartition("/")[2]
        return web.Response(body=index(str(request.url.origin()), [f"/sitemap/{number}-{n}" for n in range(count)]))

    named = "".join(f"Sitemap: /sitemap/{number}\n" for number in range(20_000))
    with MockSite({"/robots.txt": named, "/sitemap/*": sitemap}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/about/"), max_pages=3)
        asked = [path for path in site.measures.hits if path.startswith("/sitemap/")]
    assert len(asked) == 50
    warnings = [line for line in outcome.log.splitlines() if "WARNING" in line]
    assert len([line for line in warnings if "19,950 lists over 50 are not read" in line]) == 1
    assert len([line for line in warnings if f"{count:,} lists over 50 are not read" in line]) == 50
    assert len(warnings) < 60
