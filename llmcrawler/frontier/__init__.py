"""What is still to be fetched: which urls come in, and in which order they go out."""

from llmcrawler.frontier.admission import Admission, ungrouped
from llmcrawler.frontier.goal import Goal
from llmcrawler.frontier.memory import MemoryFrontier
from llmcrawler.frontier.protocol import FIRST, Counts, Frontier, Lease, UrlTask
from llmcrawler.frontier.pursuit import Pursuit
from llmcrawler.frontier.sqlite import SqliteFrontier

__all__ = [
    "FIRST",
    "Admission",
    "Counts",
    "Frontier",
    "Goal",
    "Lease",
    "MemoryFrontier",
    "Pursuit",
    "SqliteFrontier",
    "UrlTask",
    "ungrouped",
]
