"""Proxies: where they come from, which one takes a request, and which are banned or dead."""

from llmcrawler.proxies.bans import BanRules
from llmcrawler.proxies.pool import PoolRules, ProxyPool, Taken
from llmcrawler.proxies.proxy import Proxy, ProxyProvider, parse_country, parse_proxy
from llmcrawler.proxies.proxy_checks import ProxyCheck, check_proxies
from llmcrawler.proxies.sources import FixedProxies, read_countries, resolve_proxies

__all__ = [
    "BanRules",
    "FixedProxies",
    "PoolRules",
    "Proxy",
    "ProxyCheck",
    "ProxyPool",
    "ProxyProvider",
    "Taken",
    "check_proxies",
    "parse_country",
    "parse_proxy",
    "read_countries",
    "resolve_proxies",
]
