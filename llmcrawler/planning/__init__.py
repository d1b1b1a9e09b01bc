"""Before a crawl is paid for: from a sample of a site's pages to its size, and to what the model will be asked."""

from llmcrawler.planning.growth import Range, Stratum, site_size
from llmcrawler.planning.plan import THOUGHT_TOKENS, Plan, Terms, make_plan
from llmcrawler.planning.sample import SampledPage, SiteSample
from llmcrawler.planning.strata import strata_of

__all__ = [
    "THOUGHT_TOKENS",
    "Plan",
    "Range",
    "SampledPage",
    "SiteSample",
    "Stratum",
    "Terms",
    "make_plan",
    "site_size",
    "strata_of",
]
