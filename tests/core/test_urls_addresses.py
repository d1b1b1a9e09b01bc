import pytest

from llmcrawler.urls import AddressGuard, is_private_address, is_private_host

PRIVATE_ADDRESSES = """
    127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 0.0.0.0 100.64.0.1 192.0.2.1
    198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd12:3456::1 ff02::1
    2001:db8::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: nonsense
"""
PRIVATE_HOSTS = """
    localhost LOCALHOST localhost. a.localhost printer.local db.internal router.lan x.home.arpa redis intranet
    127.0.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 127.1 017700000001 10.1 [::1] [::ffff:127.0.0.1]
    [::ffff:7f00:1] 0
"""


@pytest.mark.parametrize(
    "address",
    PRIVATE_ADDRESSES.split(),
)
def test_addresses_that_are_not_public(address):
    assert is_private_address(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address):
    assert not is_private_address(address)


@pytest.mark.parametrize(
    "host",
    PRIVATE_HOSTS.split(),
)
def test_hosts_that_are_private_by_name(host):
    assert is_private_host(host)


@pytest.mark.parametrize(
    "host",
    ["example.com", "localhost.example.com", "internal.example.com", "8.8.8.8", "134744072", "[2606:4700::1111]"],
)
def test_hosts_that_are_public_by_name(host):
    assert not is_private_host(host)


def test_a_crawl_of_a_public_host_touches_no_private_one():
    guard = AddressGuard(["example.com"])
    assert guard.reason_to_refuse("example.com") is None
    assert guard.reason_to_refuse("other.example") is None
    assert guard.reason_to_refuse("localhost") == "private host: localhost"
    assert guard.reason_to_refuse_address("93.184.216.34", "example.com") is None
    # A public name may point inwards (DNS rebinding).
    assert guard.reason_to_refuse_address("10.0.0.5", "example.com") == "private address: example.com is 10.0.0.5"


def test_a_private_start_host_is_admitted_and_no_other():
    guard = AddressGuard(["localhost", "127.0.0.1"])
    assert guard.reason_to_refuse("localhost") is None
    assert guard.reason_to_refuse("127.1") is None
    assert guard.reason_to_refuse("10.0.0.5") is not None
    assert guard.reason_to_refuse_address("127.0.0.1", "localhost") is None
    assert guard.reason_to_refuse_address("127.0.0.1", "example.com") is not None
