import asyncio
import socket
import threading

import pytest

from llmcrawler.core.urls import AddressGuard, NameLookup, is_private_address, is_private_host, place_of

PRIVATE_ADDRESSES = """
    127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 0.0.0.0 100.64.0.1 192.0.2.1
    198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd12:3456::1 ff02::1
    2001:db8::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: nonsense
    fec0::1 3fff::1 192.0.0.8 192.88.99.1
"""
PRIVATE_HOSTS = """
    localhost LOCALHOST localhost. a.localhost printer.local db.internal router.lan x.home.arpa redis intranet
    127.0.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 127.1 017700000001 10.1 [::1] [::ffff:127.0.0.1]
    [::ffff:7f00:1] 0
"""


PUBLIC_ADDRESSES = "93.184.216.34 8.8.8.8 172.32.0.1 2606:4700::1111 ::ffff:8.8.8.8"
PUBLIC_HOSTS = "example.com localhost.example.com internal.example.com 8.8.8.8 134744072 [2606:4700::1111]"


@pytest.mark.parametrize(("addresses", "is_private"), [(PRIVATE_ADDRESSES, True), (PUBLIC_ADDRESSES, False)])
def test_addresses_are_private_unless_they_are_public_unicast_ones(addresses, is_private):
    assert [one for one in addresses.split() if is_private_address(one) is not is_private] == []


@pytest.mark.parametrize(("hosts", "is_private"), [(PRIVATE_HOSTS, True), (PUBLIC_HOSTS, False)])
def test_hosts_are_private_by_their_names(hosts, is_private):
    assert [one for one in hosts.split() if is_private_host(one) is not is_private] == []


def test_a_crawl_of_a_public_host_touches_no_private_one():
    guard = AddressGuard(["https://example.com/"])
    assert not guard.admits_any
    assert guard.reason_to_refuse("https://example.com/") is None
    assert guard.reason_to_refuse("https://other.example/", "https://example.com/") is None
    assert guard.reason_to_refuse("http://localhost/") == "private host: localhost"
    assert guard.reason_to_refuse("http://[::1/") is not None  # no url at all
    assert guard.reason_to_refuse_address("93.184.216.34", "example.com") is None
    # A public name may point inwards (DNS rebinding).
    assert guard.reason_to_refuse_address("10.0.0.5", "example.com") == "private address: example.com is 10.0.0.5"


@pytest.mark.parametrize(
    ("url", "source", "is_refused"),
    [
        ("http://127.0.0.1:8000/a", None, False),
        ("http://127.1:8000/a", None, False),
        ("http://127.0.0.1:8000/a", "http://127.0.0.1:8000/b", False),
        ("http://127.0.0.1:8000/a", "https://example.com/", True),
        ("http://127.0.0.1:8000/a", "http://127.0.0.1:8001/", True),
        ("http://127.0.0.1:8000/a", "http://wiki.corp/", True),  # a private start of its own
        ("http://127.0.0.1:8001/a", None, True),
        ("http://127.0.0.1:8001/a", "http://127.0.0.1:8000/", True),
        ("http://127.0.0.1/", "http://127.0.0.1:8000/", True),
        ("http://localhost:8000/", "http://127.0.0.1:8000/", True),
        ("http://[::ffff:127.0.0.1]:8000/", "http://127.0.0.1:8000/", True),
        ("http://10.0.0.5:8000/", None, True),
        ("https://wiki.corp/", "http://wiki.corp/", False),  # from http to https
        ("http://wiki.corp:8080/", "http://wiki.corp/", True),
        ("https://example.com/", "http://127.0.0.1:8000/", False),
    ],
)
def test_a_private_start_is_open_to_itself_and_closed_to_all_others(url, source, is_refused):
    guard = AddressGuard(["https://example.com/", "http://127.0.0.1:8000/", "http://wiki.corp/"])
    assert (guard.reason_to_refuse(url, source) is not None) == is_refused


def test_the_name_of_a_private_start_may_be_of_any_private_address_but_a_link_local_one():
    guard = AddressGuard(["http://wiki.corp/", "http://169.254.10.1/"])
    assert guard.reason_to_refuse_address("10.0.0.5", "wiki.corp") is None
    assert guard.reason_to_refuse_address("10.0.0.5", "example.com") is not None
    assert guard.reason_to_refuse_address("169.254.169.254", "wiki.corp") is not None
    assert guard.reason_to_refuse_address("::ffff:169.254.169.254", "wiki.corp") is not None
    assert guard.reason_to_refuse_address("169.254.10.1", "169.254.10.1") is None


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://Example.com:80/a", "example.com"),
        ("https://example.com.:443/", "example.com"),
        ("ws://127.1:81/", "127.0.0.1:81"),
        ("http://[0:0::1]:8000/", "[::1]:8000"),
        ("http://host:8o/", ""),
        ("about:blank", ""),
    ],
)
def test_a_place_is_a_host_and_a_port(url, place):
    assert place_of(url) == place


