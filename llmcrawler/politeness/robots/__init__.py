"""Reads robots.txt by RFC 9309: what a file allows one crawler, and what else it says to it."""

from llmcrawler.politeness.robots.parser import MAX_BYTES, Robots, RobotsCache, parse_robots, product_token
