"""Reads robots.txt by RFC 9309 for Scrapy: the value of ROBOTSTXT_PARSER."""

from __future__ import annotations

from typing import Final, Self

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser
from scrapy.utils.python import to_unicode

from llmcrawler.core.politeness.robots import Robots, parse_robots
from llmcrawler.crawl.configuration import own_token

FORBIDS_ALL: Final = b"User-agent: *\nDisallow: /"


class GroupRobotParser(RobotParser):
    """Applies the rules for the crawl's own name (ROBOTSTXT_USER_AGENT, USER_AGENT), and ignores the agent that Scrapy
    names with each question.
    """

    def __init__(self, robots: Robots) -> None:
        self.robots = robots

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        return cls(parse_robots(robotstxt_body, own_token(crawler.settings)))

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


class UnreachableRobots(GroupRobotParser):
    """Stands for a robots.txt that cannot be had: everything is forbidden until it can (RFC 9309, 2.3.1.4).

    `is_final`: its pages do not wait for it.
    """

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(parse_robots(FORBIDS_ALL, ""))
        self.reason = reason
        self.is_final = is_final
