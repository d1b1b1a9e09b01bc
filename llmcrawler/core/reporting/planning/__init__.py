"""Estimates a crawl before it is paid for: from a sample of pages to the site's size and the calls of the model."""

from llmcrawler.core.reporting.planning.estimate import THOUGHT_TOKENS, CrawlTerms, make_plan, make_plans
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample, strata_of
from llmcrawler.core.reporting.planning.size_estimate import Range, site_size
