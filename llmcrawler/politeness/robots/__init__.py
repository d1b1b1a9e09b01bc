"""Reads robots.txt by RFC 9309: what a file allows one crawler, and what else it says to it."""

from llmcrawler.politeness.robots.parser import MAX_BYTES, Robots, parse_robots, product_token
from llmcrawler.politeness.robots.robots_cache import RobotsCache

__all__ = ["MAX_BYTES", "Robots", "RobotsCache", "parse_robots", "product_token"]
