"""Rules about urls alone: one spelling, shape, scope, traps, private addresses, sitemaps."""

from llmcrawler.core.urls.family import family_of
from llmcrawler.core.urls.lookup import NameLookup
from llmcrawler.core.urls.normalise import MAX_URL_LENGTH, dedup_key, normalise, with_plain_origin, without_login
from llmcrawler.core.urls.parts import (
    normalise_with_route,
    origin_of,
    relative_url,
    route_of,
    routed_path,
    site_name,
    site_of,
)
from llmcrawler.core.urls.pattern import url_pattern
from llmcrawler.core.urls.private_addresses import AddressGuard, is_private_address, is_private_host, place_of
from llmcrawler.core.urls.scope import Scope
from llmcrawler.core.urls.sitemaps import parse_packed_sitemap, parse_sitemap
from llmcrawler.core.urls.traps import TrapGuard
from llmcrawler.core.urls.url_lists import Listed, Sitemap, in_turns, parse_llms_txt
from llmcrawler.core.urls.url_refusals import UrlRefusal, UrlRefusalKind
from llmcrawler.core.urls.views import canonical_link, names_view, view_key
