"""Which hosts and addresses a crawl of the public web may not touch (DESIGN section 9)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# RFC 6761, RFC 6762, RFC 8375, ICANN's .internal, and what home routers and offices use.
_PRIVATE_SUFFIXES = (
    ".localhost",
    ".local",
    ".localdomain",
    ".internal",
    ".intranet",
    ".lan",
    ".home",
    ".corp",
    ".home.arpa",
)
# RFC 6052: the last 32 bits are an IPv4 address that a gateway connects to.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def parse_ipv4(host: str) -> ipaddress.IPv4Address | None:
    """Read all the forms that inet_aton and browsers read: "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1".

    None when the host is not such a number. The algorithm is the IPv4 parser of the WHATWG URL standard.
    """
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = []
    for part in parts:
        base, digits = 10, part
        if part[:2] in ("0x", "0X"):
            base, digits = 16, part[2:] or "0"
        elif len(part) > 1 and part[0] == "0":
            base = 8
        if len(digits) > 16 or (base == 8 and re.search("[89]", digits)):
            return None
        numbers.append(int(digits, base))
    *head, last = numbers
    if any(number > 255 for number in head) or last >= 256 ** (4 - len(head)):
        return None
    value = last + sum(number << (8 * (3 - place)) for place, number in enumerate(head))
    return ipaddress.IPv4Address(value)


def _parse_address(text: str) -> Address | None:
    text = text.strip("[]").partition("%")[0]
    if ":" not in text:
        return parse_ipv4(text)
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        return None


def is_private_address(address: str | Address) -> bool:
    """Tell whether the address is anything but a public unicast one; a text that is no address counts as private."""
    ip = _parse_address(address) if isinstance(address, str) else address
    if ip is None:
        return True
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        elif ip.teredo:
            inner = ip.teredo[1]
        elif int(ip) >> 32 == 0:  # ::a.b.c.d, the deprecated IPv4-compatible form
            return True
        if inner is not None:
            return is_private_address(inner)
    return not ip.is_global or ip.is_multicast or ip.is_reserved


def is_private_host(host: str) -> bool:
    """Tell by the name alone. A public name may still resolve to a private address: check that one as well."""
    host = host.strip("[]").rstrip(".").lower()
    if ":" in host or parse_ipv4(host) is not None:
        return is_private_address(host)
    # A name of one label is a machine of this network or a container beside us, never a public site.
    return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


class AddressGuard:
    """Keeps a crawl off private hosts, but for those the user named as a start: they, and only they, are admitted."""

    def __init__(self, start_hosts: Iterable[str]) -> None:
        self._admitted = {_fold(host) for host in start_hosts if is_private_host(host)}

    def reason_to_refuse(self, host: str) -> str | None:
        """Judge a host as it stands in a url, without its port."""
        if _fold(host) in self._admitted or not is_private_host(host):
            return None
        return f"private host: {host}"

    def reason_to_refuse_address(self, address: str | Address, host: str) -> str | None:
        """Judge the address that `host` resolved to, or that the connection was made to."""
        if not is_private_address(address) or _fold(host) in self._admitted:
            return None
        return f"private address: {host} is {address}"


def _fold(host: str) -> str:
    host = host.strip("[]").rstrip(".").lower()
    address = _parse_address(host)
    return str(address) if address else host