async def test_a_name_is_looked_up_once_for_all_who_wait_and_again_when_it_is_old():
    asked = []
    now = 0.0

    def resolve(host, _port, **_options):
        asked.append(host)
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(0, 0, 0, "", (address, 0)) for address in ("10.0.0.7", "10.0.0.7", "::1")]

    names = NameLookup(clock=lambda: now, resolve=resolve)
    answers = await asyncio.gather(*(names.addresses("inside.example") for _ in range(20)))
    assert set(answers) == {("10.0.0.7", "::1")}
    assert await names.addresses("unknown.example") == ()
    assert await names.addresses("unknown.example") == ()
    assert asked == ["inside.example", "unknown.example"]
    now = 31.0
    await names.addresses("inside.example")
    assert asked[2:] == ["inside.example"]
    names.close()


async def test_a_name_service_that_does_not_answer_holds_nobody_up():
    answer = threading.Event()
    names = NameLookup(timeout_seconds=0.05, resolve=lambda *_, **__: [answer.wait(60)])
    assert await names.addresses("slow.example") == ()
    answer.set()
    names.close()


async def test_what_is_no_name_has_no_address():
    names = NameLookup()
    assert await names.addresses("x" * 64 + ".invalid") == ()
    assert await names.addresses("a..b") == ()
    names.close()


@pytest.mark.parametrize(
    ("url", "source", "is_admitted"),
    [
        ("http://127.1.0.2:8000/robots.txt", "http://127.1.0.1:8000/robots.txt", True),
        ("http://localhost/robots.txt", "http://127.1.0.1:8000/robots.txt", True),
        ("http://10.0.0.7/robots.txt", "http://127.1.0.1:8000/robots.txt", False),
        ("http://127.1.0.2:8000/other", "http://127.1.0.1:8000/robots.txt", False),
        ("http://127.1.0.2:8000/robots.txt?all", "http://127.1.0.1:8000/robots.txt", True),
        ("http://127.1.0.2:8000/robots.txt", "https://example.com/robots.txt", False),
        ("http://127.1.0.2:8000/robots.txt", "http://127.1.0.9:8000/robots.txt", False),
        ("http://169.254.169.254/robots.txt", "http://127.1.0.1:8000/robots.txt", False),
    ],
)
def test_the_robots_txt_of_a_start_on_this_machine_may_lead_to_another_one_on_it(url, source, is_admitted):
    guard = AddressGuard(["http://127.1.0.1:8000/", "https://example.com/"])
    assert guard.admits_robots_txt(url, source) == is_admitted
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    address = "127.0.0.1" if host == "localhost" else host
    assert (guard.reason_to_refuse_address(address, host) is None) == is_admitted
    assert guard.reason_to_refuse(url) is not None  # for all else it is as closed as it was


@pytest.mark.parametrize(
    ("only", "is_open"),
    [
        ("", {"https://a.example/", "https://shop.example/", "http://10.0.0.1/"}),
        ("*", {"https://a.example/", "https://shop.example/"}),
        ("shop.example", {"https://shop.example/", "https://www.shop.example:8000/"}),
        ("Shop.example.,10.0.0.1", {"https://shop.example/", "https://www.shop.example:8000/", "http://10.0.0.1/"}),
        ("*,10.0.0.1", {"https://a.example/", "https://shop.example/", "http://10.0.0.1/"}),
        ("10.0.0.2", set()),
    ],
)
def test_only_the_hosts_that_were_named_are_open_private_starts_too(only, is_open):
    starts = ["https://a.example/", "https://shop.example/", "http://10.0.0.1/"]
    guard = AddressGuard(starts, only.split(",") if only else ())
    others = ["https://www.shop.example:8000/", "https://noshop.example/", "https://shop.example.evil.example/"]
    found = {url for url in (*starts, *others) if guard.reason_to_refuse(url) is None}
    assert found - {*others} == is_open - {*others}
    if "shop" in only.lower():
        assert found == is_open
