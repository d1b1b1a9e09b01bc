"""Proxies: where they come from, which one takes a request, and which are banned or dead."""

from llmcrawler.core.politeness.proxies.bans import BanRules
from llmcrawler.core.politeness.proxies.pool import AssignedProxy, PoolRules, ProxyPool
from llmcrawler.core.politeness.proxies.proxy import Proxy, ProxyProvider, parse_country, parse_proxy
from llmcrawler.core.politeness.proxies.proxy_checks import ProxyCheck, check_proxies
from llmcrawler.core.politeness.proxies.proxy_sources import FixedProxies, read_countries, resolve_proxies
