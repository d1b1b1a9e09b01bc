"""Before a crawl is paid for: from a sample of a site's pages to its size, and to what the model will be asked."""

from llmcrawler.planning.plan import THOUGHT_TOKENS, Terms, make_plan
from llmcrawler.planning.sample import SampledPage, SiteSample, strata_of
from llmcrawler.planning.site_size import Range, Stratum, site_size

__all__ = [
    "THOUGHT_TOKENS",
    "Range",
    "SampledPage",
    "SiteSample",
    "Stratum",
    "Terms",
    "make_plan",
    "site_size",
    "strata_of",
]
