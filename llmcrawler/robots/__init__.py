"""robots.txt by RFC 9309: what a file allows one crawler, and what else it says to it."""

from llmcrawler.robots.groups import MAX_BYTES, RequestRate, Robots, parse_robots, product_token
from llmcrawler.robots.kept import KeptRobots
from llmcrawler.robots.rules import Rules

__all__ = ["MAX_BYTES", "KeptRobots", "RequestRate", "Robots", "Rules", "parse_robots", "product_token"]
