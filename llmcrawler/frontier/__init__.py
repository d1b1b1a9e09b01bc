"""Queues of urls that are still to be fetched: which urls come in, and in which order they go out."""

from llmcrawler.frontier.admission import Admission, ungrouped
from llmcrawler.frontier.focused_crawl import FocusedCrawl
from llmcrawler.frontier.link_scorer import LinkScorer
from llmcrawler.frontier.map_admission import LISTED_ONLY_PRIORITY, TEST_PRIORITY, MapAdmission, MapRules
from llmcrawler.frontier.memory import MemoryFrontier
from llmcrawler.frontier.protocol import FIRST, Counts, Frontier, Lease, UrlTask, sum_of_counts
from llmcrawler.frontier.site_views import SiteViews
from llmcrawler.frontier.sqlite import SqliteFrontier
