"""Reads robots.txt by RFC 9309 for Scrapy: the value of ROBOTSTXT_PARSER."""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser
from scrapy.utils.python import to_unicode

from llmcrawler.politeness.robots import Robots, parse_robots, product_token


class GroupRobotParser(RobotParser):
    """Applies the rules for the crawl's own name (ROBOTSTXT_USER_AGENT, USER_AGENT), and ignores the agent that Scrapy
    names with each question.
    """

    def __init__(self, robots: Robots) -> None:
        self.robots = robots

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        user_agent = crawler.settings["ROBOTSTXT_USER_AGENT"] or crawler.settings["USER_AGENT"] or ""
        return cls(parse_robots(robotstxt_body, product_token(str(user_agent))))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:  # noqa: ARG002 (Scrapy's)
        return self.robots.allows(to_unicode(url))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:  # noqa: ARG002 (Scrapy's)
        """Return the longest gap in seconds between requests that the file asks for (Crawl-delay, Request-rate)."""
        return self.robots.gap_seconds

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return self.robots.sitemaps

    @property
    def size_bytes(self) -> int:
        return self.robots.size_bytes
