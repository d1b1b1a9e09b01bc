"""Which hosts and addresses a crawl may touch: one of the public web stays there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

_PRIVATE_NAMES = re.compile(
    r"(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa|localdomain)\.?\Z", re.IGNORECASE
)
_NUMBER = re.compile(r"(?:0x[0-9a-f]+|\d+)\Z", re.IGNORECASE)


def is_private_host(host: str) -> bool:
    """A host as a url gives it. Odd spellings of an IPv4 address count as what systems resolve them to."""
    host = host.strip("[]").rstrip(".")
    address = _address(host)
    return _is_private(address) if address is not None else bool(_PRIVATE_NAMES.search(host))


def is_private_address(address: str) -> bool:
    """An address as the resolver gives it; ValueError when it is none."""
    return _is_private(ip_address(address.partition("%")[0]))


class AddressGuard:
    """Keeps a crawl out of private networks; a private start host opens only itself."""

    def __init__(self, start_hosts: Iterable[str]) -> None:
        self._admitted = {host.lower() for host in start_hosts}

    def reason_to_refuse(self, host: str) -> str | None:
        if host.lower() in self._admitted or not is_private_host(host):
            return None
        return f"{host} is a private address, which no start url named"

    def reason_to_refuse_address(self, address: str, host: str) -> str | None:
        """For the address that a name resolved to."""
        if host.lower() in self._admitted or not is_private_address(address):
            return None
        return f"resolves to {address}, a private address"


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return _odd_ipv4(host)


def _odd_ipv4(host: str) -> IPv4Address | None:
    """One to four numbers, decimal, octal or hexadecimal, the last one filling the rest (inet_aton)."""
    numbers = host.split(".")
    if not 1 <= len(numbers) <= 4 or not all(_NUMBER.match(number) for number in numbers):
        return None
    try:
        values = [int(number, 8 if re.match(r"0\d", number) else 0) for number in numbers]
        if any(value > 255 for value in values[:-1]):
            return None
        head = sum(value << (24 - 8 * place) for place, value in enumerate(values[:-1]))
        return IPv4Address(head + values[-1])
    except ValueError:
        return None


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if embedded is not None:
            return _is_private(embedded)
    return not address.is_global or address.is_multicast
