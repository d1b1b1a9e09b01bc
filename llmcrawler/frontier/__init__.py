"""The urls that are still to be fetched: which come in, and in which order they go out."""

from llmcrawler.frontier.admission import Admission, ungrouped
from llmcrawler.frontier.focused_crawl import Pursuit
from llmcrawler.frontier.link_scorer import Goal
from llmcrawler.frontier.mapping import LISTED_ONLY_PRIORITY, TEST_PRIORITY, MapAdmission, MapRules
from llmcrawler.frontier.memory import MemoryFrontier
from llmcrawler.frontier.protocol import FIRST, Counts, Frontier, Lease, UrlTask
from llmcrawler.frontier.sqlite import SqliteFrontier

__all__ = [
    "FIRST",
    "LISTED_ONLY_PRIORITY",
    "TEST_PRIORITY",
    "Admission",
    "Counts",
    "Frontier",
    "Goal",
    "Lease",
    "MapAdmission",
    "MapRules",
    "MemoryFrontier",
    "Pursuit",
    "SqliteFrontier",
    "UrlTask",
    "ungrouped",
]
