"""The server that other tests rely on does what it says."""

import asyncio
import subprocess
import sys
from urllib.request import urlopen

import aiohttp
import pytest
from aiohttp import web

from tests.servers.mock_site import DISALLOWED_COUNT, UNLINKED, MockSite

pytestmark = pytest.mark.server


@pytest.fixture
async def site():
    async with MockSite() as site:
        yield site


@pytest.fixture
async def get(site):
    async with aiohttp.ClientSession() as session:

        async def fetch(path):
            async with session.get(site.url(path), allow_redirects=False) as response:
                return response.status, response.headers, await response.read()

        yield fetch


@pytest.mark.parametrize(
    ("path", "status", "content"),
    [
        ("/", 200, b"Welcome"),
        ("/category/lamps/?page=2", 200, b"Lamp"),
        ("/odd/", 200, b"/odd/missing"),
        ("/odd/missing", 404, b"Not found"),
        ("/odd/500", 500, b""),
        ("/odd/503", 503, b""),
        ("/odd/loop-a", 302, b""),
        ("/odd/gzip", 200, b"Zipped"),
        ("/odd/lying-image", 200, b"PNG"),
        ("/odd/windows-1251", 200, "Лампа".encode("windows-1251")),
        ("/odd/empty", 200, b""),
        ("/trap/calendar/", 200, b"/trap/calendar/2024/7/"),
        ("/trap/calendar/2031/12/", 200, b"/trap/calendar/2032/1/"),
        ("/trap/facets/?size=one", 200, b"size=one&colour=two"),
        ("/trap/session/", 200, b"visit="),
        ("/robots.txt", 200, b"Disallow: /private/"),
    ],
)
async def test_pages_and_faults(get, path, status, content):
    answer_status, _, body = await get(path)
    assert answer_status == status
    assert content in body


async def test_all_links_of_the_shop_lead_to_pages():
    async with MockSite() as site, aiohttp.ClientSession() as session:
        todo, seen = ["/"], {"/"}
        while todo:
            async with session.get(site.url(todo.pop())) as response:
                assert response.status == 200
                for link in (await response.text()).split('href="')[1:]:
                    path = link.partition('"')[0]
                    if path not in seen:
                        seen.add(path)
                        todo.append(path)
        assert len(seen) == 30 + 8 + 6 + 5
        assert site.stats()["repeated"] == {}
        assert not set(UNLINKED) & seen


async def test_sizes(get):
    assert 190_000 < len((await get("/large/7"))[2]) < 210_000
    assert 2_900_000 < len((await get("/odd/huge"))[2]) < 3_100_000
    assert (await get("/robots-test/"))[2].count(b'href="/private/') == DISALLOWED_COUNT


async def test_a_fault_that_goes_away(get):
    assert [(await get("/odd/500-once"))[0] for _ in range(2)] == [500, 200]
    assert [(await get("/odd/429-once"))[0] for _ in range(2)] == [429, 200]


@pytest.mark.parametrize("path", ["/odd/reset", "/odd/truncated"])
async def test_broken_connections(site, get, path):
    with pytest.raises(aiohttp.ClientError):
        await get(path)
    assert set(site.stats()["statuses"]) == {"aborted"}  # aiohttp tries a reset once more


async def test_requests_in_flight_are_measured():
    together = asyncio.Barrier(3)

    async def wait(_request: web.Request) -> web.Response:
        await together.wait()
        return web.Response()

    async with MockSite({"/together/*": wait}) as site, aiohttp.ClientSession() as session:
        await asyncio.gather(*(session.get(site.url(f"/together/{n}")) for n in range(3)))
        assert site.stats()["max_in_flight"] == 3
        assert site.stats()["requests"] == 3


async def test_a_test_can_add_pages():
    async with (
        MockSite({"/mine": "<p>Mine</p>"}) as site,
        aiohttp.ClientSession() as session,
        session.get(site.url("/mine")) as response,
    ):
        assert await response.text() == "<p>Mine</p>"


def test_it_serves_from_a_thread_and_from_a_process():
    with MockSite().in_thread() as site, urlopen(site.url("/about/")) as response:
        assert response.status == 200
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.mock_site"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            word, url = process.stdout.readline().split()
            with urlopen(url) as response:
                assert (word, response.status) == ("READY", 200)
        finally:
            process.terminate()
