"""Tells which hosts a crawl may reach: public ones, those that the user named, and the user's proxies."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.politeness.proxies import ProxyPool
from llmcrawler.core.urls import AddressGuard, NameLookup

_MAX_REFUSED_NAMES: Final = 10_000


class ReachableHosts:
    """Hosts that a crawl may reach. Without `is_guarded` a person chooses each url, and nothing is refused.
    `checks_names`: names are looked up here before a proxy looks them up. `refused_names` says of the names that the
    resolver refused last why it did: Twisted loses that reason on its way to the request.
    """

    def __init__(
        self,
        addresses: AddressGuard,
        proxies: ProxyPool | None,
        names: NameLookup | None = None,
        *,
        checks_names: bool,
        is_guarded: bool = True,
    ) -> None:
        self.is_guarded = is_guarded
        self.addresses = addresses
        self.names = names or NameLookup()
        self.checks_names = checks_names
        self.refused_names: dict[str, str] = {}
        self._proxies = proxies
        self._proxy_hosts: set[str] = set()  # of proxies that requests were given outside of the pool

    def add_proxy(self, address: str) -> None:
        """Remember the host of a proxy that a request goes through."""
        with suppress(ValueError):
            self._proxy_hosts.add(urlsplit(address if "//" in address else f"//{address}").hostname or "")

    def is_proxy(self, host: str) -> bool:
        return host in self._proxy_hosts or (self._proxies is not None and host in self._proxies.hosts)

    def reason_to_refuse(self, address: str, name: str) -> str | None:
        """Return why a name that resolves to this address may not be reached. What is asked of a proxy is judged
        before.
        """
        if not self.is_guarded or self.is_proxy(name):
            return None
        return self.addresses.reason_to_refuse_address(address, name)

    def add_refused_name(self, name: str, reason: str) -> None:
        if len(self.refused_names) >= _MAX_REFUSED_NAMES:
            del self.refused_names[next(iter(self.refused_names))]
        self.refused_names[name] = reason
