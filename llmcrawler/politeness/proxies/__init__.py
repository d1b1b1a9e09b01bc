"""Proxies: where they come from, which one takes a request, and which are banned or dead."""

from llmcrawler.politeness.proxies.bans import BanRules
from llmcrawler.politeness.proxies.pool import AssignedProxy, PoolRules, ProxyPool
from llmcrawler.politeness.proxies.proxy import Proxy, ProxyProvider, parse_country, parse_proxy
from llmcrawler.politeness.proxies.proxy_checks import ProxyCheck, check_proxies
from llmcrawler.politeness.proxies.proxy_sources import FixedProxies, read_countries, resolve_proxies
