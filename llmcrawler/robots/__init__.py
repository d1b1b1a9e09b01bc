"""robots.txt by RFC 9309: what a file allows one crawler, and what else it says to it."""

from llmcrawler.robots.groups import MAX_BYTES, Robots, parse_robots, product_token
from llmcrawler.robots.kept import KeptRobots

__all__ = ["MAX_BYTES", "KeptRobots", "Robots", "parse_robots", "product_token"]
