"""Tells which hosts and addresses a crawl of the public web may not touch, and looks up the addresses of names."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from llmcrawler.core.urls.normalise import parse_ipv4
from llmcrawler.core.urls.scope import UrlRefusal, UrlRefusalKind

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# RFC 6761, RFC 6762, RFC 8375, ICANN's .internal, and what home routers and offices use.
_PRIVATE_SUFFIXES = tuple(".localhost .local .localdomain .internal .intranet .lan .home .corp .home.arpa".split())
# RFC 6052: the last 32 bits are an IPv4 address that a gateway connects to.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Networks that Python 3.11 takes for public: site-local (RFC 3879), documentation (RFC 9637), IETF (RFC 6890) and
# the relays of 6to4 (RFC 7526).
_MORE_PRIVATE = tuple(map(ipaddress.ip_network, ("fec0::/10", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))


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
    is_known = ip.is_global and not ip.is_multicast and not ip.is_reserved
    return not is_known or any(ip.version == network.version and ip in network for network in _MORE_PRIVATE)


@lru_cache(maxsize=1024)
def is_private_host(host: str) -> bool:
    """Tell by the name alone. A public name may still resolve to a private address, which has to be judged too."""
    host = host.strip("[]").rstrip(".").lower()
    if ":" in host or parse_ipv4(host) is not None:
        return is_private_address(host)
    # A name of one label is a machine of this network or a container beside us, never a public site.
    return "." not in host or host.endswith(_PRIVATE_SUFFIXES)


class AddressGuard:
    """Keeps a crawl off private hosts, but for those that the user named as starts.

    A private start opens its own host and port, and only to itself: the user may send requests there, and so may its
    own pages. No page of another place, public or private, may lead there. Ports 80 and 443 of a host are one place,
    as sites move their visitors from http to https.

    `only_hosts`, where given: of all hosts only these and their subdomains, private or not; "*" are all public ones.
    """

    def __init__(self, start_urls: Iterable[str], only_hosts: Iterable[str] = ()) -> None:
        self._only = tuple(map(_fold, only_hosts))
        starts = ((url, _host_and_port(url)[0]) for url in start_urls)
        self._admitted = {place_of(url) for url, host in starts if is_private_host(host) and self._is_named(host)}
        self._hosts = {_fold(_host_and_port(f"//{place}")[0]) for place in self._admitted}

    @property
    def admits_any(self) -> bool:
        """Tell whether a start is private."""
        return bool(self._admitted)

    def private_place_of(self, url: str) -> str:
        """Return the private place that the page at `url` may ask; "" for a page of the public web: it may ask none."""
        place = place_of(url)
        return place if place in self._admitted else ""

    def reason_to_refuse(self, url: str, source: str | None = None) -> UrlRefusal | None:
        """Judge a url by its host as written. `source` is the url that leads there; None: the user does."""
        place, host = place_of(url), _host_and_port(url)[0]
        if not is_private_host(host):
            is_open = self._is_named(host) or "*" in self._only
            return None if is_open else UrlRefusal(UrlRefusalKind.OFFSITE, f"{host} is not among ONLY_HOSTS")
        return self.reason_to_refuse_place(place, place if source is None else place_of(source))

    def reason_to_refuse_place(self, place: str, source: str) -> UrlRefusal | None:
        """Return why a place (host and port) may not be asked by a page of the place `source`; None where it may."""
        if place and not is_private_host(_host_and_port(f"//{place}")[0]):
            return None
        if place not in self._admitted:
            return UrlRefusal(UrlRefusalKind.PRIVATE_HOST, place)
        if place == source:
            return None
        return UrlRefusal(UrlRefusalKind.PRIVATE_HOST, f"{place} is a start, open to its own pages only")

    def admits_robots_txt(self, url: str, source: str) -> bool:
        """Return whether the robots.txt of a private start may lead to another one on this machine. Such a host is open
        for nothing else.
        """
        host = _fold(_host_and_port(url)[0])
        for one in (host, _fold(_host_and_port(source)[0])):
            address = _parse_address(one)
            if not (one == "localhost" if address is None else address.is_loopback):
                return False
        if urlsplit(url).path != "/robots.txt" or not self.private_place_of(source):
            return False
        self._hosts.add(host)
        return True

    def reason_to_refuse_address(self, address: str | Address, host: str) -> str | None:
        """Judge the address that `host` resolved to, or that the connection was made to. Its url has been judged."""
        ip = _parse_address(address) if isinstance(address, str) else address
        if ip is not None and not is_private_address(ip):
            return None
        # Clouds hand out credentials at link-local addresses: nobody means these by a name.
        inner = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        is_link_local = ip is not None and (inner or ip).is_link_local
        if _fold(host) in self._hosts and (_parse_address(host) is not None or not is_link_local):
            return None
        return f"private address: {host} is {address}"

    def _is_named(self, host: str) -> bool:
        return not self._only or is_host_of(host, self._only)


def is_host_of(host: str, hosts: Iterable[str]) -> bool:
    """Tell whether a host is one of these, or a subdomain of one."""
    host = _fold(host)
    return any(host == one or host.endswith(f".{one}") for one in hosts)


@lru_cache(maxsize=1024)
def place_of(url: str) -> str:
    """Return host and port of an absolute url; the host alone for ports 80 and 443. "" when it has no host."""
    host, port = _host_and_port(url)
    if not (name := _fold(host)):
        return ""
    name = f"[{name}]" if ":" in name else name
    return name if port in (80, 443) else f"{name}:{port}"


@lru_cache(maxsize=1024)
def _host_and_port(url: str) -> tuple[str, int]:
    """Return the host and port of a url; ("", 0) for one without a host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", 0
    return host, port or (443 if parts.scheme in ("https", "wss") else 80)


def _fold(host: str) -> str:
    host = host.strip("[]").rstrip(".").lower()
    address = _parse_address(host)
    return str(address) if address else host


_MAX_NAMES: Final = 10_000
_KEPT_SECONDS: Final = 30.0
_THREADS: Final = 8  # of its own: name servers that do not answer must not hold up what else works in threads


class NameLookup:
    """Looks up names, and keeps the answers for half a minute: what was judged should be what is used."""

    def __init__(
        self,
        *,
        timeout_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        resolve: Callable[..., list[Any]] = socket.getaddrinfo,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(_THREADS, "names")
        self._found: dict[str, tuple[float, asyncio.Task[tuple[str, ...]]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Return all addresses of a host; () where no name service here knows it, or none answers in time."""
        now = self._clock()
        until, looking = self._found.get(host, (now, None))
        if looking is None or (until <= now and looking.done()):
            self._found.pop(host, None)
            if len(self._found) >= _MAX_NAMES:
                del self._found[next(iter(self._found))]
            looking = asyncio.ensure_future(self._look_up(host))
            self._found[host] = now + _KEPT_SECONDS, looking
        return await asyncio.shield(looking)

    def close(self) -> None:
        """End at once, without the look-ups that are under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str) -> tuple[str, ...]:
        resolve = partial(self._resolve, host, None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                found = await asyncio.get_running_loop().run_in_executor(self._threads, resolve)
        except (OSError, UnicodeError, ValueError, RuntimeError):  # RuntimeError: it is closed
            return ()
        return tuple(dict.fromkeys(str(place[4][0]) for place in found))
