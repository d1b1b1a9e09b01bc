"""Rules about urls alone: one spelling, shape, scope, traps, private addresses, sitemaps."""

from llmcrawler.urls.family import family_of
from llmcrawler.urls.lookup import NameLookup
from llmcrawler.urls.normalise import MAX_URL_LENGTH, dedup_key, normalise, with_plain_origin, without_login
from llmcrawler.urls.parts import (
    normalise_with_route,
    origin_of,
    relative_url,
    route_of,
    routed_path,
    site_name,
    site_of,
)
from llmcrawler.urls.pattern import url_pattern
from llmcrawler.urls.private_addresses import AddressGuard, is_private_address, is_private_host, place_of
from llmcrawler.urls.scope import Scope
from llmcrawler.urls.sitemaps import parse_packed_sitemap, parse_sitemap
from llmcrawler.urls.traps import TrapGuard
from llmcrawler.urls.url_lists import Listed, Sitemap, in_turns, parse_llms_txt
from llmcrawler.urls.url_refusals import UrlRefusal, UrlRefusalKind
from llmcrawler.urls.views import canonical_link, names_view, view_key
