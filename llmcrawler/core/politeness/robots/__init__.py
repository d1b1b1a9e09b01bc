"""Reads what sites say to robots: robots.txt by RFC 9309, what other answers to it mean, and directives in pages and
their headers.
"""

from llmcrawler.core.politeness.robots.page_directives import NOFOLLOW, NOINDEX, PageRobots
from llmcrawler.core.politeness.robots.parser import MAX_BYTES, Robots, parse_robots, product_token
from llmcrawler.core.politeness.robots.robots_cache import MAX_REDIRECTS, RobotsAnswer, RobotsCache, robots_answer
