"""The browser's way out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from llmcrawler.core.urls import AddressGuard, place_of
from llmcrawler.engine.browser.gateway import Gateway, Route, Upstream
from tests.servers.mock_site import MockSite


async def ask(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.replace("\n", "\r\n").encode())
    answer = await reader.read()
    writer.close()
    return answer.decode("utf-8", "replace")


async def looked_up(host: str) -> list[str]:
    known = {"inside.example": ["10.0.0.7"], "both.example": ["93.184.216.34", "127.0.0.1"], "unknown.example": []}
    return known.get(host, [host])


@asynccontextmanager
async def proxy_answering(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a proxy that gives every request this answer; yield its address and the heads of the requests."""
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def kind_of_failure(way: Gateway, url: str) -> str | None:
    failure = way.failure(url)
    return None if failure is None else failure.kind


@pytest.fixture
async def site():
    async with MockSite() as site:
        yield site


def gateway(*start_urls: str) -> Gateway:
    return Gateway(AddressGuard(start_urls), timeout_seconds=5, look=looked_up)


def way_of(url: str) -> Route:
    """Of a page of a private start."""
    return Route(place=place_of(url))


@pytest.mark.server
async def test_what_the_crawl_may_ask_is_passed_on_and_the_connection_ends(site):
    way = gateway(site.url())
    answer = await ask(
        await way.port(way_of(site.url())), f"GET {site.url('/about/')} HTTP/1.1\nHost: x\nProxy-Connection: x\n\n"
    )
    await way.close()
    assert answer.startswith("HTTP/1.1 200")
    assert "connection: close" in answer.lower()
    assert "About us" in answer
    assert site.measures.hits == {"/about/": 1}


@pytest.mark.server
async def test_a_tunnel_carries_bytes(site):
    way = gateway(site.url())
    port = await way.port(way_of(site.url()))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    host = site.origin.partition("//")[2]
    writer.write(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.write(f"GET /about/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert b"About us" in await reader.read()
    writer.close()
    await way.close()


@pytest.mark.server
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "inside.example", "both.example"])
@pytest.mark.parametrize("method", ["CONNECT", "GET"])
async def test_a_public_crawl_reaches_no_private_address_by_any_name(site, host, method):
    way = gateway("http://shop.example/")
    place = f"{host}:{site.origin.rpartition(':')[2]}"
    target = place if method == "CONNECT" else f"http://{place}/"
    assert await ask(await way.port(Route()), f"{method} {target} HTTP/1.1\nHost: {place}\n\n") == ""
    await way.close()
    assert not site.measures.hits
    assert kind_of_failure(way, f"http://{place}/") == "private_address"


@pytest.mark.server
async def test_why_a_host_could_not_be_reached_is_known(unused_port):
    url = f"http://127.0.0.1:{unused_port}/"
    way = gateway(url)
    await ask(await way.port(way_of(url)), f"GET {url} HTTP/1.1\nHost: x\n\n")
    await ask(await way.port(Route()), "CONNECT unknown.example:443 HTTP/1.1\nHost: x\n\n")
    await way.close()
    assert [kind_of_failure(way, one) for one in (url, "https://unknown.example/")] == ["refused", "dns"]


@pytest.mark.server
@pytest.mark.parametrize("method", ["CONNECT", "GET", "POST"])
async def test_a_private_start_is_reached_from_its_own_pages_alone(site, method):
    port = int(site.origin.rpartition(":")[2])
    way = gateway("http://127.0.0.1:1/", site.url(), "http://shop.example/")
    for source in (Route(), way_of("http://127.0.0.1:1/")):
        place = f"127.0.0.1:{port}"
        target = place if method == "CONNECT" else f"http://{place}/"
        assert await ask(await way.port(source), f"{method} {target} HTTP/1.1\nHost: {place}\n\n") == ""
    await way.close()
    assert not site.measures.hits
    assert kind_of_failure(way, site.url()) == "private_address"


@pytest.mark.server
async def test_names_that_a_proxy_looks_up_are_judged_unless_the_user_says_otherwise():
    async with proxy_answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (address, asked):
        for checks in (True, False):
            guard = AddressGuard(["http://shop.example/"])
            way = Gateway(guard, timeout_seconds=5, look=looked_up, checks_proxied=checks)
            for host in ("inside.example", "unknown.example"):
                port = await way.port(Route(Upstream(address)))
                await ask(port, f"GET http://{host}/ HTTP/1.1\nHost: {host}\n\n")
            await way.close()
    urls = [one.split()[1] for one in asked]
    assert urls == [b"http://unknown.example/", b"http://inside.example/", b"http://unknown.example/"]


@pytest.mark.server
async def test_a_proxy_is_asked_with_its_credentials():
    way = gateway("http://shop.example/")
    async with proxy_answering(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n") as (address, asked):
        port = await way.port(Route(Upstream(address, b"Basic eDp5")))
        answer = await ask(port, "GET http://93.184.216.34/a HTTP/1.1\nHost: 93.184.216.34\n\n")
        await ask(port, "CONNECT 93.184.216.34:443 HTTP/1.1\nHost: 93.184.216.34:443\n\n")
        failure = way.failure("https://93.184.216.34/")
        await way.close()
    assert answer.startswith("HTTP/1.1 407")
    assert asked[0].startswith(b"GET http://93.184.216.34/a HTTP/1.1\r\n")
    assert asked[1].startswith(b"CONNECT 93.184.216.34:443 HTTP/1.1\r\n")
    assert all(b"Proxy-Authorization: Basic eDp5\r\n" in one for one in asked)
    assert failure is not None
    assert (failure.kind, str(failure)) == ("proxy", "{'status': 407}")


@pytest.fixture
async def unused_port():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    return port
