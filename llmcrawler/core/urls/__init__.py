"""Rules about urls alone: one spelling, shape, scope, traps, private addresses, sitemaps."""

from llmcrawler.core.urls.normalise import (
    MAX_URL_LENGTH,
    dedup_key,
    normalise,
    normalise_with_route,
    origin_of,
    relative_url,
    route_of,
    routed_path,
    site_name,
    site_of,
    with_plain_origin,
    without_login,
)
from llmcrawler.core.urls.private_addresses import (
    AddressGuard,
    NameLookup,
    is_private_address,
    is_private_host,
    place_of,
)
from llmcrawler.core.urls.scope import Scope, UrlRefusal, UrlRefusalKind
from llmcrawler.core.urls.sitemaps import Listed, Sitemap, in_turns, parse_llms_txt, parse_packed_sitemap, parse_sitemap
from llmcrawler.core.urls.traps import TrapGuard
from llmcrawler.core.urls.url_patterns import canonical_link, coarse_pattern, names_variant, url_pattern, variant_key
