"""Proxies: where they come from, which one takes a request, and which are banned or dead."""

from llmcrawler.proxies.bans import BanRules
from llmcrawler.proxies.checking import ProxyCheck, check_proxies
from llmcrawler.proxies.choice import resolve_proxies
from llmcrawler.proxies.fixed import FixedProxies
from llmcrawler.proxies.pool import PoolRules, ProxyPool, Taken
from llmcrawler.proxies.provider import ProxyProvider
from llmcrawler.proxies.proxy import Proxy, parse_country, parse_proxy

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
    "resolve_proxies",
]
