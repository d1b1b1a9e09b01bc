"""The hostile site is as hostile as it says, and its honest half is a whole shop."""

from __future__ import annotations

import re
import socket

import pytest

from tests.servers.hostile_pages import PAGES
from tests.servers.hostile_robots import ROBOTS, SITEMAPS, sitemap_of
from tests.servers.hostile_server import Visit
from tests.servers.hostile_site import HOSTILE, TWINS, HonestShop, HostileSite

VISIT = Visit("/hostile/x", "http://127.0.0.3:80", {}, 1)


@pytest.fixture(scope="module")
def shop():
    return HonestShop(12, has_forms=False)


def test_there_are_sixty_hostile_pages_and_more_of_names_that_urls_can_have():
    assert len(PAGES) + len(TWINS) >= 60
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in (*PAGES, *TWINS, *ROBOTS))


@pytest.mark.nightly
@pytest.mark.slow
def test_every_row_can_be_made():
    for row in (*PAGES.values(), *ROBOTS.values(), *SITEMAPS.values()):
        answer = row(VISIT)
        assert answer.raw or answer.head().startswith(b"HTTP/1.1 ")
    assert sitemap_of("/sitemap-7.xml") is not None


@pytest.mark.parametrize("name", TWINS)
def test_every_twin_is_a_product_and_much_more(shop, name):
    (smallest, largest) = (f(len(TWINS[name](one.html)) - len(one.html) for one in shop.products) for f in (min, max))
    assert largest > 100_000
    assert smallest >= 0


def test_the_shops_links_lead_to_its_pages(shop):
    links = {link for one in shop.pages.values() for link in re.findall(r'<a [^>]*href="(/[^"]*)"', one.html)}
    assert {link for link in links if not link.startswith("/media/")} - {"/c/home"} <= shop.pages.keys()
    assert len(HonestShop(93).pages) == 200


@pytest.mark.server
def test_it_says_what_no_http_server_would(shop):
    with HostileSite(shop, robots={}).in_thread() as site:
        with socket.create_connection((HOSTILE, site.port)) as client:
            client.sendall(b"GET /hostile/http-0.9 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"<html>")
        assert site.visits[site.url("/hostile/http-0.9", HOSTILE)] == 1
